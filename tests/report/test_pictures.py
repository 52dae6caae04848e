"""What is drawn of decisions, and what is said of them."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import pytest
from PIL import Image

from dovetail.data import Sample
from dovetail.ir import AnyArray
from dovetail.outputs import Kind, OutputRole, OutputsView
from dovetail.outputs.layouts import (
    Activation,
    BinsLayout,
    Coding,
    Columns,
    HeatmapsLayout,
    Layout,
    MaskLayout,
    PointsLayout,
    RowsLayout,
    ScoresLayout,
    SequenceLayout,
    VectorLayout,
)
from dovetail.outputs.view import HeadView
from dovetail.report import DecidedSample, differing_pictures, differing_rows
from dovetail.report.decided import decided_text
from dovetail.report.pictures import draw_decisions, picture_png

GREEN, RED = (60, 180, 75), (230, 25, 75)
ROWS = RowsLayout(
    image=(100, 100),
    boxes=Columns("y", 0, 4),
    scores=Columns("y", 4, 5),
    classes=Columns("y", 5, 6),
    coding=Coding.CORNERS,
    unit=False,
    suppressed=True,
)


def view(layout: Layout | None, kind: Kind) -> OutputsView:
    return OutputsView((HeadView(kind, "", {"y": OutputRole.UNKNOWN}, layout, 1.0),))


def boxes(*rows: tuple[float, ...]) -> Mapping[str, AnyArray]:
    """Return rows of corners, score and class."""
    return {"y": np.array(rows, np.float32).reshape(1, -1, 6)}


def drawn(layout: Layout, kind: Kind, *sides: Mapping[str, AnyArray]) -> AnyArray:
    """Return pixels of what both sides see in a grey picture of 100 x 100: each is 600 x 600 below its caption."""
    named = [(f"side {number}", side) for number, side in enumerate(sides)]
    picture = draw_decisions(view(layout, kind), Image.new("RGB", (100, 100), (128, 128, 128)), named)
    assert picture is not None
    assert picture.size == (1206, 616)
    return np.asarray(picture)


def test_boxes_that_only_one_side_has_are_red() -> None:
    shared, alone = (10.0, 10.0, 40.0, 40.0, 0.9, 1.0), (60.0, 60.0, 90.0, 90.0, 0.8, 1.0)
    other_class = (*shared[:5], 2.0)
    both, one = boxes(shared, alone), boxes(shared)
    pixels = drawn(ROWS, Kind.DETECTION, both, one)
    for left, x, colour in ((0, 10, GREEN), (0, 60, RED), (606, 10, GREEN)):
        assert tuple(pixels[16 + 6 * x + 90, left + 6 * x]) == colour
    assert tuple(pixels[16 + 450, 606 + 360]) == (128, 128, 128)
    pixels = drawn(ROWS, Kind.DETECTION, one, boxes(other_class))
    assert tuple(pixels[16 + 150, 60]) == RED
    assert tuple(pixels[16 + 150, 606 + 60]) == RED


def test_boxes_outside_or_without_a_place_are_no_error() -> None:
    wild = boxes((-1e30, 0.0, 1e30, 50.0, 0.9, 0.0), (50.0, 50.0, 20.0, 20.0, 0.9, 0.0))
    drawn(ROWS, Kind.DETECTION, wild, boxes())


def test_masks_are_coloured_where_float_sees_no_background() -> None:
    layout = MaskLayout("y", None, 3, labels=True)
    golden, measured = np.zeros((1, 10, 10), np.int64), np.ones((1, 10, 10), np.int64)
    golden[0, :3] = 2
    pixels = drawn(layout, Kind.SEGMENTATION, {"y": golden}, {"y": measured})
    assert tuple(pixels[16 + 500, 300]) == (128, 128, 128)
    assert tuple(pixels[16 + 50, 300]) != (128, 128, 128)
    # The class that fills the candidate's mask is not that which float sees most of.
    assert tuple(pixels[16 + 500, 906]) != (128, 128, 128)


@pytest.mark.parametrize(
    ("layout", "outputs"),
    [
        (PointsLayout("y", 2, 3, "yx", 2), {"y": np.array([[[0.3, 0.5, 1.0], [0.7, 0.7, 0.1]]])}),
        (PointsLayout("y", 2, 3, "yx", 2), {"y": np.array([[[30.0, 50.0, 1.0], [70.0, 70.0, 0.1]]])}),
        (HeatmapsLayout("y", 0, 2), {"y": np.zeros((1, 2, 5, 5))}),
        (BinsLayout("x", "y", 2), {"x": np.zeros((1, 2, 5)), "y": np.zeros((1, 2, 5))}),
    ],
)
def test_keypoints_are_where_they_are(layout: Layout, outputs: dict[str, AnyArray]) -> None:
    if isinstance(layout, HeatmapsLayout):
        outputs["y"][0, 0, 1, 2], outputs["y"][0, 1, 3, 3] = 1.0, 0.1
    if isinstance(layout, BinsLayout):
        for name, (first, second) in {"x": (2, 3), "y": (1, 3)}.items():
            outputs[name][0, 0, first], outputs[name][0, 1, second] = 1.0, 0.1
    pixels = drawn(layout, Kind.KEYPOINTS, outputs, outputs)
    assert tuple(pixels[16 + 180, 300]) == GREEN
    assert tuple(pixels[16 + 420, 420]) == (245, 130, 48)
    assert decided_text(view(layout, Kind.KEYPOINTS), outputs) == "1 of 2 keypoints"


@pytest.mark.parametrize(
    ("layout", "kind", "values", "text"),
    [
        (ROWS, Kind.DETECTION, [[[0, 0, 9, 9, 0.9, 1]]], "1 detection"),
        (ROWS, Kind.DETECTION, np.zeros((1, 0, 6)), "0 detections"),
        (ScoresLayout("y", 0, 3, Activation.SOFTMAX), Kind.CLASSIFICATION, [[0.1, 0.7, 0.2]], "class 1 0.70, "),
        (ScoresLayout("y", 0, 1, labels=True), Kind.CLASSIFICATION, [[7]], "class 7"),
        (MaskLayout("y", 0, 2), Kind.SEGMENTATION, [[[[0, 0, 0, 1]], [[1, 1, 1, 0]]]], "class 1 75.0%, class 0 25.0%"),
        (SequenceLayout("y", 0, 1, 3, blank=0), Kind.TEXT, [np.eye(3)[[1, 1, 0, 2]]], "symbols 1 2"),
        (VectorLayout("y", 2), Kind.EMBEDDING, [[1, 2]], "-"),
        (MaskLayout("y", None, 2), Kind.TEXT_REGIONS, np.pad(np.ones((1, 6, 9)), 4)[4:5], "1 text box"),
    ],
)
def test_what_is_decided_is_said(layout: Layout, kind: Kind, values: object, text: str) -> None:
    assert decided_text(view(layout, kind), {"y": np.array(values, np.float64)}).startswith(text)


def test_files_stay_small() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (900, 1200, 3), dtype=np.uint8))
    png = picture_png(noise)
    assert len(png) <= 400_000
    with Image.open(io.BytesIO(png)) as read:
        assert read.width / read.height == pytest.approx(4 / 3, rel=0.01)


def test_pictures_are_of_models_that_take_some() -> None:
    golden, measured = boxes((10.0, 10.0, 40.0, 40.0, 0.9, 1.0)), boxes()
    pixels = np.random.default_rng(0).uniform(0, 1, (1, 3, 100, 100)).astype(np.float32)
    sights = view(ROWS, Kind.DETECTION)
    pictured = DecidedSample(Sample("a.jpg", {"x": pixels}), golden, measured, 0.9)
    (picture,) = differing_pictures(sights, [pictured], None)
    assert picture.caption == "a.jpg: loss 0.9"
    for inputs in ({"x": np.zeros((1, 400), np.float32)}, {"x": pixels, "z": pixels[:, :, ::2]}):
        assert differing_pictures(sights, [DecidedSample(Sample("s", inputs), golden, measured, 0.9)], None) == ()
    assert differing_pictures(view(VectorLayout("y", 6), Kind.EMBEDDING), [pictured], None) == ()
    (row,) = differing_rows(sights, [pictured])
    assert (row.sample, row.loss, row.float_decides, row.candidate_decides) == (
        "a.jpg",
        0.9,
        "1 detection",
        "0 detections",
    )
