"""What the public decoders take: a view, a head, or no more than the size of the picture."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import metrics
from dovetail.errors import DataError
from dovetail.outputs import Kind, OutputRole, OutputsView
from dovetail.outputs.layouts import Activation, Layout, MaskLayout, SequenceLayout
from dovetail.outputs.view import HeadView


def head(kind: Kind, layout: Layout | None, confidence: float = 1.0, name: str = "y") -> HeadView:
    return HeadView(kind, "", {name: OutputRole.UNKNOWN}, layout, confidence)


def yolox(objects: list[tuple[int, int, int]]) -> np.ndarray:
    """Return raw YOLOX rows `[1, P, 5 + 3]` of a picture of 64 x 96 with objects at (row, column, class) of stride 8.

    Source: Ge et al., "YOLOX", 2021: the centre is (offset + cell) * stride, the size e^value * stride.
    """
    rows = np.full((1, 8 * 12 + 4 * 6 + 2 * 3, 8), 1e-3, np.float32)
    rows[..., :4] = np.random.default_rng(0).normal(size=rows[..., :4].shape) * 0.3
    for row, col, label in objects:
        rows[0, 12 * row + col] = [0.5, 0.25, np.log(2), np.log(4), 0.9, 0.01, 0.01, 0.01]
        rows[0, 12 * row + col, 5 + label] = 0.9
    return rows


def test_the_size_of_the_picture_is_enough_for_a_usual_design() -> None:
    (found,) = metrics.detections({"output": yolox([(2, 3, 1), (5, 9, 2)])}, size=(64, 96))
    assert sorted(found.classes.tolist()) == [1, 2]
    np.testing.assert_allclose(found.scores, 0.81, rtol=1e-6)
    first = found.boxes[found.classes == 1][0]
    np.testing.assert_allclose(first, [3.5 * 8 - 8, 2.25 * 8 - 16, 3.5 * 8 + 8, 2.25 * 8 + 16], rtol=1e-5)


def test_the_surest_head_of_the_kind_is_read() -> None:
    masks = np.stack([np.eye(4), 1 - np.eye(4)])[None]
    outputs = {"y": masks, "z": -masks}
    layouts = {name: MaskLayout(name, 0, 2) for name in outputs}
    view = OutputsView(
        (
            head(Kind.SEGMENTATION, layouts["y"], 0.6),
            head(Kind.SEGMENTATION, layouts["z"], 0.9, "z"),
        )
    )
    np.testing.assert_array_equal(metrics.masks(outputs, view=view)[0], np.eye(4))
    np.testing.assert_array_equal(metrics.masks(outputs, view=view.heads[0])[0], 1 - np.eye(4))


def test_text_and_text_boxes() -> None:
    scores = np.eye(4)[[1, 1, 0, 1, 3]][None]
    view = head(Kind.TEXT, SequenceLayout("y", 0, 1, 4, blank=0))
    assert metrics.text({"y": scores}, view=view) == [(1, 1, 3)]
    score = np.zeros((1, 40, 60))
    score[0, 10:20, 5:45] = 0.9
    view = head(Kind.TEXT_REGIONS, MaskLayout("y", None, 2, Activation.SIGMOID, threshold=0.3))
    (found,) = metrics.text_boxes({"y": score}, view=view)
    # 400 pixels by a circumference of 100 grow by 1.5 * 4 (Liao et al., 2020); what leaves the map is cut off.
    np.testing.assert_allclose(found.boxes, [[0, 4, 51, 26]])


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (metrics.detections, Kind.DETECTION),
        (metrics.text_boxes, Kind.TEXT_REGIONS),
        (metrics.masks, Kind.SEGMENTATION),
        (metrics.keypoints, Kind.KEYPOINTS),
        (metrics.text, Kind.TEXT),
    ],
)
def test_another_kind_and_a_head_that_is_not_known_are_errors(read, kind) -> None:
    outputs = {"y": np.zeros((1, 4))}
    with pytest.raises(DataError, match=rf"{kind.value}: the outputs y look like embedding"):
        read(outputs, view=head(Kind.EMBEDDING, None))
    with pytest.raises(DataError, match=rf"{kind.value}: the head is known by its kind only"):
        read(outputs, view=head(kind, None))


def yolov8(objects: list[tuple[float, float, float, float, int]], side: int = 320, classes: int = 4) -> np.ndarray:
    """Return `[1, 4 + classes, P]` as Ultralytics exports it: centre, width and height in pixels, scores in 0..1.

    Every object is seen by the cell of stride 8 that its centre lies in, and by the next one a little less surely.
    """
    rng = np.random.default_rng(1)
    places = []
    for stride in (8, 16, 32):
        y, x = np.divmod(np.arange((side // stride) ** 2), side // stride)
        sizes = rng.uniform(1, 4, (len(x), 2)) * stride
        places.append(np.concatenate([(x[:, None] + 0.5) * stride, (y[:, None] + 0.5) * stride, sizes], axis=1))
    boxes = np.concatenate(places)
    scores = rng.uniform(0, 0.02, (len(boxes), classes))
    for middle_x, middle_y, width, height, label in objects:
        cell = int(middle_y // 8) * (side // 8) + int(middle_x // 8)
        for step, score in ((0, 0.9), (1, 0.7)):
            boxes[cell + step] = [middle_x, middle_y, width, height]
            scores[cell + step, label] = score
    return np.concatenate([boxes, scores], axis=1).T[None].astype(np.float32)


def test_yolov8_is_read_without_a_word() -> None:
    planted = [(100.0, 60.0, 40.0, 20.0, 3), (230.0, 200.0, 60.0, 90.0, 0)]
    outputs = np.concatenate([yolov8(planted), yolov8(planted[:1])])
    first, second = metrics.detections([outputs])
    for (boxes, scores, classes), wanted in ((first, planted), (second, planted[:1])):
        assert sorted(classes.tolist()) == sorted(label for *_, label in wanted)
        np.testing.assert_allclose(scores, 0.9, rtol=1e-6)
        for x, y, width, height, label in wanted:
            corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
            np.testing.assert_allclose(boxes[classes == label][0], corners, rtol=1e-5)


def anchored(counts: tuple[int, int] = (3, 3)) -> list[np.ndarray]:
    """Return raw maps `[1, A * (5 + 2), H, W]` of strides 16 and 32 over 320 x 320, one object on each."""
    maps = []
    for side, count in zip((20, 10), counts, strict=True):
        rows = np.random.default_rng(side).normal(size=(1, count, 7, side, side)).astype(np.float32) * 0.1
        rows[:, :, 4:] = -9
        rows[0, 1, 4:6, 4, 6] = 9
        maps.append(rows.reshape(1, count * 7, side, side))
    return maps


def test_boxes_of_anchors_need_the_anchors() -> None:
    with pytest.raises(DataError, match=r"boxes refer to 3\+3 anchors that the outputs do not hold\. .*anchors="):
        metrics.detections(anchored())
    with pytest.raises(DataError, match=r"1\+1 anchors are given, the outputs have 3\+3"):
        metrics.detections(anchored(), anchors=(((1, 2),), ((3, 4),)))
    sizes = (((8, 8), (40, 20), (9, 9)), ((60, 60), (90, 120), (70, 70)))
    (found,) = metrics.detections(anchored(), anchors=sizes)
    spans = found.boxes[:, 2:] - found.boxes[:, :2]
    np.testing.assert_allclose(sorted(spans.tolist()), [[40, 20], [90, 120]], rtol=0.5)


def test_what_outputs_do_not_tell_is_asked_for() -> None:
    grid = yolox([(2, 3, 1)])
    with pytest.raises(DataError, match=r"the outputs 0 do not look like that\. Say the rows and columns"):
        metrics.detections([grid])
    with pytest.raises(DataError, match="there is no output"):
        metrics.detections([])
    offsets = np.random.default_rng(0).normal(size=(2, 4420, 4))
    scores = np.full((2, 4420, 2), 0.5)
    with pytest.raises(DataError, match=r"do not look like that\. Give what dovetail\.outputs\.recognise says"):
        metrics.detections({"boxes": offsets, "scores": scores}, size=(240, 320))
