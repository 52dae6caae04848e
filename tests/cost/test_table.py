"""Tables of latencies: what they price, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dovetail.backend.costs import Figure, Quality
from dovetail.cost import CostEntry, CostTable, load_cost_table
from dovetail.errors import CostError
from dovetail.ir import Graph, parse_graph
from dovetail.ir.precision import Precision

U8, I16 = Precision.U8, Precision.I16


def _graph() -> Graph:
    """Return a chain whose second node stands for two nodes of its file."""
    return parse_graph(
        "\n".join(
            [
                'graph "g" opset 21',
                'input "x": f32[4]',
                '"a" = Sigmoid("x") -> ("ta": f32[4])',
                '"b" = Relu("ta") -> ("tb": f32[4]) origin ["b1", "b2", "b3"]',
                'output "tb"',
                "end",
            ]
        )
    )


def _table(*entries: CostEntry) -> CostTable:
    return CostTable("vsi:v853", "stop-watch", Quality.MEASURED, entries)


def _latency(table: CostTable, *names: str, target: str = "vsi:v853", precision: Precision = U8) -> Figure | None:
    graph = _graph()
    return table.latency(graph, [graph.node(name) for name in names], target, precision)


def test_a_step_is_the_sum_of_its_nodes() -> None:
    table = _table(CostEntry("a", U8, 10.0), CostEntry("b", U8, 3.0), CostEntry("a", I16, 200.0))
    assert _latency(table, "a", "b") == Figure(13.0, Quality.MEASURED, "stop-watch")
    assert _latency(table, "a", precision=I16) == Figure(200.0, Quality.MEASURED, "stop-watch")


def test_what_follows_the_first_needs_no_entry_and_the_first_does() -> None:
    table = _table(CostEntry("a", U8, 10.0))
    assert _latency(table, "a", "b") == Figure(10.0, Quality.MEASURED, "stop-watch")
    assert _latency(table, "b", "a") is None
    assert _latency(table, "a", precision=I16) is None
    assert _latency(table) is None


def test_another_target_is_not_priced() -> None:
    assert _latency(_table(CostEntry("a", U8, 10.0)), "a", target="vsi:a311d") is None


def test_names_of_the_source_file_do_where_the_nodes_own_is_not_there() -> None:
    parts = (CostEntry("b1", U8, 5.0), CostEntry("b3", U8, 7.0), CostEntry("b2", I16, 900.0))
    assert _latency(_table(*parts), "b") == Figure(12.0, Quality.MEASURED, "stop-watch")
    assert _latency(_table(*parts, CostEntry("b", U8, 1.0)), "b") == Figure(1.0, Quality.MEASURED, "stop-watch")


def test_an_entry_of_nothing_is_an_entry() -> None:
    assert _latency(_table(CostEntry("a", U8, 0.0)), "a") == Figure(0.0, Quality.MEASURED, "stop-watch")


def test_a_table_is_the_same_after_the_disk(tmp_path: Path) -> None:
    table = CostTable("vsi:v853", "größe", Quality.MODELLED, (CostEntry("ä", U8, 0.0), CostEntry("b", I16, 1e9)))
    path = tmp_path / "costs.json"
    path.write_text(table.to_json(), encoding="utf-8")
    assert load_cost_table(path) == table
    document = {
        "schema": 1,
        "kind": "dovetail-costs",
        "target": "vsi:v853",
        "source": "größe",
        "quality": "modelled",
        "entries": [
            {"node": "ä", "precision": "u8", "latency_ns": 0.0},
            {"node": "b", "precision": "i16", "latency_ns": 1e9},
        ],
    }
    assert path.read_text(encoding="utf-8") == json.dumps(document, indent=1, ensure_ascii=False) + "\n"


ENTRY = {"node": "a", "precision": "u8", "latency_ns": 1}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "else"}, "not a cost table of schema 1"),
        ({"schema": 0}, "not a cost table of schema 1"),
        ({"schema": 2}, "not a cost table of schema 1"),
        ({"target": None}, "it has no 'target'"),
        ({"quality": None}, "it has no 'quality'"),
        ({"source": None}, "it has no 'source'"),
        ({"entries": None}, "it has no 'entries'"),
        ({"quality": "guessed"}, "quality 'guessed' is unknown. Known: measured, modelled, fitted, roofline"),
        ({"entries": 3}, "'entries' is a list"),
        ({"entries": [ENTRY, 3]}, "entry 2: a table with node, precision and latency_ns"),
        ({"entries": [{**ENTRY, "node": 3}]}, "entry 1: it needs a node and a known precision, not 3 and 'u8'"),
        ({"entries": [{**ENTRY, "precision": "i9"}]}, "entry 1: it needs a node and a known precision, not 'a' and"),
        ({"entries": [{**ENTRY, "latency_ns": float("nan")}]}, "entry 1: latency_ns of 'a' is no duration"),
        ({"entries": [{**ENTRY, "latency_ns": float("inf")}]}, "no duration"),
        ({"entries": [{**ENTRY, "latency_ns": -1}]}, "no duration: -1"),
        ({"entries": [{**ENTRY, "latency_ns": True}]}, "no duration: True"),
        ({"entries": [{**ENTRY, "latency_ns": "fast"}]}, "no duration: 'fast'"),
    ],
)
def test_a_damaged_table_is_refused_in_one_line(tmp_path: Path, change: dict[str, object], says: str) -> None:
    document = {**json.loads(_table().to_json()), **change}
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))
    with pytest.raises(CostError, match=says) as caught:
        load_cost_table(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[1]", "not a cost table"),
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "costs.json"
    path.write_bytes(content)
    with pytest.raises(CostError, match=says) as caught:
        load_cost_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CostError, match="cannot be read"):
        load_cost_table(tmp_path / "none.json")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    with path.open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    with pytest.raises(CostError, match="larger than 67108864 bytes; this is no cost table"):
        load_cost_table(path)
    with path.open("wb") as stream:
        stream.truncate(64 << 20)
    with pytest.raises(CostError, match="not JSON"):
        load_cost_table(path)
