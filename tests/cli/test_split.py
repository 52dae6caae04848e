"""dovetail split: files of parts that other programs run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from dovetail.cli.main import main
from dovetail.exporters.onnx import save_onnx
from dovetail.testing.networks import Network


@pytest.fixture
def model(tmp_path: Path) -> Path:
    net = Network(5)
    trunk = net.op("Relu", net.conv(net.input("x", 1, 3, 6, 6), 8, 3))
    boxes, scores = net.conv(trunk, 4), net.op("Sigmoid", net.conv(trunk, 2))
    save_onnx(
        net.graph(net.op("Concat", net.op("Exp", boxes), scores, shape=(1, 6, 6, 6), axis=1)), tmp_path / "m.onnx"
    )
    return tmp_path / "m.onnx"


def test_a_head_is_cut_off_and_the_files_in_a_row_are_the_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["split", str(model), "--head", "-o", str(tmp_path / "parts"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["nodes"] == {"core": 4, "after": 3}
    assert len(said["outputs"]) == 2
    x = np.random.default_rng(1).normal(size=(1, 3, 6, 6)).astype(np.float32)
    whole, core, after = (
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for path in (model, tmp_path / "parts" / "core.onnx", tmp_path / "parts" / "after.onnx")
    )
    middle = dict(zip((item.name for item in core.get_outputs()), core.run(None, {"x": x}), strict=True))
    np.testing.assert_array_equal(after.run(None, middle)[0], whole.run(None, {"x": x})[0])


def test_a_plan_of_the_core_is_written_and_taken(model: Path, tmp_path: Path) -> None:
    samples, plan, ranges = (str(tmp_path / name) for name in ("x.npz", "plan.json", "ranges.json"))
    np.savez(samples, x=np.random.default_rng(1).normal(size=(12, 3, 6, 6)).astype(np.float32))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'default = "vsi:a311d@u8"\n'
        + "".join(f'[[rule]]\nop = "{op}"\nplace = "cpu@fp32"\n' for op in ("Exp", "Sigmoid", "Concat"))
    )
    assert main(["plan", str(model), "--recipe", str(recipe), "-o", plan]) == 0
    assert main(["calibrate", str(model), "--data", samples, "-o", ranges]) == 0
    out = tmp_path / "parts"
    assert main(["split", str(model), "--plan", plan, "--ranges", ranges, "-o", str(out)]) == 0
    core = [str(out / "core.onnx"), "--plan", str(out / "core.plan.json"), "--ranges", str(out / "core.ranges.json")]
    assert main(["quantize", *core, "-o", str(tmp_path / "core.qdq.onnx")]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "in one way"),
        (("--head", "--at", "t0"), "in one way"),
        (("--at", "nowhere"), "no node makes"),
    ],
)
def test_what_is_no_cut_is_one_line(
    options: tuple[str, ...], words: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["split", str(model), *options, "-o", str(tmp_path / "parts")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "parts").exists()


def test_a_place_that_cannot_be_written_is_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter").write_text("dear all")
    assert main(["split", str(model), "--head", "-o", str(tmp_path / "letter")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert (tmp_path / "letter").read_text() == "dear all"
    assert main(["split", str(model), "--head", "-o", str(tmp_path / "letter" / "inner")]) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "core.onnx").write_text("mine")
    assert main(["split", str(model), "--head", "-o", str(tmp_path / "mine")]) == 2
    assert (tmp_path / "mine" / "core.onnx").read_text() == "mine"
