"""Frames of videos and windows of sounds as samples."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dovetail.data import InputSpec, Preprocess, PreprocessStep, StepKind, open_samples
from dovetail.errors import DataError

IMAGE = (InputSpec("x", np.dtype(np.float32), (1, 3, 16, 16)),)
STRETCH = Preprocess((PreprocessStep(StepKind.RESIZE, 16, 16),))


def write_video(path, frames, rate=5):
    cv2 = pytest.importorskip("cv2")
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), rate, (32, 24))
    assert writer.isOpened()
    for number in range(frames):
        # Blue, green, red: OpenCV's order.
        writer.write(np.full((24, 32, 3), (0, 0, 10 * number), np.uint8))
    writer.release()


def test_frames_come_once_a_second_in_rgb(tmp_path):
    write_video(tmp_path / "a.avi", 20)
    source = open_samples(tmp_path, IMAGE, STRETCH)
    samples = list(source)
    assert source.count == len(samples) == 4
    assert [sample.id for sample in samples] == ["a.avi#000000", "a.avi#000006", "a.avi#000012", "a.avi#000019"]
    red = [float(sample.inputs["x"][0, 0].mean()) for sample in samples]
    np.testing.assert_allclose(red, [0, 60, 120, 190], atol=6)
    assert all(float(sample.inputs["x"][0, 2].mean()) < 10 for sample in samples)
    (third,) = source.subset([2])
    assert third.id == "a.avi#000012"
    assert open_samples(tmp_path / "a.avi", IMAGE, STRETCH).digest == source.digest


def test_videos_that_are_none(tmp_path):
    pytest.importorskip("cv2")
    (tmp_path / "a.mp4").write_bytes(b"no video at all")
    with pytest.raises(DataError, match="not a video that can be read"):
        open_samples(tmp_path, IMAGE, STRETCH)
    with pytest.raises(DataError, match="a video needs a preprocess file"):
        open_samples(tmp_path / "a.mp4", IMAGE)


def test_without_opencv_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(DataError, match=r"needs OpenCV, which is not installed\. pip install 'dovetail\[video\]'"):
        open_samples(tmp_path, IMAGE, STRETCH)


WAVE = (InputSpec("x", np.dtype(np.float32), (1, 1000)),)


def write_sound(path, values, rate=16000):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(str(path), values, rate, subtype="PCM_16")


def test_windows_follow_one_another_and_the_end_is_silent(tmp_path):
    rng = np.random.default_rng(0)
    stereo = rng.uniform(-0.5, 0.5, (2500, 2))
    write_sound(tmp_path / "long.wav", stereo)
    write_sound(tmp_path / "short.wav", np.full(300, 0.25))
    source = open_samples(tmp_path, WAVE)
    samples = list(source)
    assert [sample.id for sample in samples] == ["long.wav#0", "long.wav#1000", "short.wav#0"]
    np.testing.assert_allclose(samples[1].inputs["x"][0], stereo[1000:2000].mean(axis=1), atol=1e-4)
    short = samples[2].inputs["x"][0]
    np.testing.assert_allclose(short[:300], 0.25, atol=1e-4)
    assert not short[300:].any()
    assert [sample.id for sample in source.subset([1])] == ["long.wav#1000"]


def test_sounds_that_do_not_fit(tmp_path):
    write_sound(tmp_path / "a.wav", np.zeros(2000))
    features = (InputSpec("mfcc", np.dtype(np.float32), (1, 49, 10)),)
    with pytest.raises(DataError, match=r"input 'mfcc' \[1, 49, 10\] takes no sound as it is\. Give the features"):
        open_samples(tmp_path, features)
    write_sound(tmp_path / "b.wav", np.zeros(2000), 8000)
    with pytest.raises(DataError, match=r"different sample rates: 8000 Hz \(b\.wav\), 16000 Hz \(a\.wav\)"):
        open_samples(tmp_path, WAVE)
    (tmp_path / "b.wav").write_bytes(b"RIFF nothing")
    with pytest.raises(DataError, match="not a sound that can be read"):
        open_samples(tmp_path, WAVE)


def test_without_soundfile_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.wav").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(DataError, match=r"needs soundfile, which is not installed\. pip install 'dovetail\[audio\]'"):
        open_samples(tmp_path, WAVE)
