"""From a video or a folder of sounds to a plan, with no option but the target; and what is said where it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import needs
import numpy as np
import pytest
from PIL import Image

from dovetail.cli.main import main
from dovetail.errors import DataError
from dovetail.fit import FitRequest, PriceRequest, fit
from dovetail.ir import save_graph
from dovetail.outputs import Kind
from dovetail.testing.heads.detectors import fastestdet
from dovetail.testing.heads.net import HeadNet


def add_video(path: Path, seconds: int) -> None:
    """Write a video of two frames a second, each of smooth random colours."""
    cv2 = needs.package("cv2")
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 2, (160, 120))
    assert writer.isOpened()
    for number in range(2 * seconds):
        coarse = np.random.default_rng(number).integers(0, 255, (6, 8, 3), dtype=np.uint8)
        writer.write(np.asarray(Image.fromarray(coarse).resize((160, 120))))
    writer.release()


def add_sounds(folder: Path, count: int) -> None:
    sounds = needs.package("soundfile")
    folder.mkdir()
    for number in range(count):
        wave = np.random.default_rng(number).uniform(-0.5, 0.5, 2000)
        sounds.write(folder / f"{number}.wav", wave, 16000)


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """Return a detector with random weights."""
    save_graph(fastestdet(np.random.default_rng(1)).graph, tmp_path / "model.dvg")
    return tmp_path / "model.dvg"


@pytest.fixture
def listener(tmp_path: Path) -> Path:
    """Return a network that says one of five things of a thousand values of a wave."""
    net = HeadNet(2)
    hidden = net.relu(net.dense(net.input("wave", 1, 1000), 16))
    save_graph(
        net.finish({"classes": net.softmax(net.dense(hidden, 5))}, Kind.CLASSIFICATION).graph, tmp_path / "m.dvg"
    )
    return tmp_path / "m.dvg"


@pytest.mark.parametrize("whole_folder", [False, True])
@pytest.mark.parametrize("preprocess", [None, "auto"])
def test_a_video_is_as_good_as_pictures(
    detector: Path, tmp_path: Path, whole_folder: bool, preprocess: str | None
) -> None:
    (tmp_path / "films").mkdir()
    add_video(tmp_path / "films" / "a.avi", 12)
    data = tmp_path / "films" if whole_folder else tmp_path / "films" / "a.avi"
    price = PriceRequest(proof_tests=0)
    answer = fit(FitRequest(detector, data, preprocess=preprocess, max_drop="50%", price=price))
    assert answer.accepted
    assert answer.report.notes[1].startswith("preprocessing guessed on 12 pictures: ")
    assert answer.report.notes[2].startswith("frames of one video resemble each other")
    assert "resize" in answer.preprocess or "letterbox" in answer.preprocess
    assert answer.result.search.samples + answer.result.holdout.samples == 12
    assert all(row.sample.startswith("a.avi#") for row in answer.report.differing)
    assert len(answer.pictures) == len(answer.report.differing) > 0


@pytest.mark.parametrize("preprocess", [None, "auto"])
def test_a_folder_of_sounds_is_windows(listener: Path, tmp_path: Path, preprocess: str | None) -> None:
    add_sounds(tmp_path / "sounds", 8)
    answer = fit(FitRequest(listener, tmp_path / "sounds", preprocess=preprocess, max_drop="50%"))
    assert answer.result.search.samples + answer.result.holdout.samples == 16
    assert answer.report.notes[1] == "sounds are cut into windows as long as the input, mono, in -1..1"
    assert (answer.preprocess, answer.pictures) == ("", ())


def refused(model: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line that the command says."""
    assert main(["tune", str(model), "--data", str(data), "-o", str(data.parent / "out")]) == 2
    said = capsys.readouterr()
    (line,) = [text for text in said.err.splitlines() if text.startswith("error: ")]
    assert said.out == ""
    assert not (data.parent / "out").exists()
    return line


def test_a_short_video_is_one_line(detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_video(tmp_path / "a.avi", 3)
    assert "3 samples: nothing is accepted on fewer than 10" in refused(detector, tmp_path / "a.avi", capsys)


@pytest.mark.parametrize(("name", "package", "extra"), [("a.mp4", "cv2", "video"), ("a.wav", "soundfile", "audio")])
def test_without_the_extra_it_says_what_to_install(
    name: str,
    package: str,
    extra: str,
    detector: Path,
    listener: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, package, None)
    line = refused(detector if extra == "video" else listener, tmp_path / name, capsys)
    assert f"pip install 'dovetail[{extra}]'" in line


def test_what_is_no_video_is_one_line(detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs.package("cv2")
    (tmp_path / "a.mp4").write_bytes(b"no video at all")
    assert "a.mp4: not a video that can be read" in refused(detector, tmp_path / "a.mp4", capsys)


def test_labels_are_not_for_videos(detector: Path, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"x")
    (tmp_path / "labels.csv").write_text("name,label\na,1\n")
    preprocess = tmp_path / "preprocess.toml"
    preprocess.write_text("resize = [320, 320]\n")
    request = FitRequest(detector, tmp_path / "a.mp4", labels=tmp_path / "labels.csv", preprocess=preprocess)
    with pytest.raises(DataError, match="a labels file serves a folder of pictures or arrays, not videos"):
        fit(request)


def test_a_video_beside_pictures_is_said_to_be_left_out(detector: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(11):
        coarse = np.random.default_rng(number).integers(0, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((160, 120)).save(folder / f"{number}.png")
    (folder / "a.mp4").write_bytes(b"x")
    answer = fit(FitRequest(detector, folder, max_drop="50%", price=PriceRequest(proof_tests=0)))
    assert "1 videos and sounds beside the pictures are left out" in answer.report.notes
