"""dovetail export asks the program that reads the file what it makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from .conftest import Said, Tiny

Run = Callable[..., Said]
HIGH = {"i16": "vsi:v853@i16", "float": "cpu@fp32"}


def _plan(tiny: Tiny, run: Run, folder: Path, rules: dict[str, str]) -> Path:
    recipe, plan = folder / "recipe.toml", folder / "plan.json"
    lines = [f'[[rule]]\nnode = "{node}"\nplace = "{place}"\n' for node, place in rules.items()]
    recipe.write_text('default = "vsi:v853@i8pc"\n' + "".join(lines))
    assert run("plan", tiny.model, "--recipe", recipe, "-o", plan).code == 0
    return plan


@pytest.mark.parametrize("high", sorted(HIGH))
@pytest.mark.parametrize("name", ["onnx-qdq", "onnx-grid", "onnxruntime"])
def test_what_is_obeyed_ends_with_zero_and_says_every_node(
    name: str, high: str, tiny: Tiny, run: Run, tmp_path: Path
) -> None:
    plan = _plan(tiny, run, tmp_path, dict.fromkeys(("pixels", "logits", "scores", "join"), HIGH[high]))
    export = ["export", plan, "--model", tiny.model, "--format", name, "--ranges", tiny.ranges, "--data", tiny.data]
    said = run(*export, "-o", tmp_path / "file", "--json")
    assert (said.code, said.err) == (0, "")
    verified = json.loads(said.out)["verified"]
    assert verified["consumer"].startswith("ONNX Runtime")
    assert {item["outcome"] for item in verified["nodes"]} == {"honoured"}
    assert {item["node"] for item in verified["nodes"]} >= {"trunk", "pixels", "logits", "scores", "join"}
    assert verified["noise_db"] > 20


def test_what_is_not_obeyed_ends_with_one_and_a_table(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    """ONNX Runtime's quantiser rounds a tensor for all readers: the float one reads 8 bits too."""
    model = onnx.load(tiny.model)
    model.graph.node.append(onnx.helper.make_node("Sigmoid", ["logits"], ["more"], "more"))
    model.graph.output.append(onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, ["N", 3]))
    onnx.save(model, tmp_path / "model.onnx")
    recipe, plan = tmp_path / "recipe.toml", tmp_path / "plan.json"
    rules = "".join(f'[[rule]]\nnode = "{node}"\nplace = "cpu@fp32"\n' for node in ("logits", "scores"))
    recipe.write_text(f'default = "vsi:v853@i8pc"\n{rules}')
    assert run("plan", tmp_path / "model.onnx", "--recipe", recipe, "-o", plan).code == 0
    export = ["export", plan, "--model", tmp_path / "model.onnx", "--format", "onnxruntime", "-o", tmp_path / "a.json"]
    said = run(*export)
    assert said.code == 1
    assert "FAIL" in said.out
    assert "Not as planned" in said.out
    assert (tmp_path / "a.json").exists()
    found = json.loads(run(*export, "--replace", "--json").out)["verified"]["nodes"]
    wrong = {item["node"]: (item["asked"], item["given"], item["outcome"]) for item in found}["scores"]
    assert wrong == ("float", "i8", "changed")
    said = run(*export, "--replace", "--no-verify", "--json")
    assert (said.code, json.loads(said.out)["verified"]) == (0, None)


def test_a_file_without_a_consumer_says_so(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    export = ["export", tiny.plan, "--model", tiny.model, "--format", "rknn", "--nearest", "-o", tmp_path / "q.cfg"]
    said = run(*export)
    assert said.code == 0
    assert "no program here that reads it" in said.out


def test_what_the_consumer_refuses_is_not_written(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    plan = _plan(tiny, run, tmp_path, {})
    np.savez(tmp_path / "wrong.npz", x=np.zeros((2, 4), np.float32))
    (tmp_path / "model.onnx").write_bytes(tiny.model.read_bytes())
    model = onnx.load(tiny.model)
    model.graph.node[0].op_type = "NoSuchOperator"
    broken = tmp_path / "broken.onnx"
    onnx.save(model, broken)
    said = run("export", plan, "--model", broken, "--format", "onnxruntime", "-o", tmp_path / "a.json")
    assert said.code == 2
    assert not (tmp_path / "a.json").exists()
