"""Keypoints of what a detector detects, and of nothing else."""

from __future__ import annotations

from dataclasses import replace

import draws
import numpy as np
import pytest

from dovetail.compare.decisions import metric_for, see_random
from dovetail.compare.decisions.points import LandmarkAgreement, has_landmarks
from dovetail.outputs import HeadView, Kind, OutputRole, OutputsView
from dovetail.outputs.decode.scores import place_scores
from dovetail.outputs.hints import parse_hints
from dovetail.outputs.layouts import Coding, DenseLayout, Form, LayoutPart, Level, Plane
from dovetail.outputs.recognise import recognise_arrays
from dovetail.passes import normalize
from dovetail.testing.heads import detectors


def _seen(draw):
    """Return a drawn detector's head with landmarks, that detects in one place of a hundred, and its outputs."""
    rng = np.random.default_rng(draws.seed_here())
    while True:
        found = see_random(normalize(draw(rng).graph), threads=1)
        if [OutputRole.LANDMARKS in head.roles.values() for head in found.view.heads] == [True]:
            break
    (head,) = found.view.heads
    assert isinstance(head.layout, DenseLayout)
    scores = np.concatenate([place_scores(head.layout, found.golden, row).max(axis=1) for row in range(3)])
    return replace(head, layout=replace(head.layout, threshold=float(np.quantile(scores, 0.99)))), found.golden


def _landmarks(head, golden):
    (metric,) = [
        part.metric
        for part in metric_for(OutputsView((head,)), golden).parts
        if isinstance(part.metric, LandmarkAgreement)
    ]
    return metric


@pytest.mark.parametrize("draw", [detectors.yunet, detectors.scrfd, detectors.retinaface])
def test_places_where_float_detects_nothing_do_not_count(draw):
    head, golden = _seen(draw)
    metric = _landmarks(head, golden)
    names = [name for name, role in head.roles.items() if role is OutputRole.LANDMARKS]
    noise = np.random.default_rng(0)
    spoilt = {
        name: values + noise.normal(0, 10 * values.std(), values.shape) if name in names else values
        for name, values in golden.items()
    }
    assert (metric.per_sample(spoilt, golden) < 0.5).all()
    never = replace(metric, layout=replace(head.layout, threshold=1.1))
    np.testing.assert_array_equal(never.per_sample(spoilt, golden), 1.0)
    np.testing.assert_array_equal(metric.per_sample(golden, golden), 1.0)


LEVEL = Level(8.0, 8.0, 1, 4)


def _layout(width):
    """Return a detector with four places in a row, whose keypoints have so many numbers."""
    planes = {name: Plane(name, Form.PC, (LEVEL,), 0, size, size) for name, size in (("s", 1), ("b", 4), ("l", width))}
    scores, boxes, points = (LayoutPart((plane,)) for plane in planes.values())
    return DenseLayout((8, 32), (LEVEL,), scores, boxes, Coding.CORNERS, landmarks=points, threshold=0.5)


def _arrays(width, seed=0):
    rng = np.random.default_rng(seed)
    logits = np.array([[[3.0], [-3.0], [1.0], [-5.0]]])
    return {"s": logits, "b": rng.normal(size=(1, 4, 4)), "l": rng.uniform(0, 20, (1, 4, width))}


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e4])
def test_a_keypoint_is_near_by_what_those_of_its_place_span(unit):
    golden = _arrays(4)
    golden["l"] = np.array([[[0, 0, 10, 0], [0, 0, 0, 0], [0, 0, 0, 20], [1, 1, 1, 1]]]) * unit
    metric = LandmarkAgreement(_layout(4))
    for share, kept in ((0.05, 1.0), (0.125, 0.5), (0.2, 0.0), (5.0, 0.0)):
        moved = {**golden, "l": golden["l"].copy()}
        moved["l"][0, :, 1] += share * np.array([10, 10, 20, 10]) * unit
        # One of the two points of every place is where it was.
        assert metric.per_sample(moved, golden)[0] == pytest.approx((1 + kept) / 2)


def test_a_place_weighs_as_float_is_sure_of_it_and_a_point_as_it_is_seen():
    golden = _arrays(9)
    golden["l"][..., 2::3] = np.array([1.0, 0.5, 0.0])
    moved = {**golden, "l": golden["l"].copy()}
    moved["l"][0, 0, 0] += 1e6
    moved["l"][0, 0, 6] += 1e6
    shares = 1 / (1 + np.exp(-np.array([3.0, 1.0])))
    lost = shares[0] * 1.0 / (1.5 * shares.sum())
    assert LandmarkAgreement(_layout(9)).per_sample(moved, golden)[0] == pytest.approx(1 - lost, abs=1e-6)


def test_a_number_that_is_none_is_lost():
    golden = _arrays(4)
    moved = {**golden, "l": np.full_like(golden["l"], np.nan)}
    assert LandmarkAgreement(_layout(4)).per_sample(moved, golden)[0] == 0.0


@pytest.mark.parametrize(("width", "known"), [(2, False), (3, False), (4, True), (51, True), (7, False)])
def test_a_single_point_spans_nothing(width, known):
    assert has_landmarks(_layout(width)) is known
    golden = _arrays(width)
    names = [part.name for part in metric_for(OutputsView((_head(width),)), golden).parts]
    assert names == ["detections", "landmarks" if known else "values of l"]
    (*_, last) = metric_for(OutputsView((_head(width),)), golden).parts
    assert last.outputs == (("l",) if known else ("s", "b", "l"))


def _head(width):
    roles = {"s": OutputRole.SCORES, "b": OutputRole.BOXES, "l": OutputRole.LANDMARKS}
    return HeadView(Kind.DETECTION, "", roles, _layout(width), 1.0)


def test_landmarks_that_a_person_does_not_name_are_left_out():
    head, golden = _seen(detectors.scrfd)
    image = head.layout.image
    said = {role: next(name for name, one in head.roles.items() if one is role) for role in head.roles.values()}
    points = said.pop(OutputRole.LANDMARKS)
    line = ["kind=detection", *(f"{role.value}={name}" for role, name in said.items())]
    for hints, there in ((line, False), ([*line, f"landmarks={points}"], True), (line[:1], True)):
        (seen,) = recognise_arrays(golden, image, parse_hints(",".join(hints))).heads
        assert isinstance(seen.layout, DenseLayout)
        assert (seen.layout.landmarks is not None) is there
        assert (OutputRole.LANDMARKS in seen.roles.values()) is there
