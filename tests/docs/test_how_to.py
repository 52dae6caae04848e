"""The commands of the how-tos are run, on the files that they are about."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from dovetail.bundle import load_bundle
from dovetail.cli.main import main
from dovetail.formats.acuity import read_table
from dovetail.importers import load_model
from dovetail.passes import normalize
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
