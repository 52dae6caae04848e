"""Decoders against the formulas of the publications, written out cell by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import DataError
from dovetail.ir import AnyArray
from dovetail.outputs.decode.boxes import corners_of, expected_bins
from dovetail.outputs.decode.detections import Detections, box_iou, suppress
from dovetail.outputs.decode.found import Reading, find_detections
from dovetail.outputs.decode.masks import class_map, text_regions
from dovetail.outputs.decode.planes import read_plane
from dovetail.outputs.decode.points import find_points
from dovetail.outputs.decode.symbols import read_symbols
from dovetail.outputs.layouts import (
    Activation,
    BinsLayout,
    Coding,
    Columns,
    DenseLayout,
    Form,
    HeatmapsLayout,
    LayoutPart,
    Level,
    MaskLayout,
    Plane,
    PointsLayout,
    RowsLayout,
    SequenceLayout,
)

LEVELS = (Level(8, 8, 2, 3, 2), Level(16, 16, 1, 2, 2))
"""Of a picture of 16 x 24: 12 places and 4."""


def table(channels, seed=0):
    """Return `[2, P, C]` in the order of cells, and the same values as every form of an output would hold them."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, 16, channels)).astype(np.float32)


def forms(values, level, start):
    """Yield forms of one level's values, with what an output of that form would be."""
    count, channels = len(values), values.shape[2]
    part = values[:, start : start + level.places]
    grid = part.reshape(count, level.rows, level.cols, level.anchors, channels)
    yield Form.PC, part
    yield Form.CP, part.transpose(0, 2, 1)
    yield Form.HWAC, grid
    yield Form.AHWC, grid.transpose(0, 3, 1, 2, 4)
    yield Form.ACHW, grid.transpose(0, 3, 4, 1, 2)
    yield Form.HWC, grid.reshape(count, level.rows, level.cols, -1)
    yield Form.CHW, grid.transpose(0, 3, 4, 1, 2).reshape(count, -1, level.rows, level.cols)


def test_every_form_of_an_output_reads_the_same():
    values = table(5)
    for index, level in enumerate(LEVELS):
        start = 12 * index
        for form, output in forms(values, level, start):
            plane = Plane("y", form, (level,), 1, 4, 5)
            np.testing.assert_array_equal(
                read_plane(plane, {"y": output}), values[:, start : start + level.places, 1:4]
            )


def test_anchors_after_one_another_are_put_side_by_side():
    values = table(3)
    turned = np.concatenate(
        [
            values[:, start : start + level.places]
            .reshape(2, -1, level.anchors, 3)
            .transpose(0, 2, 1, 3)
            .reshape(2, -1, 3)
            for start, level in ((0, LEVELS[0]), (12, LEVELS[1]))
        ],
        axis=1,
    )
    plane = Plane("y", Form.PC, LEVELS, 0, 3, 3, anchors_first=True)
    np.testing.assert_array_equal(read_plane(plane, {"y": turned}), values)


def test_an_output_of_another_size_is_refused():
    plane = Plane("y", Form.PC, LEVELS, 0, 3, 3)
    with pytest.raises(DataError, match=r"'y' \[1, 7, 2\] does not fit \[P, C\] of 16 places with 3 channels"):
        read_plane(plane, {"y": np.zeros((1, 7, 2))})
    with pytest.raises(DataError, match="output 'y' is missing; found z"):
        read_plane(plane, {"z": np.zeros(1)})


def cells():
    """Yield level, row, column and anchor of every place."""
    for level in LEVELS:
        for row in range(level.rows):
            for col in range(level.cols):
                for anchor in range(level.anchors):
                    yield level, row, col, anchor


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


ANCHORS = (((10.0, 14.0), (23.0, 27.0)), ((37.0, 58.0), (81.0, 82.0)))


