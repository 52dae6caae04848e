"""dovetail export asks the program that reads the file what it makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from dovetail.errors import FormatError
from dovetail.formats.consumer import OtherVersionError

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
    said = run(*export, "--metric", "noise", "-o", tmp_path / "file", "--json")
    assert (said.code, said.err) == (0, "")
    verified = json.loads(said.out)["verified"]
    assert verified["consumer"].startswith("ONNX Runtime")
    assert {item["outcome"] for item in verified["nodes"]} == {"honoured"}
    assert {item["node"] for item in verified["nodes"]} >= {"trunk", "pixels", "logits", "scores", "join"}
    score = verified["score"]
    assert score["noise_db"] > 15
    assert (score["samples"], score["metric"]) == (120, "noise")
    # The quantiser finds ranges of its own, on the first samples.
    assert abs(score["given"] - score["predicted"]) < (0.02 if name == "onnxruntime" else 0.005)
    assert score["given"] < score["float"]


def test_the_task_s_metric_is_that_of_the_consumer_beside_ours(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    """All bytes break the scores, here and in ONNX Runtime; with them in 16 bits both have them right."""
    given: dict[str, float] = {}
    for name, rules in (("low", {}), ("high", dict.fromkeys(("pixels", "logits", "scores", "join"), HIGH["i16"]))):
        (tmp_path / name).mkdir()
        plan = _plan(tiny, run, tmp_path / name, rules)
        export = ["export", plan, "--model", tiny.model, "--format", "onnx-qdq", "--ranges", tiny.ranges]
        said = run(*export, "--data", tiny.data, "--metric", tiny.metric, "-o", tmp_path / name / "q.onnx", "--json")
        score = json.loads(said.out)["verified"]["score"]
        assert score["metric"] == "score"
        assert score["float"] == 1
        assert abs(score["given"] - score["predicted"]) <= 0.05
        given[name] = score["given"]
    assert given["low"] < 0.7
    assert given["high"] > 0.95
    # The page has both.
    said = run(*export, "--data", tiny.data, "--metric", tiny.metric, "-o", tmp_path / "again.onnx")
    assert "predicted" in said.out
    assert "beside the prediction" in said.out
    assert "120 samples" in said.out


def test_devices_are_read_back_and_scored_in_float(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    plan = _plan(tiny, run, tmp_path, {"scores": HIGH["float"]})
    export = [
        "export",
        plan,
        "--model",
        tiny.model,
        "--format",
        "openvino",
        "--data",
        tiny.data,
        "--metric",
        tiny.metric,
    ]
    said = run(*export, "-o", tmp_path / "a.json", "--json")
    assert said.code == 0
    verified = json.loads(said.out)["verified"]
    assert {item["node"]: item["given"] for item in verified["nodes"]}["scores"] == "CPU"
    score = verified["score"]
    assert score["given"] == score["predicted"] == score["float"] == 1


def test_a_file_for_another_version_of_its_reader_is_written_and_said_to_be_unverified(
    tiny: Tiny, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acuity counts its layers anew with every version: what is here cannot judge what was made for another."""

    def refuse(*_: object) -> None:
        why = "the network is by Acuity 6.39.1, and here is 6.57.1"
        raise OtherVersionError(why, path="file", line=0, code="CONSUMER")

    plan = _plan(tiny, run, tmp_path, {})
    monkeypatch.setattr("dovetail.formats.onnxruntime.consumers.RuntimeConsumer.read", refuse)
    export = ["export", plan, "--model", tiny.model, "--format", "onnx-qdq", "--ranges", tiny.ranges]
    said = run(*export, "-o", tmp_path / "q.onnx")
    assert said.code == 0
    assert "no: the network is by Acuity 6.39.1, and here is 6.57.1" in said.out
    assert (tmp_path / "q.onnx").exists()
    said = run(*export, "-o", tmp_path / "q.onnx", "--replace", "--json")
    assert (said.code, json.loads(said.out)["verified"]) == (0, None)


