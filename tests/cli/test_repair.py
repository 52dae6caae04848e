"""dovetail repair, and plans with repairs at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from dovetail.cli.main import main
from dovetail.exporters.onnx import save_onnx
from dovetail.ir import Graph
from dovetail.plan.repairs import RepairRecord
from dovetail.repair import Equalise
from dovetail.testing.networks import Network


def _broken() -> Graph:
    """Return a classifier whose channels are scaled between two convolutions, one in two."""
    net = Network(11)
    first = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 16, 3))
    second = net.op("Relu", net.conv(first, 16, 3))
    pooled = net.op("GlobalAveragePool", second, shape=(1, 16, 1, 1))
    flat = net.op("Flatten", pooled, shape=(1, 16))
    graph = net.graph(net.op("Softmax", net.op("Gemm", flat, net.uniform(16, 6), shape=(1, 6))))
    steps = tuple(160 * (index % 2) for index in range(16))
    return Equalise().apply(graph, RepairRecord("equalise", {"t0": steps, "t1": steps}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the model and samples."""
    out = tmp_path_factory.mktemp("repair")
    save_onnx(_broken(), out / "model.onnx")
    rng = np.random.default_rng(0)
    np.savez(out / "samples.npz", x=rng.normal(size=(60, 2, 4, 4)).astype(np.float32) * 2)
    return out


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().out


def test_a_healed_model_is_written_and_says_what_float_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, healed = folder / "model.onnx", folder / "healed.onnx"
    options = ["--data", str(folder / "samples.npz"), "--target", "vsi:a311d", "--metric", "noise", "--json"]
    code, text = _run(["repair", str(model), *options, "-o", str(healed)], capsys)
    document = json.loads(text)
    assert code == 0
    assert document["output"] == str(healed)
    kinds = [item["kind"] for item in document["healing"]["trials"]]
    assert kinds
    assert "bias-correction" not in kinds
    samples = np.load(folder / "samples.npz")["x"]
    sessions = [onnxruntime.InferenceSession(str(path)) for path in (model, healed)]
    for sample in samples[:8]:
        before, after = (session.run(None, {"x": sample[None]})[0] for session in sessions)
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-6)
    weights = [
        {item.name: onnx.numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}
        for path in (model, healed)
    ]
    spans = [max(np.ptp(np.log2(np.abs(value).max(axis=(1, 2, 3)))) for value in item.values() if value.ndim == 4)
             for item in weights]  # fmt: skip
    assert spans[0] > 8
    assert spans[1] < 3


def test_every_command_that_reads_a_plan_applies_its_repairs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = str(folder / "model.onnx"), folder / "out"
    options = [
        "--data",
        str(folder / "samples.npz"),
        "--target",
        "vsi:a311d",
        "--metric",
        "noise",
        "--max-drop",
        "0.05",
    ]
    code, _ = _run(["tune", model, *options, "--max-drop", "0.05", "--vendor-seconds", "0", "-o", str(out)], capsys)
    plan, ranges = str(out / "plan.json"), str(out / "ranges.json")
    assert code == 0
    assert json.loads((out / "plan.json").read_text())["repairs"]
    assert (out / "healed.onnx").is_file()
    quantised = str(folder / "quantised.onnx")
    assert main(["quantize", model, "--plan", plan, "--ranges", ranges, "-o", quantised]) == 0
    assert main(["compile", model, "--plan", plan, "--ranges", ranges, "-o", str(folder / "bundle")]) == 0
    assert main(["cost", model, "--plan", plan]) == 0
    subgraph = str(folder / "qdq.onnx")
    assert main(["export", plan, "--model", model, "--format", "onnx-qdq", "--ranges", ranges, "-o", subgraph]) == 0
    capsys.readouterr()
    samples = str(folder / "samples.npz")
    code, text = _run(["compare", model, str(folder / "bundle"), "--data", samples, "--json"], capsys)
    assert json.loads(text)


def test_a_model_that_nothing_heals_is_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Network(2)
    save_onnx(net.graph(net.op("Sigmoid", net.input("x", 1, 2, 4, 4))), folder / "plain.onnx")
    options = ["--data", str(folder / "samples.npz"), "--metric", "noise", "-o", str(folder / "none.onnx")]
    code, text = _run(["repair", str(folder / "plain.onnx"), *options], capsys)
    assert code == 1
    assert "No repair" in text
    assert not (folder / "none.onnx").exists()


def test_an_unknown_choice_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", str(folder / "samples.npz"), "--repair", "magic"]
    assert main(["repair", str(folder / "model.onnx"), *options]) == 2
    assert "all, data, exact, none" in capsys.readouterr().err


def test_what_only_a_plan_can_hold_writes_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is scaled between an input and an output; a bias that makes up for rounding is no healed model."""
    net = Network(12)
    save_onnx(net.graph(net.conv(net.input("x", 1, 8, 4, 4), 4, 3)), tmp_path / "model.onnx")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "samples.npz", x=rng.normal(9, 1, (40, 8, 4, 4)).astype(np.float32))
    model, samples, healed = (str(tmp_path / name) for name in ("model.onnx", "samples.npz", "healed.onnx"))
    options = ["--data", samples, "--target", "vsi:a311d", "--metric", "noise", "--repair", "all", "--json"]
    code, text = _run(["repair", model, *options, "-o", healed], capsys)
    document = json.loads(text)
    assert [item["kind"] for item in document["healing"]["trials"]] == ["bias-correction"]
    assert code == 1
    assert document["output"] is None
    assert not Path(healed).exists()
