"""A model of two decisions: each has its figure in tune and in compare, and both show what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dovetail.cli.main import main
from dovetail.ir import save_graph
from dovetail.outputs import Kind
from dovetail.testing.heads.net import HeadNet

from .conftest import Said

Run = Callable[..., Said]


@dataclass(frozen=True)
class Files:
    """A model that says what a picture is and where, its pictures, and what tune made of both."""

    model: Path
    photos: Path
    out: Path

    @property
    def preprocess(self) -> Path:
        return self.out / "preprocess.toml"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("two")
    found = Files(folder / "model.dvg", folder / "photos", folder / "out")
    net = HeadNet(5)
    (feature,) = net.backbone(net.picture(64, 64), (4,))
    classes = net.softmax(net.dense(net.pooled(feature), 5))
    mask = net.softmax(net.conv(feature, 4), 1)
    kinds = {"classes": Kind.CLASSIFICATION, "mask": Kind.SEGMENTATION}
    save_graph(net.finish({"classes": classes, "mask": mask}, kinds).graph, found.model)
    found.photos.mkdir()
    for number in range(12):
        coarse = np.random.default_rng(number).integers(0, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((80, 60)).save(found.photos / f"{number:02d}.png")
    assert main(["tune", str(found.model), "--data", str(found.photos), "--max-drop", "50%", "--proof-tests", "0",
                 "--stay", "-o", str(found.out)]) == 0  # fmt: skip
    return found


def test_tune_gives_each_decision_its_figure(files: Files) -> None:
    result = json.loads((files.out / "result.json").read_text())
    assert [(item["kind"], item["outputs"]) for item in result["decisions"]] == [
        ("classification", ["classes"]),
        ("segmentation", ["mask"]),
    ]
    holdout = result["scores"][1]
    losses = [item["float_score"] - item["score"] for item in result["decisions"]]
    # The worst of every picture counts: no decision loses more than both together.
    assert max(losses) - 1e-9 <= holdout["float_score"] - holdout["tuned"] <= sum(losses) + 1e-9
    assert result["differing"][0]["loss"] > 0
    report = (files.out / "report.txt").read_text()
    assert "Of several decisions the worst of each sample counts." in report
    assert report.count("<- worst") == 1
    page = (files.out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(result["differing"])
    assert result["differing"][0]["sample"] in page


def test_compare_gives_each_decision_its_figure_and_shows_pictures(files: Files, run: Run, tmp_path: Path) -> None:
    call = ("compare", files.model, files.out / "bundle", "--data", files.photos, "--preprocess", files.preprocess)
    said = run(*call, "--metric", "decisions", "--max-drop", 0.5, "--show", tmp_path / "page.html", "--json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    (task,) = document["tasks"]
    assert task["name"] == "decisions"
    assert [(part["name"], part["kind"]) for part in task["parts"]] == [
        ("classes", "classification"),
        ("mask", "segmentation"),
    ]
    assert all(0 < part["score"] <= part["float_score"] + 1e-9 for part in task["parts"])
    assert 0 < len(document["differing"]) <= 5
    losses = [item["loss"] for item in document["differing"]]
    assert losses == sorted(losses, reverse=True)
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") == len(losses)
    strict = run(*call, "--metric", "decisions", "--max-drop", 0)
    assert strict.code == 1
    assert "metric 'decisions'" in strict.out
    text = run(*call, "--show", tmp_path / "page.html", "--layers")
    assert "Samples that differ most" in text.out


def test_the_preprocessing_beside_a_bundle_is_taken_and_said(files: Files, run: Run, tmp_path: Path) -> None:
    call = ("compare", files.model, files.out / "bundle", "--data", files.photos, "--metric", "decisions", "--json")
    said = run(*call, "--preprocess", files.preprocess)
    beside = run(*call)
    assert json.loads(beside.out) == json.loads(said.out)
    assert f"images become inputs as {files.preprocess} says" in beside.err
    assert "images become inputs" not in said.err
    said = run("run", files.out / "bundle", "--data", files.photos, "--samples", 1)
    assert said.code == 0, said.err
    assert f"images become inputs as {files.preprocess} says" in said.err
    (tmp_path / "preprocess.toml").write_bytes(files.preprocess.read_bytes())
    (tmp_path / "model.dvg").write_bytes(files.model.read_bytes())
    alone = run("run", tmp_path / "model.dvg", "--data", files.photos)
    assert alone.code == 2, "what lies beside a model may be anybody's"
    assert "needs a preprocess file" in alone.err


def test_who_is_told_that_numbers_differ_is_told_of_decisions(files: Files, run: Run) -> None:
    call = ("compare", files.model, files.out / "bundle", "--data", files.photos, "--max-drop", 1, "--min-sqnr", 90)
    numbers = run(*call)
    assert numbers.code == 1
    assert "'--metric decisions' says what the outputs decide" in numbers.err
    both = run(*call, "--metric", "decisions")
    assert both.code == 1, "slices are judged beside a metric"
    assert "--metric decisions" not in both.err


def test_decisions_are_of_a_model_and_a_bundle(files: Files, run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=np.ones(3))
    for options in (("--metric", "decisions"), ("--show", tmp_path / "page.html")):
        said = run("compare", tmp_path / "a.npz", tmp_path / "a.npz", *options)
        assert said.code == 2
        assert "are of a model and a bundle" in said.err
    assert not (tmp_path / "page.html").exists()


def test_where_no_picture_goes_in_there_is_none(run: Run, tmp_path: Path) -> None:
    net = HeadNet(5)
    features = net.relu(net.dense(net.input("x", 1, 12), 16))
    scores = net.softmax(net.dense(features, 5))
    save_graph(net.finish({"classes": scores}, Kind.CLASSIFICATION).graph, tmp_path / "model.dvg")
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32))
    # By the vendor's prices so small a net takes as long in 16 bits, and then nothing differs.
    said = run("tune", tmp_path / "model.dvg", "--data", tmp_path / "rows.npz", "--max-drop", "50%", "--stay", "-o",
               tmp_path / "out", "--json", "--vendor-seconds", "0")  # fmt: skip
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert [item["name"] for item in document["decisions"]] == ["classes"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<img" not in page
    assert "What float and the candidate see" not in page
    assert document["differing"][0]["float_decides"].startswith("class ")


def test_a_quantised_file_is_compared_as_the_float_model_that_tune_took(files: Files, run: Run, tmp_path: Path) -> None:
    quantised = tmp_path / "quantised.onnx"
    said = run("quantize", files.model, "--plan", files.out / "plan.json", "--ranges", files.out / "ranges.json",
               "-o", quantised)  # fmt: skip
    assert said.code == 0, said.err
    data = ("--data", files.photos, "--preprocess", files.preprocess)
    assert run("tune", quantised, *data, "--max-drop", "50%", "--proof-tests", 0, "-o", tmp_path / "out").code == 0
    said = run("compare", quantised, tmp_path / "out" / "bundle", *data, "--metric", "decisions", "--max-drop", 0.5,
               "--min-sqnr", 0, "--json")  # fmt: skip
    assert said.code == 0, said.err
    assert json.loads(said.out)["tasks"][0]["golden"] > 0
