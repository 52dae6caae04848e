"""Ranges that lie beside a plan need not be named; which were taken is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import needs
import pytest

from .conftest import Said, Tiny, tiny_model

Run = Callable[..., Said]
LINE = "note: the ranges are those beside the plan: "


@pytest.fixture
def tuned(tiny: Tiny, tmp_path: Path) -> Path:
    """Return a folder as `tune` leaves it: plan.json, and ranges.json beside it."""
    shutil.copyfile(tiny.plan, tmp_path / "plan.json")
    shutil.copyfile(tiny.ranges, tmp_path / "ranges.json")
    return tmp_path


@pytest.mark.parametrize("name", ["onnx-qdq", "onnx-grid", "onnxruntime"])
def test_export_takes_them_and_says_so(name: str, tiny: Tiny, tuned: Path, run: Run) -> None:
    export = ("export", tuned / "plan.json", "--model", tiny.model, "--format", name)
    told = run(*export, "--ranges", tiny.ranges, "-o", tuned / "told")
    found = run(*export, "-o", tuned / "found")
    assert (told.code, told.err) == (0, "")
    assert (found.code, found.err) == (0, f"{LINE}{tuned / 'ranges.json'}.\n")
    assert (tuned / "found").read_bytes() == (tuned / "told").read_bytes()


def test_sixteen_bits_of_the_quantiser_have_the_scales_beside_the_plan(tiny: Tiny, tuned: Path, run: Run) -> None:
    """Without them ONNX Runtime's quantiser takes extremes, which the plan did not mean."""
    (tuned / "recipe.toml").write_text('default = "vsi:v853@i8pc"\n[[rule]]\nnode = "trunk"\nplace = "vsi:v853@i16"\n')
    plan = tuned / "plan.json"
    assert run("plan", tiny.model, "--recipe", tuned / "recipe.toml", "-o", plan).code == 0
    export = ("export", plan, "--model", tiny.model, "--format", "onnxruntime")
    for name in ("with", "without"):
        assert run(*export, "-o", tuned / name).code == 0
        (tuned / "ranges.json").unlink(missing_ok=True)
    held, bare = ((tuned / name).read_text() for name in ("with", "without"))
    assert '"scale"' in held
    assert '"scale"' not in bare


def test_a_file_that_does_without_scales_stays_without(tiny: Tiny, tuned: Path, run: Run) -> None:
    export = ("export", tuned / "plan.json", "--model", tiny.model, "--format", "aimet")
    for name in ("with", "without"):
        assert run(*export, "-o", tuned / name).err == ""
        (tuned / "ranges.json").unlink(missing_ok=True)
    assert (tuned / "with").read_bytes() == (tuned / "without").read_bytes()


@pytest.mark.sdk
def test_projects_take_them(tiny: Tiny, tuned: Path, run: Run) -> None:
    needs.verisilicon()
    export = ("export", tuned / "plan.json", "--model", tiny.model, "--format", "ovxlib-project")
    said = run(*export, "-o", tuned / "project")
    assert (said.code, said.err) == (0, f"{LINE}{tuned / 'ranges.json'}.\n")


def test_compile_quantize_and_verify_take_them(tiny: Tiny, tuned: Path, run: Run) -> None:
    model = (tiny.model, "--plan", tuned / "plan.json")
    for command in (
        ("compile", *model, "-o", tuned / "bundle"),
        ("quantize", *model, "-o", tuned / "q.onnx"),
        ("verify", *model, "--against", "npusim"),
    ):
        said = run(*command)
        assert (said.code, said.err) == (0, f"{LINE}{tuned / 'ranges.json'}.\n"), said
    document = json.loads(run("compile", *model, "-o", tuned / "again", "--json").out)
    assert document["output"] == str(tuned / "again")


def test_what_is_damaged_or_for_another_model_is_not_taken(tiny: Tiny, tuned: Path, run: Run) -> None:
    import onnx

    other = tuned / "other.onnx"
    onnx.save(tiny_model(seed=4), other)
    assert run("calibrate", other, "--data", tiny.data, "-o", tuned / "ranges.json").code == 0
    for _ in range(2):
        said = run("export", tuned / "plan.json", "--model", tiny.model, "--format", "onnx-qdq", "-o", tuned / "q.onnx")
        assert said.code == 2
        assert "Option: --ranges" in said.err
        said = run("verify", tiny.model, "--plan", tuned / "plan.json", "--against", "npusim")
        assert said.code == 2
        assert "--plan needs --ranges" in said.err
        (tuned / "ranges.json").write_text("{")


def test_a_plan_in_float_needs_none(tiny: Tiny, tuned: Path, run: Run) -> None:
    assert run("plan", tiny.model, "--place", "cpu@fp32", "-o", tuned / "float.json").code == 0
    said = run("compile", tiny.model, "--plan", tuned / "float.json", "-o", tuned / "bundle")
    assert (said.code, said.err) == (0, "")


def test_a_plan_of_the_float_model_is_known_from_the_quantised_one(tiny: Tiny, tuned: Path, run: Run) -> None:
    """`tune` takes a quantised file as the float model that it stands for: so does what takes its plan."""
    folder, model = tuned / "of", (tiny.quantized, "--dequantize")
    folder.mkdir()
    for rest in (
        ("calibrate", *model, "--data", tiny.data, "-o", folder / "ranges.json"),
        ("plan", *model, "--target", "vsi:v853", "-o", folder / "plan.json"),
        ("plan", *model, "--place", "cpu@fp32", "-o", folder / "float.json"),
    ):
        assert run(*rest).code == 0
    for name in ("plan", "float"):
        export = ("export", folder / f"{name}.json", "--model", tiny.quantized, "--format", "onnx-qdq")
        said = run(*export, "--data", tiny.data, "--metric", tiny.metric, "-o", folder / f"{name}.onnx")
        assert (said.code, said.err) == (0, f"{LINE}{folder / 'ranges.json'}.\n")
        assert run(*export, "--dequantize", "-o", folder / f"{name}.2.onnx").code == 0
        assert (folder / f"{name}.onnx").read_bytes() == (folder / f"{name}.2.onnx").read_bytes()
        said = run("compile", tiny.quantized, "--plan", folder / f"{name}.json", "-o", folder / name)
        assert said.code == 0
    refused = run("compile", tiny.quantized, "--plan", tuned / "plan.json", "-o", folder / "other")
    assert refused.code == 2
    assert "plan was made for" in refused.err
