"""The commands of the how-tos are run, on the files that they are about."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dovetail.bundle import load_bundle
from dovetail.cli.main import main
from dovetail.formats.acuity import read_table
from dovetail.importers import load_model
from dovetail.passes import normalize
from dovetail.passes.rewrites import REWRITES
from dovetail.plan import load_plan

DOCS = Path(__file__).parents[2] / "docs" / "how-to"


def commands(page: Path) -> list[tuple[list[str], int]]:
    """Return the commands of a page and the exit code of each: 0, or what a line `# ends with N` says."""
    found: list[tuple[list[str], int]] = []
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ dovetail "):
                found.append((shlex.split(line)[2:], 0))
            elif ended := re.fullmatch(r"# ends with (\d+)", line):
                found[-1] = (found[-1][0], int(ended[1]))
            else:
                raise AssertionError(f"{page.name}: what is '{line}'?")
    return found


def _walk(page: str, files: Path, digits: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in (files, digits):
        if not source.is_dir():  # What the page needs is in the folder already.
            continue
        shutil.copytree(source, folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    for command, code in commands(DOCS / page):
        assert main(command) == code, command


def _same_placements(folder: Path) -> None:
    graph = normalize(load_model(folder / "digits.onnx"))
    one, other = load_plan(folder / "out" / "plan.json"), load_plan(folder / "again.json")
    for node in graph.nodes:
        assert one.placement(node.name) == other.placement(node.name), node.name


@pytest.mark.slow
def test_fastdeploy_on_a311d(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _walk("fastdeploy-a311d.md", DOCS / "fastdeploy", digits, tmp_path, monkeypatch)
    _same_placements(tmp_path)
    assert (tmp_path / "new.txt").read_text() == "\n"
    mixed = (tmp_path / "new.mixed.txt").read_text()
    assert "concat:" in mixed
    assert "\r" not in mixed
    plan = load_plan(tmp_path / "out" / "plan.json")
    assert len(mixed.splitlines()) == len(plan.overrides)


@pytest.mark.slow
def test_acuity_on_v853(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _walk("acuity-v853.md", DOCS / "acuity", digits, tmp_path, monkeypatch)
    _same_placements(tmp_path)
    hybrid = read_table((tmp_path / "hybrid.quantize").read_bytes(), "hybrid.quantize")
    assert set(hybrid.words.values()) == {"dynamic_fixed_point-i16"}
    assert {"head/concat_out_3", "attach_detections/out0_0"} <= set(hybrid.words)
    before = read_table((tmp_path / "digits.quantize").read_bytes(), "digits.quantize")
    assert hybrid.parameters == before.parameters
    table = read_table((tmp_path / "table.quantize").read_bytes(), "table.quantize")
    assert table.parameters["@head/concat_out_3:out0"].quantizer == "dynamic_fixed_point"
    assert table.parameters["@stem/conv_out_55:weight"].quantizer == "perchannel_symmetric_affine"


def test_several_devices(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _walk("several-devices.md", digits, digits, tmp_path, monkeypatch)
    assert (tmp_path / "plan.dot").read_text().startswith("# Made by dovetail\ndigraph plan")
    assert (tmp_path / "model.ctx.onnx").is_file()
    assert load_bundle(tmp_path / "copy") == load_bundle(tmp_path / "bundle")


@pytest.mark.slow
def test_the_tutorial(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _walk("../tutorial/digits.md", digits, digits, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert "columns 4-14 of axis 2 below 10 dB" in said
    assert "cosine of the whole 0.99" in said
    assert (tmp_path / "out" / "report.html").is_file()
    plan, mine = load_plan(tmp_path / "out" / "plan.json"), load_plan(tmp_path / "mine.json")
    assert 0 < len(plan.overrides) < len(mine.overrides)


@pytest.mark.slow
def test_rknn(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = Path(__file__).parents[1] / "formats" / "golden" / "rknn_digits.quantization.cfg"
    shutil.copy(golden, tmp_path / "step1.quantization.cfg")
    _walk("rknn.md", digits, digits, tmp_path, monkeypatch)
    step1, step2 = ((tmp_path / f"step{n}.quantization.cfg").read_text() for n in (1, 2))
    _, parameters = step1.split("quantize_parameters:")
    assert step2.endswith("quantize_parameters:" + parameters)
    assert "int16" in step2.partition("quantize_parameters:")[0]
    one, other = load_plan(tmp_path / "out" / "plan.json"), load_plan(tmp_path / "theirs.json")
    graph = normalize(load_model(tmp_path / "digits.onnx"))
    assert all(one.placement(node.name) == other.placement(node.name) for node in graph.nodes)


@pytest.mark.slow
def test_openvino(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _walk("openvino.md", digits, digits, tmp_path, monkeypatch)
    assert "head/concat" in (tmp_path / "ignored.json").read_text()


@pytest.mark.slow
def test_onnxruntime(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _walk("onnxruntime.md", digits, digits, tmp_path, monkeypatch)
    loaded = onnx.load(tmp_path / "digits.qdq.onnx")
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in loaded.graph.node}
    assert (tmp_path / "digits.ctx.onnx").is_file()


def test_advise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", (DOCS / "advise.md").read_text(encoding="utf-8"), re.M | re.S)
    monkeypatch.chdir(tmp_path)
    exec(program, {"__name__": "page"})
    _walk("advise.md", tmp_path / "empty", tmp_path / "empty", tmp_path, monkeypatch)
    assert "with   stack-large-kernels, fewer-axes" in capsys.readouterr().out
    assert (tmp_path / "rewritten.onnx").is_file()


def test_every_rewrite_is_on_the_page() -> None:
    text = (DOCS / "advise.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| .* \| (.*) \|$", text, re.M))
    assert rows == {item.name: "equal" if item.moves_only else "to a rounding" for item in REWRITES}


def test_own_board(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _walk("own-board.md", digits, digits, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.models
def test_vx_delegate(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = models / "vww01_mobilenetv1_025"
    shutil.copy(source / "vww_96_float.tflite", tmp_path / "model.tflite")
    shutil.copy(source / "vww_96_int8.tflite", tmp_path / "model_int8.tflite")
    (name,) = load_model(tmp_path / "model.tflite").inputs
    pictures = np.random.default_rng(5).uniform(0, 1, (24, 96, 96, 3)).astype(np.float32)
    arrays: dict[str, Any] = {name: pictures}
    np.savez(tmp_path / "samples.npz", **arrays)
    _walk("vx-delegate-imx8mp.md", tmp_path / "empty", tmp_path / "empty", tmp_path, monkeypatch)
    plan = load_plan(tmp_path / "out" / "plan.json")
    assert str(plan.default) == "vsi:imx8mp@u8"
