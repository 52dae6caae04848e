"""From a folder of pictures to a plan with no option but the target; and folders that are not enough."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dovetail.cli.main import main
from dovetail.errors import DataError
from dovetail.fit import FitRequest, PriceRequest, fit
from dovetail.fit.pictures import choose_preprocess
from dovetail.ir import save_graph
from dovetail.outputs import Kind
from dovetail.passes import normalize
from dovetail.testing.heads.detectors import fastestdet
from dovetail.testing.heads.net import HeadNet
from dovetail.testing.networks import Network


def add_pictures(folder: Path, count: int, size: tuple[int, int] = (160, 120), *, grey: bool = False) -> None:
    """Write pictures of smooth random colours, numbered on from those that are there."""
    folder.mkdir(exist_ok=True)
    start = len(list(folder.iterdir()))
    for number in range(start, start + count):
        coarse = np.random.default_rng(number).integers(0, 255, (6, 8, 3), dtype=np.uint8)
        picture = Image.fromarray(coarse).resize(size)
        (picture.convert("L") if grey else picture).save(folder / f"{number:02d}.png")


@pytest.fixture
def request_(tmp_path: Path) -> FitRequest:
    """Return a detector with random weights, and an empty folder for its pictures."""
    save_graph(fastestdet(np.random.default_rng(1)).graph, tmp_path / "model.dvg")
    (tmp_path / "photos").mkdir()
    return FitRequest(tmp_path / "model.dvg", tmp_path / "photos", price=PriceRequest(proof_tests=0))


def test_a_folder_is_enough(request_: FitRequest, tmp_path: Path) -> None:
    add_pictures(tmp_path / "photos", 11)
    asked = replace(request_, folder=tmp_path / "out")
    answer = fit(asked)
    # Eleven pictures prove nothing; with nothing raised all of them lose ten times what is allowed.
    assert not answer.accepted
    assert answer.result.raised
    named = r"more samples would decide(; \d+ raised units? takes? [\d.]+ ms \(.*\))?"
    assert re.fullmatch(rf"missed: [^;]*; about [\d,]+ {named}", answer.result.summary), answer.result.summary
    assert (answer.result.metric, answer.result.holdout.samples) == ("decisions", 4)
    assert 0 < answer.result.holdout.tuned <= answer.result.holdout.float_score <= 1
    (row,) = answer.report.outputs
    assert (row.kind, row.family) == ("detection", "fastestdet")
    assert row.confidence > 0.9
    outputs, guessed, enough = answer.report.notes
    assert outputs.startswith("outputs: detection (fastestdet), 99 % sure: 'output' combined; float detects ")
    assert guessed.startswith("preprocessing guessed on 11 pictures: ")
    assert enough.startswith("4 samples on the hold-out cannot show the goal with 95% confidence; 299 on the hold-out")
    (figure,) = answer.report.decisions
    assert (figure.kind, figure.score) == ("detection", pytest.approx(answer.result.holdout.tuned))
    assert [picture.caption.split(": ")[0] for picture in answer.pictures] == [
        row.sample for row in answer.report.differing
    ]
    assert bool(answer.pictures) is (answer.result.holdout.tuned < answer.result.holdout.float_score)
    files = answer.save(tmp_path / "out")
    assert answer.save(tmp_path / "out") == files  # The same command again.
    assert f"\n# {guessed}\n" in files["preprocess"].read_text()
    confirmed = fit(replace(asked, preprocess=files["preprocess"]))
    assert confirmed.preprocess == ""
    assert confirmed.result.plan == answer.result.plan
    assert confirmed.result.cost.fresh_samples == 0


def test_a_metric_of_one_s_own_has_pictures_of_decisions_too(request_: FitRequest, tmp_path: Path) -> None:
    add_pictures(tmp_path / "photos", 11)
    (tmp_path / "mine.py").write_text("def score(outputs, labels):\n    return [0.5] * len(outputs['output'])\n")
    answer = fit(replace(request_, metric=f"{tmp_path / 'mine.py'}:score", folder=tmp_path / "out"))
    assert answer.result.metric == "score"
    assert [row.kind for row in answer.report.outputs] == ["detection"]
    assert answer.report.differing
    assert len(answer.pictures) == len(answer.report.differing)


def test_what_is_stated_is_not_guessed(request_: FitRequest, tmp_path: Path) -> None:
    add_pictures(tmp_path / "photos", 3)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"do_resize": true, "size": {"height": 320, "width": 320}, "image_mean": [0.5, 0.5, 0.5],'
        ' "image_std": [0.5, 0.5, 0.5], "do_normalize": true, "do_rescale": true, "rescale_factor": 0.0039215686}'
    )
    answer = fit(replace(request_, anyway=True, max_drop="50%"))
    assert answer.report.notes[1] == f"preprocessing as stated ({tmp_path / 'preprocessor_config.json'})"
    assert tomllib.loads(answer.preprocess)["mean"] == pytest.approx([127.5] * 3)


def test_what_is_guessed_without_following_decisions_is_not_said_to_be_stated(tmp_path: Path) -> None:
    """A value is nothing that a change of the picture keeps: what is left are the weights, and they are named."""
    add_pictures(tmp_path / "photos", 3)
    net = HeadNet(1)
    flat = net.pooled(net.backbone(net.picture(64, 64), (16,))[0])
    graph = normalize(net.finish({"age": net.dense(flat, 1)}, Kind.REGRESSION).graph)
    chosen = choose_preprocess(FitRequest(tmp_path / "model.onnx", tmp_path / "photos", "cpu"), graph, graph)
    assert chosen.notes[0].startswith("preprocessing guessed by the first layer's weights alone: RGB, ")


def three(folder: Path) -> None:
    add_pictures(folder, 3)


def broken(folder: Path) -> None:
    add_pictures(folder, 11)
    (folder / "11.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")


def deep(folder: Path) -> None:
    add_pictures(folder, 11)
    Image.fromarray(np.zeros((60, 80), np.uint16)).save(folder / "11.png")


def cut(folder: Path) -> None:
    add_pictures(folder, 11)
    (folder / "03.png").write_bytes((folder / "03.png").read_bytes()[:200])
    (folder / "04.png").write_bytes(b"")


def other_kinds(folder: Path) -> None:
    for number in range(12):
        Image.new("RGB", (80, 60)).save(folder / f"{number}.gif")


def empty(folder: Path) -> None:
    (folder / "notes.txt").write_text("no picture")


@pytest.mark.parametrize(
    ("fill", "line"),
    [
        (
            three,
            r"3 samples: nothing is accepted on fewer than 10; to show the goal 299 on the hold-out, 748 in all, "
            r"would do\. Give more samples, or say that it shall be done anyway\. Option: --anyway\.$",
        ),
        (
            broken,
            r"photos: 1 of 12 pictures cannot be read: 11\.jpg \(.*\)\. Repair or remove them\. Option: --data\.$",
        ),
        (
            deep,
            r"photos: 1 of 12 pictures cannot be read: 11\.png \(mode I;16 has more than 8 bits a channel\)\. "
            r"Repair or remove them\. Option: --data\.$",
        ),
        (cut, r"photos: 2 of 11 pictures cannot be read: 03\.png \(.*\)\. Repair or remove them\. Option: --data\.$"),
        (other_kinds, r"photos: .*no .* file, but 12 of other kinds \(0\.gif, \.\.\.\)\. Save them as one of these\.$"),
        (empty, r"photos: .*no \.jpg, \.jpeg, \.png or \.bmp file\.$"),
    ],
)
def test_a_folder_that_is_not_enough_is_one_line(
    request_: FitRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str], fill: Callable[[Path], None], line: str
) -> None:
    fill(tmp_path / "photos")
    assert main(["tune", str(request_.model), "--data", str(request_.data), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    errors = [text for text in said.err.splitlines() if text.startswith("error: ")]
    assert len(errors) == 1
    assert re.search(line, errors[0]), errors
    assert not (tmp_path / "out").exists()


def test_grey_and_mixed_pictures_are_said(request_: FitRequest, tmp_path: Path) -> None:
    add_pictures(tmp_path / "photos", 9)
    add_pictures(tmp_path / "photos", 2, (80, 60), grey=True)
    (tmp_path / "preprocess.toml").write_text("resize = [320, 320]\nscale = 0.00392156862745098\n")
    answer = fit(replace(request_, preprocess=tmp_path / "preprocess.toml", max_drop="50%"))
    assert answer.report.notes[1:3] == (
        "2 of 11 pictures are grey: 09.png, 10.png",
        "pictures of 2 sizes, from 80x60 to 160x120",
    )


def test_pictures_of_every_kind_go_together_and_are_said(request_: FitRequest, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    add_pictures(folder, 8)
    first = Image.open(folder / "00.png")
    first.convert("RGBA").save(folder / "rgba.png")
    first.convert("LA").save(folder / "la.png")
    first.convert("P").save(folder / "palette.png")
    first.convert("CMYK").save(folder / "cmyk.jpg")
    first.save(folder / "left.gif")
    (folder / "film.mp4").write_bytes(b"no film")
    answer = fit(replace(request_, max_drop="50%"))
    assert len([note for note in answer.report.notes if note.startswith("preprocessing guessed on 12 pictures")]) == 1
    assert answer.report.notes[2:6] == (
        "1 of 12 pictures are grey: la.png",
        "the transparency of 2 of 12 pictures is dropped: la.png, rgba.png",
        "1 of 12 pictures are CMYK, made RGB without a profile: cmyk.jpg",
        "1 files are no .jpg, .png or .bmp and left out: left.gif",
    )
    assert "1 videos and sounds beside the pictures are left out" in answer.report.notes


def test_what_is_no_folder_of_pictures_is_not_guessed_at(request_: FitRequest, tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", images=np.zeros((12, 3, 320, 320), np.float32))
    with pytest.raises(DataError, match="no pictures and no videos") as error:
        fit(replace(request_, data=tmp_path / "arrays.npz", preprocess="auto"))
    assert error.value.option == "preprocess"


def test_a_model_without_a_picture_says_so(request_: FitRequest, tmp_path: Path) -> None:
    net = Network(0)
    save_graph(net.graph(net.op("Relu", net.input("x", 1, 7))), tmp_path / "model.dvg")
    add_pictures(tmp_path / "photos", 11)
    with pytest.raises(DataError, match="has no input that looks like a picture"):
        fit(request_)


def test_a_picture_of_an_open_size_is_asked_for(request_: FitRequest, tmp_path: Path) -> None:
    """PP-OCR's detector and others take pictures of any size: the file cannot say which is meant."""
    net = Network(0)
    graph = net.graph(net.conv(net.input("x", 1, 3, 64, 64), 4, 3))
    kind = replace(graph.types["x"], shape=(1, 3, "h", "w"))
    save_graph(graph.evolve(types={**graph.types, "x": kind}), tmp_path / "model.dvg")
    add_pictures(tmp_path / "photos", 11)
    with pytest.raises(DataError, match=r"input 'x' .* leaves the size of its picture open") as error:
        fit(request_)
    assert error.value.option == "shape"
    assert "x=1,3,480,480" in str(error.value.hint)


def test_the_example_of_a_size_keeps_the_layout_and_what_is_known(request_: FitRequest, tmp_path: Path) -> None:
    """TensorFlow's models have channels last, as MTCNN's first network."""
    net = Network(0)
    graph = net.graph(net.op("Relu", net.input("x", 1, 64, 64, 3)))
    kind = replace(graph.types["x"], shape=("N", "h", 320, 3))
    save_graph(graph.evolve(types={**graph.types, "x": kind}), tmp_path / "model.dvg")
    add_pictures(tmp_path / "photos", 11)
    with pytest.raises(DataError, match="leaves the size of its picture open") as error:
        fit(request_)
    assert "x=1,480,320,3" in str(error.value.hint)
