"""Samples of the hold-out that leave the ranges that others calibrated: they are named, and others are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.data import InputSpec, open_samples, split_samples
from dovetail.fit import FitRequest, fit
from dovetail.fit.unlike import unlike_note, unlike_samples
from dovetail.ir import Graph, save_graph
from dovetail.quantize import Calibration, Range
from dovetail.quantize.calibrate import calibrate
from dovetail.testing.networks import Network

_COUNT, _SHAPE = 60, (2, 6, 6)
_SPECS = [InputSpec("x", np.dtype(np.float32), (1, *_SHAPE))]


def _model() -> Graph:
    """Return a classifier of pictures whose inner values grow with their contrast."""
    net = Network(3)
    value = net.input("x", 1, *_SHAPE)
    for _ in range(4):
        value = net.op("LeakyRelu", net.conv(value, 6, 3), alpha=0.2)
    pooled = net.op("Flatten", net.op("GlobalAveragePool", value, shape=(1, 6, 1, 1)), shape=(1, 6))
    return net.graph(net.op("Softmax", pooled, axis=1))


def _images(seed: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (_COUNT, *_SHAPE)).astype(np.float32)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "samples.npz"


def _calibrated(place: Path, images: np.ndarray) -> tuple[Graph, Calibration]:
    graph = _model()
    np.savez(place, x=images)
    return graph, calibrate(graph, open_samples(place, _SPECS))


def test_only_samples_of_another_contrast_are_unlike(place: Path) -> None:
    graph, calibration = _calibrated(place, _images())
    others = _images(5)
    others[7] *= 4.0
    others[11] *= 8.0
    np.savez(place, x=others[:20])
    found = unlike_samples(graph, calibration.ranges, open_samples(place, _SPECS))
    assert [item.name.endswith(end) for item, end in zip(found, ("11", "7"), strict=True)] == [True, True]
    assert all(item.beyond > item.tensors / 2 for item in found)
    assert found[0].most > found[1].most > 1.0


def test_a_note_names_three_and_counts_the_rest(place: Path) -> None:
    graph, calibration = _calibrated(place, _images())
    np.savez(place, x=_images(5) * 6.0)
    note = unlike_note(graph, calibration.ranges, open_samples(place, _SPECS))
    assert note.startswith(f"32 of the first 32 hold-out samples are unlike the {_COUNT} that ranges were found on: '")
    assert note.count("leaves the ranges of") == 3
    assert "; and 29 more" in note


def test_ranges_that_cut_off_on_purpose_say_nothing(place: Path) -> None:
    graph, calibration = _calibrated(place, _images())
    np.savez(place, x=_images(5) * 6.0)
    samples = open_samples(place, _SPECS)
    assert unlike_samples(graph, replace(calibration.ranges, method="percentile"), samples) == ()
    flat = replace(calibration.ranges, tensors={name: Range(0.0, 0.0) for name in calibration.ranges.tensors})
    assert unlike_note(graph, flat, samples) == ""


@pytest.mark.parametrize("times", [1.0, 30.0])
def test_a_search_that_the_hold_out_refuses_says_why(place: Path, tmp_path: Path, times: float) -> None:
    images = _images()
    request = FitRequest(tmp_path / "model.dvg", place, max_drop="1%")
    save_graph(_model(), tmp_path / "model.dvg")
    np.savez(place, x=images)
    splits = split_samples(open_samples(place, _SPECS), request.split)
    images[list(splits.holdout)] *= times
    np.savez(place, x=images)
    found = fit(request)
    said = [item for item in found.report.remarks if "unlike" in item]
    if times == 1.0:
        assert said == []
    else:
        assert not found.accepted or found.result.looks > 1
        count = len(splits.holdout)
        assert f"{count} of the {count} hold-out samples are unlike the {len(splits.search)} that" in said[0]
        assert said[0][:40] in str(found)
        assert said[0] in (found.save(tmp_path / "out")["result"]).read_text()
