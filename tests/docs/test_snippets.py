"""Every command and program in the README and the guide runs as it stands, in an empty folder."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail.data import load_preprocess
from dovetail.plan.recipe import read_recipe

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide" / "index.md").read_text(encoding="utf-8")
COMMAND = Path(sys.executable).parent / "dovetail"


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the `dovetail` commands of the console blocks, in order."""
    lines = [line for block in blocks(text, "console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ dovetail")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small classifier, samples labelled by it, and calibration data."""
    place = tmp_path_factory.mktemp("reader")
    random = np.random.default_rng(3)
    weight = random.normal(size=(8, 3, 3, 3)).astype(np.float32)
    dense = random.normal(size=(8, 5)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "d"], ["probabilities"], name="dense"),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 5])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(dense, "d")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, place / "model.onnx")
    images = random.normal(size=(120, 3, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    labels = session.run(None, {"x": images})[0].argmax(axis=1)
    np.savez(place / "samples.npz", x=images, label=labels)
    np.savez(place / "calib.npz", x=images[:40])
    return place


def test_readme_commands_run_in_order(folder: Path) -> None:
    lines = commands(README)
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line)
        done = subprocess.run([str(COMMAND), *words[1:]], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert (folder / "out" / "plan.json").is_file()
    assert (folder / "out" / "bundle" / "manifest.json").is_file()


@pytest.mark.slow
def test_ci_and_report_how_tos_run_in_order(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    pages = [(ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8") for name in ("ci", "report")]
    lines = [line for page in pages for block in blocks(page, "console") for line in block.splitlines()]
    shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    codes = dict(zip(lines, [*lines[1:], ""], strict=True))
    for line in shown:
        ended = re.fullmatch(r"# ends with (\d+)", codes[f"$ {line}"])
        if "other" in line:
            shutil.copytree(tmp_path / "out", tmp_path / "other")
        done = subprocess.run([COMMAND, *shlex.split(line)[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == (int(ended[1]) if ended else 0), f"{line}: {done.stderr}{done.stdout}"
    assert len(shown) == 8


def test_readme_program_runs(folder: Path) -> None:
    (program,) = blocks(README, "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("met: loss ", "likely met: loss "))


def test_readme_names_both_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_readme_links_and_pictures_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README + GUIDE):
        if "://" not in link:
            assert (ROOT / link).exists() or (ROOT / "docs" / "guide" / link).exists(), link


def test_guide_files_are_read(tmp_path: Path) -> None:
    preprocess, recipe = blocks(GUIDE, "toml")
    (tmp_path / "preprocess.toml").write_text(preprocess, encoding="utf-8")
    assert load_preprocess(tmp_path / "preprocess.toml").mean == (127.5, 127.5, 127.5)
    assert str(read_recipe(tomllib.loads(recipe)).rules[0].placement) == "vsi:v853@i16"


def test_guide_metric_scores(folder: Path, tmp_path: Path) -> None:
    program, _ = blocks(GUIDE, "python")
    shutil.copytree(folder, tmp_path / "work", ignore=shutil.ignore_patterns("out"))
    (tmp_path / "work" / "mine.py").write_text(program, encoding="utf-8")
    line = "tune model.onnx --data samples.npz --metric mine.py:score --target vsi:v853 -o mine"
    done = subprocess.run(
        [str(COMMAND), *line.split()], cwd=tmp_path / "work", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_guide_metric_of_detections_reads_a_detector() -> None:
    """As UltraFace gives them: 4420 places of a picture of 240 x 320, corners in shares, scores after a Softmax."""
    _, program = blocks(GUIDE, "python")
    space: dict[str, Any] = {}
    exec(program, space)
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 0.8, (2, 4420, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.02, 0.2, (2, 4420, 2))], axis=2)
    faces = rng.uniform(0, 1e-3, (2, 4420))
    labels = np.full((2, 2, 5), -1.0)
    for picture, place in ((0, 100), (0, 4000), (1, 7)):
        faces[picture, place] = 0.9
        labels[picture, place % 2] = [0, *boxes[picture, place] * [320, 240, 320, 240]]
    outputs = {"boxes": boxes, "scores": np.stack([1 - faces, faces], axis=2)}
    labels[0, 0] = [0, *boxes[0, 100] * [320, 240, 320, 240]]
    labels[0, 1] = [0, 0, 0, 1, 1]
    assert space["recall"](outputs, {"boxes": labels}).tolist() == [0.5, 1.0]
