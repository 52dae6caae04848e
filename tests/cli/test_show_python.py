"""What --show-python prints does what the command does, whatever the options."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import needs
import numpy as np
import onnx
import pytest
from PIL import Image

from dovetail.cli.fitting import FitVerb
from dovetail.cli.main import GROUPS, VERBS
from dovetail.cli.tune import Tune
from dovetail.fit import FitRequest

from .conftest import Said, Tiny, tiny_model

Run = Callable[..., Said]
RECIPE = """\
default = "vsi:v853@i8pc"

[[rule]]
node = "trunk"
place = "vsi:v853@i16"
"""


@pytest.fixture(scope="module")
def inputs(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model of images, images, labels, a recipe, and samples without labels."""
    folder = tmp_path_factory.mktemp("inputs")
    with np.load(tiny.data) as data:
        np.savez(folder / "bare.npz", x=data["x"])
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "preprocess.toml").write_text('resize = [2, 2]\nchannels = "grey"\nscale = 0.01\n')
    images = folder / "images"
    images.mkdir()
    random = np.random.default_rng(2)
    for number in range(24):
        Image.fromarray(random.integers(0, 255, (5, 5), dtype=np.uint8)).save(images / f"{number}.png")
    rows = [f"{number}.png,{number % 3}" for number in range(24)]
    (folder / "labels.csv").write_text("\n".join(("file,label", *rows)) + "\n")
    model = tiny_model()
    shape = onnx.numpy_helper.from_array(np.array([-1, 4]), "shape")
    model.graph.initializer.append(shape)
    model.graph.node.insert(0, onnx.helper.make_node("Reshape", ["image", "shape"], ["x"], "flat"))
    del model.graph.input[:]
    model.graph.input.append(onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["N", 1, 2, 2]))
    onnx.save(model, folder / "images.onnx")
    return folder


def calls(tiny: Tiny, inputs: Path) -> dict[str, list[object]]:
    """Return searches with options of every kind."""
    bare, score = ("--data", inputs / "bare.npz"), ("--metric", tiny.metric)
    images = ("tune", inputs / "images.onnx", "--data", inputs / "images", "--preprocess", inputs / "preprocess.toml")
    whole = ("tune", tiny.model, "--data", tiny.data, *score)
    return {
        "labels": [*whole],
        "no labels": ["tune", tiny.model, *bare, "--metric", "noise", "--max-drop", "0.9"],
        "default metric": [
            "tune",
            tiny.model,
            *bare,
            "--max-drop",
            "5%",
            "--decisions",
            "scores=out,kind=classification",
        ],
        "more calibration samples than there are": [*whole, "--calib", tiny.data, "--calib-samples", "1000"],
        "few calibration samples": [*whole, "--calib-samples", "7", "--method", "percentile", "--percentile", "99"],
        "another split": [*whole, "--holdout", "0.3", "--seed", "5", "--max-drop", "0.05", "--policy", "sure"],
        "images": [*images, "--max-drop", "50%", "--labels", inputs / "labels.csv", "--metric", "top1"],
        "recipe": [*whole, "--recipe", inputs / "recipe.toml", "--shape", "x=1,4"],
        "places": [*whole, "--target", "vsi:a311d", "--low", "u8", "--raise", "i16,cpu@fp32", "--host", "cortex-a7"],
        "proof": [*whole, "--proof-tests", "0", "--migrate", "--confirm", "1", "--min-score", "0.2"],
        "workers": [*whole, "--workers", "1", "--trial-timeout", "300", "--retries", "1"],
        "backend": [*whole, "--backend", "vsi:v853=npusim"],
        "log": [*whole, "--log", "log.jsonl", "--journal", "kept.sqlite"],
    }


NAMES = tuple(calls(Tiny(Path(), Path(), Path(), "", *(Path() for _ in fields(Tiny)[4:])), Path()))


@pytest.mark.parametrize("name", NAMES)
def test_the_program_gives_the_answer_and_the_files_of_the_command(
    name: str, tiny: Tiny, inputs: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = [*calls(tiny, inputs)[name], "-o", "out"]
    by_command, by_program = tmp_path / "command", tmp_path / "program"
    by_program.mkdir()
    by_command.mkdir()
    monkeypatch.chdir(by_program)
    printed = run(*call, "--show-python")
    assert (printed.code, printed.err) == (0, "")
    assert list(by_program.iterdir()) == []
    (tmp_path / "printed.py").write_text(printed.out)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "printed.py")], capture_output=True, text=True, check=False, cwd=by_program
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(by_command)
    said = run(*call)
    assert said.code in (0, 1), said.err
    assert _contents(by_program) == _contents(by_command)
    assert done.stdout.rstrip("\n") == (by_program / "out" / "report.txt").read_text().rstrip("\n")


def _contents(folder: Path) -> dict[str, object]:
    """Return what stands in the files of a folder, without the time that a search took."""
    found: dict[str, object] = {}
    for path in sorted(item for item in folder.rglob("*") if item.is_file()):
        name = str(path.relative_to(folder))
        if name.endswith("result.json"):
            document = json.loads(path.read_text())
            del document["cost"]["elapsed_s"]
            found[name] = document
        elif name.endswith("request.json"):
            # It has checksums of the files, some of which say the time.
            document = json.loads(path.read_text())
            found[name] = {key: item for key, item in document.items() if key not in ("files", "checksum")}
        elif name.endswith("report.json"):
            found[name] = re.sub(r'"[^"]*full evaluations[^"]*"|"checksum":"[^"]*"', "", path.read_text())
        elif name.endswith(("report.txt", "report.html")):
            found[name] = [line for line in path.read_text().splitlines() if "full evaluations" not in line]
        elif "sqlite" not in name:
            found[name] = path.read_bytes()
    assert "out/plan.json" in found
    return found


@pytest.mark.sdk
def test_the_vendor_is_asked_by_the_program_too(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    needs.verisilicon()
    call = ["tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "--verify", "vendor"]
    (tmp_path / "printed.py").write_text(run(*call, "-o", tmp_path / "a", "--show-python").out)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "printed.py")], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    run(*call, "-o", tmp_path / "b")
    summaries = [json.loads((tmp_path / name / "result.json").read_text())["summary"] for name in "ab"]
    assert summaries[0] == summaries[1]
    assert "vsi on 4 samples" in summaries[0]


def test_the_demo_is_a_request_too(run: Run, tmp_path: Path) -> None:
    printed = run("demo", "-o", tmp_path / "out", "--show-python").out
    names: dict[str, object] = {}
    exec(printed.partition("\nfit.save")[0].replace("fit = dovetail.fit(", "request = (", 1), names)
    assert names["request"] == VERBS["demo"](output=tmp_path / "out").request()  # type: ignore[attr-defined, call-arg]


def test_the_defaults_of_the_command_are_those_of_the_library() -> None:
    verb = Tune(model=Path("m.onnx"), data="d.npz")
    assert verb.request() == FitRequest("m.onnx", "d.npz", folder="dovetail-out")
    assert replace(verb, output=Path("elsewhere")).request().folder == "elsewhere"


def test_only_commands_that_are_one_request_are_printed() -> None:
    verbs = {**VERBS, **{f"{group} {name}": kind for group, (_, each) in GROUPS.items() for name, kind in each.items()}}
    able = {name for name, kind in verbs.items() if "show_python" in {field.name for field in fields(kind)}}
    assert able == {name for name, kind in verbs.items() if issubclass(kind, FitVerb)} == {"tune", "demo"}