def by_hand(coding, t, level, row, col, anchor):
    """Return centre and size by the published formula."""
    s = level.stride_x
    w, h = ANCHORS[LEVELS.index(level)][anchor]
    if coding is Coding.GRID_EXP:
        return (t[0] + col) * s, (t[1] + row) * s, math.exp(t[2]) * s, math.exp(t[3]) * s
    if coding is Coding.GRID_SIGMOID:
        return (math.tanh(t[0]) + col) * s, (math.tanh(t[1]) + row) * s, sigmoid(t[2]) * 24, sigmoid(t[3]) * 16
    if coding is Coding.ANCHORS_V3:
        return (sigmoid(t[0]) + col) * s, (sigmoid(t[1]) + row) * s, math.exp(t[2]) * w, math.exp(t[3]) * h
    if coding is Coding.ANCHORS_V5:
        x, y = (sigmoid(t[0]) * 2 - 0.5 + col) * s, (sigmoid(t[1]) * 2 - 0.5 + row) * s
        return x, y, (sigmoid(t[2]) * 2) ** 2 * w, (sigmoid(t[3]) * 2) ** 2 * h
    if coding is Coding.PIXELS:
        return (col + 0.5) * s + t[0], (row + 0.5) * s + t[1], t[2], t[3]
    assert coding is Coding.PRIORS
    x, y = (col + 0.5) * s + t[0] * 0.1 * w, (row + 0.5) * s + t[1] * 0.1 * h
    return x, y, math.exp(t[2] * 0.2) * w, math.exp(t[3] * 0.2) * h


def dense(values, coding, **options):
    plane = Plane("boxes", Form.PC, LEVELS, 0, values.shape[2], values.shape[2])
    scores = LayoutPart((Plane("scores", Form.PC, LEVELS, 0, 2, 2),), Activation.SIGMOID)
    return DenseLayout((16, 24), LEVELS, scores, LayoutPart((plane,)), coding, **options)


def boxes_of(layout: DenseLayout, outputs: Mapping[str, AnyArray]) -> AnyArray:
    """Return the corners of every place, where the layout has boxes."""
    boxes = corners_of(layout, outputs)
    assert boxes is not None
    return boxes


