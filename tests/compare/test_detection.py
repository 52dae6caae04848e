"""Average precision against a case worked by hand and against a brute-force definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.compare.detection import Objects, average_precision, mask_iou
from dovetail.compare.registry import TASK_METRICS
from dovetail.errors import DataError
from dovetail.outputs.decode.detections import Detections, box_iou

A, B, C = [0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0], [50.0, 50.0, 60.0, 60.0]


def found(*rows):
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))


def real(*rows):
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return Objects(table[:, 1:], table[:, 0].astype(np.int64))


def test_by_hand():
    """3 objects; hits by falling score: T F T F (second on A), one object never found.

    Precision 1, 1/2, 2/3, 1/2; envelope at the hits 1 and 2/3; AP = (1 + 2/3) / 3 = 5/9.
    """
    detections = [found([*A, 0.9, 0], [*C, 0.8, 0], [*A, 0.6, 0]), found([*B, 0.7, 0])]
    objects = [real([0, *A], [0, *B]), real([0, *B])]
    assert average_precision(detections, objects, 0.5, 0) == pytest.approx(5 / 9)
    # COCO's 101 recalls: 34 up to 1/3 at precision 1, 33 up to 2/3 at 2/3, the others at 0.
    assert average_precision(detections, objects, 0.5, 0, recalls=101) == pytest.approx((34 + 33 * 2 / 3) / 101)


def test_iou_by_hand():
    boxes = np.array([A, [5.0, 0.0, 15.0, 10.0], [0.0, 0.0, 0.0, 0.0], C])
    np.testing.assert_allclose(box_iou(boxes, np.array([A]))[:, 0], [1, 1 / 3, 0, 0])


def slow_average_precision(detections, objects, iou, label):
    """Follow the definition with plain loops: for each recall, the best precision there or beyond."""
    ranked = sorted(
        ((-d.scores[k], i, k) for i, d in enumerate(detections) for k in range(len(d.scores)) if d.classes[k] == label)
    )
    taken, outcome = set(), []
    total = sum(int(c == label) for o in objects for c in o.classes)
    for _, i, k in ranked:
        best, best_iou = None, iou
        for m in range(len(objects[i].classes)):
            if objects[i].classes[m] != label or (i, m) in taken:
                continue
            (ax, ay, bx, by), (cx, cy, dx, dy) = detections[i].boxes[k], objects[i].boxes[m]
            common = max(0, min(bx, dx) - max(ax, cx)) * max(0, min(by, dy) - max(ay, cy))
            union = (bx - ax) * (by - ay) + (dx - cx) * (dy - cy) - common
            overlap = common / union if union > 0 else 0
            if overlap > best_iou or (best is None and overlap >= best_iou):
                best, best_iou = m, overlap
        outcome.append(best is not None)
        if best is not None:
            taken.add((i, best))
    area = 0.0
    for step in range(1, total + 1):
        area += max(
            (sum(outcome[: n + 1]) / (n + 1) for n in range(len(outcome)) if sum(outcome[: n + 1]) >= step),
            default=0,
        )
    return area / total


boxes = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 5), st.integers(1, 5)).map(
    lambda t: [t[0], t[1], t[0] + t[2], t[1] + t[3]]
)
images = st.lists(
    st.tuples(
        st.lists(st.tuples(boxes, st.integers(1, 1000), st.integers(0, 1)), max_size=6),
        st.lists(st.tuples(st.integers(0, 1), boxes), max_size=4),
    ),
    min_size=1,
    max_size=4,
)


@given(images, st.sampled_from([0.3, 0.5, 0.75]))
@settings(max_examples=150, deadline=None)
def test_against_brute_force(case, iou):
    # Distinct scores: the order of ties is a convention.
    serial = iter(range(1000))
    detections = [found(*([*b, s + next(serial) / 1e4, c] for b, s, c in d)) for d, _ in case]
    objects = [real(*([c, *b] for c, b in o)) for _, o in case]
    if not any((o.classes == 0).any() for o in objects):
        with pytest.raises(DataError, match="no object of class 0"):
            average_precision(detections, objects, iou, 0)
        return
    ours = average_precision(detections, objects, iou, 0)
    assert ours == pytest.approx(slow_average_precision(detections, objects, iou, 0))


def test_registered_metrics_read_padded_arrays():
    outputs = {"det": np.array([[[*A, 0.9, 0], [*B, 0.8, 1], [0] * 6], [[*B, 0.7, 0], [np.nan] * 6, [0] * 6]])}
    labels = {"boxes": np.array([[[0, *A], [1, *B]], [[0, *B], [-1] * 5]])}
    assert TASK_METRICS["ap50"].score(outputs, labels) == 1
    assert TASK_METRICS["map"].score(outputs, labels) == 1
    assert TASK_METRICS["ap50"].per_sample(outputs, labels) is None
    shifted = {"det": outputs["det"] + np.array([3, 0, 3, 0, 0, 0])}  # IoU 7 / 13 = 0.538: one threshold of ten
    assert TASK_METRICS["ap50"].score(shifted, labels) == 1
    assert TASK_METRICS["map"].score(shifted, labels) == pytest.approx(0.1)


def test_masks():
    golden = np.array([[0, 0, 1, 255]])
    assert mask_iou(golden, np.array([[0, 1, 1, 0]]), 2) == pytest.approx(0.5)
    scores = np.zeros((1, 2, 1, 4))
    scores[0, 1, 0, 1:3] = 1
    result = TASK_METRICS["miou"].per_sample({"y": scores}, {"mask": golden[None]})
    assert result == pytest.approx([0.5])


def test_box_iou_metric():
    outputs = {"y": np.array([A, [5.0, 0, 15, 10], [np.nan] * 4])}
    assert TASK_METRICS["box_iou"].per_sample(outputs, {"box": np.array([A, A, A])}) == pytest.approx([1, 1 / 3, 0])
