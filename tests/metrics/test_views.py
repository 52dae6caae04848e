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
    (found,) = metrics.detections({"output": yolox([(2, 3, 1), (5, 9, 2)])}, (64, 96))
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
    np.testing.assert_array_equal(metrics.masks(outputs, view)[0], np.eye(4))
    np.testing.assert_array_equal(metrics.masks(outputs, view.heads[0])[0], 1 - np.eye(4))


def test_text_and_text_boxes() -> None:
    scores = np.eye(4)[[1, 1, 0, 1, 3]][None]
    view = head(Kind.TEXT, SequenceLayout("y", 0, 1, 4, blank=0))
    assert metrics.text({"y": scores}, view) == [(1, 1, 3)]
    score = np.zeros((1, 40, 60))
    score[0, 10:20, 5:45] = 0.9
    view = head(Kind.TEXT_REGIONS, MaskLayout("y", None, 2, Activation.SIGMOID, threshold=0.3))
    (found,) = metrics.text_boxes({"y": score}, view)
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
        read(outputs, head(Kind.EMBEDDING, None))
    with pytest.raises(DataError, match=rf"{kind.value}: the head is known by its kind only"):
        read(outputs, head(kind, None))
