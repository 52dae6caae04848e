"""Detectors of objects, faces and text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.task import Arrays, Reference
from dovetail.data import Anchor, Channels, Interpolation, Preprocess, PreprocessStep, StepKind
from dovetail.ir import Graph
from zoo.case import Case, Dataset, Figure, everything, halves, pad_boxes, read_images
from zoo.detection import Ap50, DetectionF1, ScoredCorners, YoloRows

_MAX_BOXES = 100


def _yolox(graph: Graph, root: Path) -> Dataset:
    side = 416
    step = PreprocessStep(StepKind.LETTERBOX, side, side, pad=114, anchor=Anchor.TOP_LEFT)
    bgr = Preprocess((step,), Channels.BGR, interpolation=Interpolation.OPENCV_BILINEAR)
    coco, ccby = root / "data_coco20", root / "data_detect_ccby"
    labelled = read_images(graph, coco, bgr, coco / "gt.json")
    known = {sample.id for sample in labelled}
    unlabelled = [sample for sample in read_images(graph, coco, bgr) if sample.id not in known]
    samples = pad_boxes([*labelled, *read_images(graph, ccby, bgr, ccby / "gt.json")], _MAX_BOXES)
    output = graph.outputs[0]
    precise = Ap50(YoloRows(output, min_score=0.01, iou=0.65))
    count = len(labelled)
    return Dataset(
        unlabelled,
        samples,
        DetectionF1(YoloRows(output, min_score=0.3, iou=0.45), Reference.LABELS),
        (
            Figure("AP50 on coco20", precise, tuple(range(count)), 0.7562),
            Figure("AP50 on detect_ccby", precise, tuple(range(count, len(samples))), 1.0),
        ),
    )


def _faces(graph: Graph, root: Path) -> Dataset:
    image = Preprocess((PreprocessStep(StepKind.RESIZE, 240, 320),), Channels.RGB, mean=(127.0,), scale=(1 / 128,))
    photos = read_images(graph, root / "ultraface_rfb320" / "imgs", image)
    calibration, rest = halves(photos)
    samples = [
        *rest,
        *read_images(graph, root / "data_detect_ccby", image),
        *read_images(graph, root / "data_coco20", image),
    ]
    metric = DetectionF1(ScoredCorners("boxes", "scores", min_score=0.7, iou=0.3))
    return Dataset(calibration, samples, metric, (Figure(metric.name, metric, everything(samples)),))


@dataclass(frozen=True, slots=True)
class MaskIou:
    """IoU of what is above a threshold with the same of the float model; 1 where both are empty."""

    threshold: float
    name: str = "mask IoU against float"
    higher_is_better: bool = True
    reference: Reference = Reference.GOLDEN

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        """Return `[N]`."""
        (measured,), (golden,) = outputs.values(), labels.values()
        a = measured.reshape(len(measured), -1) > self.threshold
        b = golden.reshape(len(golden), -1) > self.threshold
        both, either = (a & b).sum(axis=1), (a | b).sum(axis=1)
        return np.asarray(np.where(either > 0, both / np.maximum(either, 1), 1.0), np.float64)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return the mean over the samples."""
        return float(self.per_sample(outputs, labels).mean())


def _text(graph: Graph, root: Path) -> Dataset:
    deviation = np.array([0.225, 0.224, 0.229])
    image = Preprocess(
        (PreprocessStep(StepKind.RESIZE, 480, 480),),
        Channels.BGR,
        mean=(0.406 * 255, 0.456 * 255, 0.485 * 255),
        scale=tuple((1 / (255 * deviation)).tolist()),
    )
    calibration, samples = halves(read_images(graph, root / "data_ocr", image))
    metric = MaskIou(0.3)
    return Dataset(calibration, samples, metric, (Figure(metric.name, metric, everything(samples)),))


CASES = (
    Case(
        "yolox_nano_decoded",
        "object detector",
        "yolox_nano/yolox_nano_decoded.onnx",
        _yolox,
        note="searched on F1 against the labels, image by image: AP50 of so few objects jumps by whole classes",
    ),
    Case("ultraface_rfb320", "face detector", "ultraface_rfb320/version-RFB-320.onnx", _faces),
    Case("ppocrv3_det", "text detector", "ppocrv3_det/model.onnx", _text, shapes={"x": (1, 3, 480, 480)}),
)