@pytest.mark.parametrize(
    "coding", [Coding.GRID_EXP, Coding.GRID_SIGMOID, Coding.ANCHORS_V3, Coding.ANCHORS_V5, Coding.PRIORS, Coding.PIXELS]
)
def test_codings_of_centre_and_size(coding):
    values = table(4)
    boxes = boxes_of(dense(values, coding, anchors=ANCHORS), {"boxes": values})
    for place, (level, row, col, anchor) in enumerate(cells()):
        x, y, w, h = by_hand(coding, values[1, place].astype(float), level, row, col, anchor)
        np.testing.assert_allclose(boxes[1, place], [x - w / 2, y - h / 2, x + w / 2, y + h / 2], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("centre", [0.0, 0.5])
def test_codings_of_distances(centre):
    values = np.abs(table(4))
    boxes = boxes_of(dense(values, Coding.DISTANCES, centre=centre), {"boxes": values})
    bins = table(4 * 8)
    spread = boxes_of(dense(bins, Coding.DISTRIBUTION, centre=centre), {"boxes": bins})
    for place, (level, row, col, _) in enumerate(cells()):
        x, y, s = (col + centre) * level.stride_x, (row + centre) * level.stride_y, level.stride_x
        left, top, right, low = values[0, place].astype(float) * s
        np.testing.assert_allclose(boxes[0, place], [x - left, y - top, x + right, y + low], rtol=1e-6)
        sides = []
        for side in range(4):
            powers = [math.exp(item) for item in bins[0, place, 8 * side : 8 * side + 8].astype(float)]
            sides.append(s * sum(i * power for i, power in enumerate(powers)) / sum(powers))
        np.testing.assert_allclose(
            spread[0, place], [x - sides[0], y - sides[1], x + sides[2], y + sides[3]], rtol=1e-5
        )


def test_plain_codings_in_pixels_and_shares():
    row = np.array([[[0.25, 0.5, 0.5, 1.0]]], np.float32)
    level = (Level(16, 24, 1, 1),)
    plane = LayoutPart((Plane("boxes", Form.PC, level, 0, 4, 4),))
    layout = DenseLayout((16, 24), level, plane, plane, Coding.CORNERS, unit=True)
    expected = {
        Coding.CORNERS: [6, 8, 12, 16],
        Coding.CORNERS_YX: [12, 4, 24, 8],
        Coding.CENTRE: [0, 0, 12, 16],
    }
    for coding, corners in expected.items():
        np.testing.assert_allclose(boxes_of(replace(layout, coding=coding), {"boxes": row})[0, 0], corners)


def test_a_box_without_a_known_coding_is_an_error():
    values, scores = table(4), np.ones((2, 16, 2), np.float32)
    with pytest.raises(DataError, match=r"numbers of a box mean is not known \(unknown\)"):
        find_detections(dense(values, Coding.UNKNOWN), {"boxes": values, "scores": scores})


def test_expected_bins_of_one_certain_bin():
    logits = np.full((1, 4 * 16), -50.0)
    logits[0, [3, 16 + 7, 32 + 0, 48 + 15]] = 50.0
    np.testing.assert_allclose(expected_bins(logits), [[3, 7, 0, 15]], atol=1e-12)


@st.composite
def boxes(draw):
    count = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    low = rng.uniform(0, 50, (count, 2))
    corners = np.concatenate([low, low + rng.uniform(1, 30, (count, 2))], axis=1)
    return Detections(corners, rng.permutation(count) / 12 + 0.01, rng.integers(0, 2, count))


@settings(max_examples=200, deadline=None)
@given(boxes())
def test_suppression_keeps_the_best_of_what_overlaps(found):
    """A box goes if and only if a kept, better box of its class overlaps it by more than the limit."""
    kept = suppress(found, 0.4)
    assert (np.diff(kept.scores) <= 0).all()
    survivors = {tuple(box) for box in kept.boxes}
    for box, score, label in zip(found.boxes, found.scores, found.classes, strict=True):
        better = (kept.scores > score) & (kept.classes == label)
        rivals = box_iou(box[None], kept.boxes[better])[0] if better.any() else np.zeros(0)
        assert (tuple(box) in survivors) == (not (rivals > 0.4).any())


def test_suppression_is_opencvs():
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(3)
    low = rng.uniform(0, 60, (80, 2))
    corners = np.concatenate([low, low + rng.uniform(5, 40, (80, 2))], axis=1)
    scores = rng.permutation(80) / 80 + 0.01
    sizes = np.concatenate([low, corners[:, 2:] - low], axis=1)
    theirs = cv2.dnn.NMSBoxes(sizes.tolist(), scores.tolist(), 0.3, 0.45)
    ours = suppress(Detections(corners[scores > 0.3], scores[scores > 0.3], np.zeros((scores > 0.3).sum(), int)), 0.45)
    np.testing.assert_allclose(ours.scores, scores[np.asarray(theirs).reshape(-1)])


def test_rows_leave_out_padding_and_what_is_not_counted():
    layout = RowsLayout(
        (100, 200),
        Columns("boxes", 0, 4),
        Columns("scores"),
        Coding.CORNERS_YX,
        True,
        Columns("classes"),
        "count",
        suppressed=True,
    )
    outputs = {
        "boxes": np.array([[[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [0, 0, 1, 1]]]),
        "scores": np.array([[0.9, 0.8, 0.7]]),
        "classes": np.array([[3.0, 1.0, 2.0]]),
        "count": np.array([2.0]),
    }
    (found,) = find_detections(layout, outputs)
    np.testing.assert_allclose(found.boxes[0], [40, 10, 80, 30])
    assert found.classes.tolist() == [3, 1]
    (strict,) = find_detections(layout, outputs, Reading(threshold=0.85))
    assert strict.classes.tolist() == [3]


def test_queries_leave_out_the_class_of_nothing():
    layout = RowsLayout(
        (10, 10), Columns("b", 0, 4), Columns("s", 0, 3), Coding.CENTRE, True, None, "", Activation.NONE, 2, True
    )
    outputs = {
        "b": np.array([[[0.5, 0.5, 0.2, 0.4], [0.5, 0.5, 1, 1]]]),
        "s": np.array([[[5.0, 0.0, 0.0], [0.0, 0.0, 9.0]]]),
    }
    (found,) = find_detections(layout, outputs)
    np.testing.assert_allclose(found.boxes, [[4, 3, 6, 7]])
    assert found.classes.tolist() == [0]


def test_masks():
    scores = np.zeros((1, 2, 2, 3), np.float32)
    scores[0, 1, 0, 1] = 2.0
    expected = [[0, 1, 0], [0, 0, 0]]
    assert class_map(MaskLayout("m", 0, 2), scores[0]).tolist() == expected
    assert class_map(MaskLayout("m", 2, 2), scores[0].transpose(1, 2, 0)).tolist() == expected
    single = MaskLayout("m", None, 2, Activation.SIGMOID, threshold=0.3)
    assert class_map(single, np.array([[[0.2, 0.31, 0.1], [0.0, 0.0, 0.0]]])).tolist() == expected
    assert class_map(MaskLayout("m", None, 2, labels=True), np.array(expected)).tolist() == expected


def test_regions_of_text_grow_by_the_published_rule():
    score = np.zeros((1, 1, 40, 60))
    score[0, 0, 10:16, 20:50] = 0.9
    score[0, 0, 30:32, 5:7] = 0.9  # too small
    score[0, 0, 25:35, 40:50] = 0.4  # not sure enough
    (found,) = text_regions(MaskLayout("m", None, 2, Activation.SIGMOID, threshold=0.3), {"m": score})
    grow = 6 * 30 * 1.5 / (2 * (6 + 30))
    np.testing.assert_allclose(found.boxes, [[20 - grow, 10 - grow, 50 + grow, 16 + grow]])
    assert found.scores == pytest.approx([0.9])


def test_points_of_maps_bins_and_lists():
    maps = np.zeros((1, 2, 5, 6))
    maps[0, 0, 2, 3], maps[0, 0, 2, 4] = 1.0, 0.5
    maps[0, 1, 4, 0] = 0.7
    places, scores = find_points(HeatmapsLayout("m", 0, 2), {"m": maps})
    np.testing.assert_allclose(places[0, 0], [3.25, 2.0])
    np.testing.assert_allclose(scores, [[1.0, 0.7]])
    same, _ = find_points(HeatmapsLayout("m", 2, 2), {"m": maps.transpose(0, 2, 3, 1)})
    np.testing.assert_allclose(same, places)
    bins = {"x": np.eye(8)[None, [3, 5]], "y": np.eye(6)[None, [1, 2]]}
    assert find_points(BinsLayout("x", "y", 2), bins)[0].tolist() == [[[3, 1], [5, 2]]]
    triples = {"p": np.array([[[[0.1, 0.2, 0.9], [0.3, 0.4, 0.8]]]])}
    places, scores = find_points(PointsLayout("p", 2, 3, "yx", 2), triples)
    np.testing.assert_allclose(places, [[[0.2, 0.1], [0.4, 0.3]]])
    np.testing.assert_allclose(scores, [[0.9, 0.8]])


def test_symbols_are_merged_and_blanks_left_out():
    steps = [0, 3, 3, 0, 3, 2, 2, 0]
    scores = np.eye(4)[steps][None]
    assert read_symbols(SequenceLayout("s", 0, 1, 4, 0), {"s": scores}) == [(3, 3, 2)]
    assert read_symbols(SequenceLayout("s", 0, 2, 4, 0), {"s": scores[:, :, None]}) == [(3, 3, 2)]
    assert read_symbols(SequenceLayout("s", 0, 1, 4), {"s": scores}) == [tuple(steps)]