@pytest.mark.slow
def test_what_is_not_obeyed_ends_with_one_and_a_table(run: Run, tmp_path: Path) -> None:
    """NNCF rounds nothing between a float Softmax and the output: the clamp there stays in float."""
    model, recipe, plan = tmp_path / "model.onnx", tmp_path / "recipe.toml", tmp_path / "plan.json"
    _save_chain(model)
    recipe.write_text('default = "vsi:v853@i8pc"\n[[rule]]\nnode = "shares"\nplace = "cpu@fp32"\n')
    assert run("plan", model, "--recipe", recipe, "-o", plan).code == 0
    export = ["export", plan, "--model", model, "--format", "nncf", "-o", tmp_path / "a.json"]
    said = run(*export)
    assert said.code == 1
    assert "FAIL" in said.out
    assert "Not as planned" in said.out
    assert (tmp_path / "a.json").exists()
    found = json.loads(run(*export, "--replace", "--json").out)["verified"]["nodes"]
    wrong = {item["node"]: (item["asked"], item["given"], item["outcome"]) for item in found}["clamp"]
    assert wrong == ("8 bits", "float", "dropped")
    said = run(*export, "--replace", "--no-verify", "--json")
    assert (said.code, json.loads(said.out)["verified"]) == (0, None)


def _save_chain(path: Path) -> None:
    """Write a convolution, a softmax and a clamp."""
    kernel = onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32), "k")
    nodes = [
        onnx.helper.make_node("Conv", ["x", "k"], ["made"], "conv", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Softmax", ["made"], ["shared"], "shares"),
        onnx.helper.make_node("Relu", ["shared"], ["y"], "clamp"),
    ]
    ends = (("x", [1, 3, 8, 8]), ("y", [1, 4, 8, 8]))
    first, last = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in ends)
    graph = onnx.helper.make_graph(nodes, "chain", [first], [last], [kernel])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


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


def test_a_nearest_plan_is_scored_beside_the_one_asked_for(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    """No word of affinities is a precision: 16 bits on the NPU become what the rest has, and the loss is shown."""
    plan = _plan(tiny, run, tmp_path, dict.fromkeys(("pixels", "logits", "scores", "join"), HIGH["i16"]))
    export = ["export", plan, "--model", tiny.model, "--format", "rknn", "--data", tiny.data, "--metric", tiny.metric]
    assert run(*export, "-o", tmp_path / "said.cfg", "--json").code == 0
    mixed = _plan(tiny, run, tmp_path, {"pixels": HIGH["i16"], "logits": HIGH["float"], "scores": HIGH["i16"]})
    export[1] = mixed
    refused = run(*export, "-o", tmp_path / "refused.cfg", "--json")
    assert refused.code != 0
    assert not (tmp_path / "refused.cfg").exists()
    said = run(*export, "--nearest", "-o", tmp_path / "nearest.cfg", "--json")
    answer = json.loads(said.out)
    assert answer["moved"]
    score = answer["moved_score"]
    assert (score["metric"], score["samples"], score["float"]) == ("score", 120, 1)
    assert 0 < score["asked"] <= 1
    assert 0 < score["nearest"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_what_tune_accepts_for_a_toolchain_is_exported_as_it_is_and_obeyed(
    name: str, tiny: Tiny, run: Run, tmp_path: Path
) -> None:
    tune = ["tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "--for", name, "--vendor-seconds", "0"]
    said = run(*tune, "-o", tmp_path / "out", "--json")
    assert said.code == 0
    raised = json.loads((tmp_path / "out" / "plan.json").read_text())["overrides"]
    assert raised
    plan = tmp_path / "out" / "plan.json"
    export = ["export", plan, "--model", tiny.model, "--format", name, "--data", tiny.data, "--metric", tiny.metric]
    said = run(*export, "-o", tmp_path / "file.json", "--json")
    answer = json.loads(said.out)
    assert said.code == 0
    assert answer["moved"] == []
    assert {item["outcome"] for item in answer["verified"]["nodes"]} == {"honoured"}
    score = answer["verified"]["score"]
    # The quantiser finds ranges of its own.
    assert score["given"] >= score["float"] - 0.05


def test_a_toolchain_that_is_none_is_refused_before_anything_is_done(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    tune = ["tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "-o", tmp_path / "out"]
    said = run(*tune, "--for", "onnxrutime")
    assert said.code != 0
    assert "onnxruntime" in said.err
    said = run(*tune, "--for", "acuity")
    assert "network is needed" in said.err
    assert "--listing" in said.err
    assert not (tmp_path / "out").exists()


def test_what_a_reader_advises_is_told(tiny: Tiny, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.formats.openvino.consumer import HeteroConsumer, hint_for

    def refuse(*_: object) -> None:
        raise FormatError("rank is dynamic.", path="f", line=0, code="CONSUMER", hint=hint_for("rank is dynamic"))

    monkeypatch.setattr(HeteroConsumer, "read", refuse)
    said = run("export", tiny.plan, "--model", tiny.model, "--format", "openvino", "-o", tmp_path / "a.json")
    assert said.code == 2
    assert "fold_constants" in said.err
    assert "--no-verify writes it." in said.err
