"""Prices of a served board whose times are planted: the fit finds them and its error; searches read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
import timed_board
from boards import NPU, Fitted, small_network, write_samples
from served import Served, served

import dovetail
from dovetail.backend.costs import Quality
from dovetail.cli.main import main
from dovetail.cost import load_cost_table
from dovetail.errors import CostError
from dovetail.exporters.onnx import to_onnx
from dovetail.fit.board_costs import TimedRow, fit_costs
from dovetail.ir import Graph
from dovetail.ir.precision import Precision

PLACE = f"{NPU}@i8pc"
METRIC = (
    "def score(outputs, labels):\n    return 1 - abs(next(iter(outputs.values())) - labels['y']).mean(axis=(1, 2, 3))\n"
)


@dataclass(frozen=True)
class Priced:
    """A model with its files, and what the commands said."""

    folder: Path
    graph: Graph
    said: dict[str, object]

    @property
    def costs(self) -> Path:
        return self.folder / "costs.json"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A path of Python on which the backend is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    info = folder / "timed_board-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: timed-board\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.backends]\ntimed = timed_board:backend\n")
    return os.pathsep.join([str(folder), str(Path(timed_board.__file__).parent)])


@pytest.fixture(scope="module", params=["exact", "discount"])
def priced(request: pytest.FixtureRequest, plugin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Priced]:
    folder = tmp_path_factory.mktemp(request.param)
    onnx.save(to_onnx(small_network()), folder / "model.onnx")
    write_samples(folder / "x.npz")
    graph = dovetail.normalize(dovetail.load_model(folder / "model.onnx"))
    call = ("calibrate", folder / "model.onnx", "--data", folder / "x.npz", "-o", folder / "ranges.json")
    assert main([str(item) for item in call]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", plugin)
        patch.setenv("TIMED_BOARD", request.param)
        with served(tmp_path_factory.mktemp("board")) as server:
            patch.delenv("TIMED_BOARD")
            yield Priced(folder, graph, _calibrated(folder, server))


def _calibrated(folder: Path, server: Served) -> dict[str, object]:
    options = ("--ranges", folder / "ranges.json", "--place", PLACE, "--backend", f"{NPU}=timed", "--runs", 4)
    words = (
        "calibrate-cost",
        folder / "model.onnx",
        *options,
        "--on",
        server.url,
        "-o",
        folder / "costs.json",
        "--json",
    )
    command = [sys.executable, "-m", "dovetail.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def planted(priced: Priced) -> dict[str, int]:
    """What each layer takes, by the node that does the work, with the clamp behind it."""
    bundle_graph = _quantized(priced)
    found: dict[str, int] = {}
    for node in bundle_graph.nodes:
        taken = timed_board.layer_ns(bundle_graph, node)
        if node.op == "Relu":
            found[bundle_graph.producers[node.inputs[0]].name] += taken
        else:
            found[node.name] = taken
    return found


def _quantized(priced: Priced) -> Graph:
    plan = dovetail.make_plan(
        priced.graph, dovetail.Recipe(dovetail.parse_placement(PLACE)), {NPU: dovetail.find_target(NPU)}
    )
    ranges = dovetail.load_ranges(priced.folder / "ranges.json")
    parts = dovetail.partition(dovetail.quantize(priced.graph, plan, ranges)).partitions
    (graph,) = (part.graph for part in parts if part.target == NPU)
    return graph


@pytest.mark.parametrize("priced", ["exact"], indirect=True)
def test_the_fit_finds_the_planted_times(priced: Priced) -> None:
    table = load_cost_table(priced.costs)
    assert (table.target, table.quality) == (NPU, Quality.MEASURED)
    assert table.overhead_ns == pytest.approx(timed_board.OVERHEAD_NS, rel=0.01)
    assert table.bytes_per_s == pytest.approx(1e9 / timed_board.NS_PER_BYTE, rel=0.01)
    expected = planted(priced)
    assert {entry.node: entry.latency_ns for entry in table.entries} == pytest.approx(expected, rel=0.01)
    assert len(expected) == 4
    held_out = priced.said["held_out"]
    assert isinstance(held_out, dict)
    assert held_out["rows"] > 1
    assert held_out["largest"] < 0.005


@pytest.mark.parametrize("priced", ["discount"], indirect=True)
def test_where_times_are_no_sums_the_error_says_so(priced: Priced) -> None:
    errors = [priced.said["fitted"], priced.said["held_out"]]
    largest = [error["largest"] for error in errors if isinstance(error, dict)]
    assert max(largest) > 0.05


@pytest.mark.parametrize("priced", ["exact"], indirect=True)
def test_cost_reads_the_table(priced: Priced, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    call = ("cost", priced.folder / "model.onnx", "--place", PLACE, "--costs", priced.costs, "--json")
    assert main([str(item) for item in call]) == 0
    found = json.loads(capsys.readouterr().out)
    units = [unit for unit in found["units"] if unit["placement"] == PLACE]
    assert {unit["quality"] for unit in units} == {"measured"}
    assert sum(unit["latency_ns"] for unit in units) == pytest.approx(sum(planted(priced).values()), rel=0.01)
    slower = json.loads(priced.costs.read_text())
    slower["overhead_ns"] += 7e6
    (priced.folder / "slower.json").write_text(json.dumps(slower))
    assert main([str(item) for item in (*call[:5], priced.folder / "slower.json", "--json")]) == 0
    later = json.loads(capsys.readouterr().out)
    assert later["latency_ns"] - found["latency_ns"] == pytest.approx(7e6 * (found["partitions"] - 1))


@pytest.mark.slow
@pytest.mark.parametrize("priced", ["exact"], indirect=True)
def test_tune_reads_the_table(priced: Priced) -> None:
    folder = priced.folder
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 1, 3, 16, 16)).astype(np.float32)
    with dovetail.open_session(Fitted(priced.graph, "cpu@fp32", {}).bundle(folder / "x.npz")) as session:
        y = np.concatenate([next(iter(session.run({"x": one}).outputs.values())) for one in x])
    np.savez(folder / "labelled.npz", x=x, y=y)
    (folder / "metric.py").write_text(METRIC)
    call = (
        "tune",
        folder / "model.onnx",
        "--data",
        folder / "labelled.npz",
        "--metric",
        f"{folder / 'metric.py'}:score",
    )
    options = ("--target", NPU, "--max-drop", "0.5", "--costs", priced.costs, "-o", folder / "out")
    assert main([str(item) for item in (*call, *options)]) == 0
    assert "measured on grpc://" in (folder / "out" / "report.html").read_text(encoding="utf-8")


def test_rows_that_add_up_are_told_apart() -> None:
    """Against figures worked out by hand: overhead 100, 2 a byte, layers of 30, 70 and nothing."""
    price = {"a": 30.0, "b": 70.0, "c": 0.0}
    layers = {name: (name, Precision.I8PC) for name in price}
    rows = [
        TimedRow(tuple(layers[name] for name in names), size, 100 + 2 * size + sum(price[name] for name in names), held)
        for names, size, held in (
            *(("a", 8, False), ("b", 24, False), ("c", 40, False)),
            *(("ab", 16, False), ("bc", 30, False), ("abc", 12, True)),
        )
    ]
    found = fit_costs(NPU, "by hand", rows)
    assert found.overhead_ns == pytest.approx(100)
    assert found.ns_per_byte == pytest.approx(2)
    assert {name: value for (name, _), value in found.layers.items()} == pytest.approx(price, abs=1e-6)
    assert found.errors(held_out=True) == pytest.approx([0], abs=1e-9)


def test_a_table_whose_figures_are_none_is_refused(tmp_path: Path) -> None:
    base = {"schema": 1, "kind": "dovetail-costs", "target": NPU, "source": "s", "quality": "measured", "entries": []}
    for value in (-1, "1", True, float("inf")):
        (tmp_path / "c.json").write_text(json.dumps({**base, "overhead_ns": value}))
        with pytest.raises(CostError, match="'overhead_ns' is no figure"):
            load_cost_table(tmp_path / "c.json")
