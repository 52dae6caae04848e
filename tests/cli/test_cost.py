"""dovetail cost: choices a unit, plans, tables and hosts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from .conftest import Said, Tiny

Run = Callable[..., Said]


def _document(said: Said) -> dict[str, object]:
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert isinstance(found, dict)
    return found


def test_every_unit_is_priced_at_every_placement_that_takes_it(tiny: Tiny, run: Run) -> None:
    units = _document(run("cost", tiny.model, "--target", "vsi:a311d", "--json"))["units"]
    assert isinstance(units, list)
    places = {(item["unit"], item["placement"]) for item in units}
    assert {place for _, place in places} == {"vsi:a311d@i8pc", "vsi:a311d@i16", "cpu@fp32"}
    assert ("join", "cpu@fp32") in places
    assert all(item["latency_ns"] > 0 for item in units if item["op"] != "Concat" and item["source"])
    assert {item["quality"] for item in units if item["placement"] == "cpu@fp32"} == {"roofline"}
    assert "fitted" in {item["quality"] for item in units if item["placement"] == "vsi:a311d@i16"}


def test_a_slower_host_makes_float_dearer_and_a_table_wins(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    call = ("cost", tiny.model, "--place", "cpu@fp32", "--json")
    slow, fast = (_document(run(*call, "--host", name))["latency_ns"] for name in ("cortex-a7", "cortex-a73x4"))
    assert isinstance(slow, float)
    assert isinstance(fast, float)
    assert slow > fast
    table = {"schema": 1, "kind": "dovetail-costs", "target": "cpu", "source": "board 7", "quality": "measured"}
    entries = [{"node": "trunk", "precision": "fp32", "latency_ns": 5e6}]
    (tmp_path / "costs.json").write_text(json.dumps({**table, "entries": entries}))
    measured = _document(run(*call, "--costs", tmp_path / "costs.json"))
    units = measured["units"]
    assert isinstance(units, list)
    trunk = next(item for item in units if item["unit"] == "trunk")
    assert (trunk["latency_ns"], trunk["source"], trunk["quality"]) == (5e6, "board 7", "measured")


def test_mistakes_are_one_line(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text("{}")
    for options, words in (
        (("--plan", tiny.plan, "--place", "cpu@fp32"), "either --plan or --place"),
        (("--host", "cortex-a9"), "Did you mean 'cortex-a"),
        (("--costs", tmp_path / "costs.json"), "not a cost table"),
        (("--precision", "i9"), "--precision 'i9' is unknown"),
        (("--target", "vsi:a311"), "Did you mean 'vsi:a311d'"),
    ):
        said = run("cost", tiny.model, *options)
        assert (said.code, said.err.count("\n")) == (2, 1), options
        assert words in said.err


def test_what_has_an_open_shape_has_no_price(run: Run, tmp_path: Path) -> None:
    """Operators of unknown size were priced as if they computed nothing."""
    names, model = ("x", "y"), tmp_path / "open.onnx"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, "rows", "columns"]) for name in names]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "clamp")], "open", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), model)
    for call in (("cost", model), ("cost", model, "--place", "vsi:a311d@u8"), ("advise", model)):
        said = run(*call)
        assert (said.code, said.err.count("\n")) == (2, 1), call
        assert "x=1,3,rows,columns. Option: --shape" in said.err
    for call in (("plan", model, "--place", "vsi:a311d@u8"), ("explain", model, "--target", "vsi:a311d")):
        said = run(*call, *(("-o", tmp_path / "plan.json") if call[0] == "plan" else ()))
        assert said.out.startswith("Open shapes: 'x' (nx3xrowsxcolumns)"), call
        assert "--shape x=1,3,rows,columns" in said.out
    assert _document(run("cost", model, "--shape", "x=1,3,8,8", "--json"))["units"]
