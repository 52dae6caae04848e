"""The public decoders against the post-processing that the models' makers publish, on real pictures.

What they are compared with shares no code with them: `zoo.detection` for detectors, a few lines here for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dovetail import metrics
from dovetail.compare.decisions import SeenOutputs, see_outputs
from dovetail.data import open_samples, specs_of
from dovetail.ir import AnyArray
from dovetail.outputs.decode.found import rescaled
from zoo import detection
from zoo.pictures import CASES

READING = metrics.Reading(threshold=0.3, iou=0.45)


@dataclass(frozen=True, slots=True)
class Published:
    """What makers publish: corners in pixels of the input and scores of every class, of each row of the outputs."""

    file: str
    rows: detection.Decode
    anchors: metrics.Anchors | None = None
    """Of models whose boxes refer to some, the finest grid first."""
    shares: tuple[int, int] | None = None
    """Width and height of the input of a model that gives boxes as shares of it."""


def ultraface_rows(outputs: Mapping[str, AnyArray]) -> detection.Rows:
    """Return corners in shares of the picture as pixels, and the score of a face: the second of two."""
    boxes, scores = (np.asarray(outputs[name][0], np.float64) for name in ("boxes", "scores"))
    return boxes * np.array([320, 240, 320, 240]), scores[:, 1:]


PUBLISHED = (
    Published("yolox_nano/yolox_nano.onnx", detection.BestRows(detection.raw_yolox_rows, 0.3)),
    Published("yolox_nano/yolox_nano_decoded.onnx", detection.BestRows(detection.yolox_rows, 0.3)),
    Published(
        "yolo_fastest_darknet/yolo-fastest-1.1.weights",
        detection.BestRows(detection.darknet_rows, 0.3),
        anchors=(((12, 18), (37, 49), (52, 132)), ((115, 73), (119, 199), (242, 238))),
    ),
    Published("ultraface_rfb320/version-RFB-320.onnx", detection.BestRows(ultraface_rows, 0.3), shares=(320, 240)),
)


def seen_of(file: str, models: Path) -> SeenOutputs:
    """Return what is recognised in a collected model's outputs on eight of its pictures, and the outputs."""
    case = next(item for item in CASES if item.file == file)
    graph = case.graph(models)
    samples = open_samples(models / case.folder, specs_of(graph), case.preprocess, None)
    return see_outputs(graph, (sample.inputs for sample in samples.subset(range(8))), threads=1)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda item: Path(item.file).stem)
def test_detections_are_those_of_the_published_post_processing(published: Published, models: Path) -> None:
    seen = seen_of(published.file, models)
    compare(metrics.detections(seen.golden, view=seen.view, reading=READING), published, seen)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda item: Path(item.file).stem)
def test_outputs_alone_are_enough(published: Published, models: Path) -> None:
    """By name and in a list: no view, and no size of the picture."""
    seen = seen_of(published.file, models)
    for outputs in (seen.golden, list(seen.golden.values())):
        found = metrics.detections(outputs, anchors=published.anchors, reading=READING)
        if published.shares is not None:
            found = rescaled(found, published.shares)
        compare(found, published, seen)


def compare(found: list[metrics.Detections], published: Published, seen: SeenOutputs) -> None:
    """Compare detections with what the makers' post-processing gives."""
    total = 0
    for index, ours in enumerate(found):
        theirs = published.rows(seen.golden, index)
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5)
        np.testing.assert_array_equal(ours.classes, theirs.classes)
        np.testing.assert_allclose(ours.boxes, theirs.boxes, rtol=1e-4, atol=1e-2)
        total += len(theirs.scores)
    assert total >= 8


def test_keypoints_are_where_the_maker_says(models: Path) -> None:
    """MoveNet's model card: 17 rows of y, x and score, in shares of the picture."""
    seen = seen_of("movenet_lightning_int8/movenet_single_pose_lightning_ptq.tflite", models)
    places, scores = metrics.keypoints(seen.golden, view=seen.view)
    (values,) = seen.golden.values()
    table = np.asarray(values, np.float64).reshape(8, 17, 3)
    np.testing.assert_array_equal(places, table[..., [1, 0]])
    np.testing.assert_array_equal(scores, table[..., 2])
