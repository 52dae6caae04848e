"""AP50 of the collection's object detectors in float, from the decoding that belongs to each.

DOVETAIL_MODELS=... python benchmarks/importers_detectors.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.detection import Detections
from dovetail.compare.task import Arrays
from dovetail.data import Anchor, Channels, Preprocess, Sample, Step, StepKind
from dovetail.importers import load_model
from dovetail.passes import normalize
from dovetail.quantize import load_float
from zoo.case import pad_boxes, read_images
from zoo.catalogue import models_root
from zoo.detection import Ap50, Decode, YoloRows, suppress

_SIDE = 320
_CLASSES = 80
_ANCHORS = ((12, 18), (37, 49), (52, 132), (115, 73), (119, 199), (242, 238))
_MASKS = ((3, 4, 5), (0, 1, 2))
_LEAST, _OVERLAP = 0.25, 0.45
"""Darknet's own thresholds; the manifest does not say which ones it used."""
_MOST_BOXES = 100


@dataclass(frozen=True, slots=True)
class DetectorScore:
    """One line: a model on some images."""

    file: str
    data: str
    images: int
    score: float
    stated: float


@dataclass(frozen=True, slots=True)
class DarknetHeads:
    """Decode yolo layers `[N, A * (5 + classes), H, W]` whose centres, objectness and classes are logistic already."""

    outputs: tuple[str, ...]

    def __call__(self, outputs: Arrays, index: int) -> Detections:
        """Return what the outputs say of one sample, in pixels of the network's input."""
        parts = [
            _head(np.asarray(outputs[name][index], np.float64), mask)
            for name, mask in zip(self.outputs, _MASKS, strict=True)
        ]
        boxes, scores, classes = (np.concatenate([part[item] for part in parts]) for item in range(3))
        return suppress(Detections(boxes, scores, classes.astype(np.int64)), _OVERLAP)


def _head(grid: NDArray[np.float64], mask: tuple[int, ...]) -> tuple[NDArray[np.float64], ...]:
    _, height, width = grid.shape
    cells = grid.reshape(len(mask), 5 + _CLASSES, height, width)
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    sizes = np.array([_ANCHORS[item] for item in mask], np.float64)[:, :, None, None]
    centre = np.stack([(cells[:, 0] + columns) / width, (cells[:, 1] + rows) / height], axis=1) * _SIDE
    half = np.exp(cells[:, 2:4]) * sizes / 2
    scores = cells[:, 4:5] * cells[:, 5:]
    anchor, kind, y, x = np.nonzero(scores >= _LEAST)
    low, high = (centre - half)[anchor, :, y, x], (centre + half)[anchor, :, y, x]
    return np.concatenate([low, high], axis=1), scores[anchor, kind, y, x], kind.astype(np.float64)


def detector_scores(root: Path) -> Iterator[DetectorScore]:
    """Yield every detector on its data."""
    letterbox = Step(StepKind.LETTERBOX, 416, 416, pad=114, anchor=Anchor.TOP_LEFT)
    boxed = Preprocess((letterbox,), Channels.BGR)
    stretched = Preprocess((Step(StepKind.RESIZE, _SIDE, _SIDE),), Channels.RGB, scale=(1 / 255,))
    decoded = YoloRows("output", min_score=0.01, iou=0.65)
    name = "yolox_nano/yolox_nano_decoded.onnx"
    yield from _scores(root, name, (boxed, decoded), {"data_coco20": 0.7562, "data_detect_ccby": 1.0})
    graph = load_model(root / "yolo_fastest_darknet/yolo-fastest-1.1.cfg")
    heads = DarknetHeads(tuple(graph.outputs))
    stated = {"data_coco20": 0.4793, "data_detect_ccby": 0.8}
    yield from _scores(root, "yolo_fastest_darknet/yolo-fastest-1.1.cfg", (stretched, heads), stated)


def _scores(root: Path, file: str, how: tuple[Preprocess, Decode], stated: dict[str, float]) -> Iterator[DetectorScore]:
    image, decode = how
    graph = normalize(load_model(root / file))
    if isinstance(decode, YoloRows):
        decode = YoloRows(graph.outputs[0], decode.min_score, decode.iou)
    runner = load_float(graph, 1)
    for data, figure in stated.items():
        folder = root / data
        samples = pad_boxes(read_images(graph, folder, image, folder / "gt.json"), _MOST_BOXES)
        outputs = [runner.run(sample.inputs) for sample in samples]
        arrays = {name: np.concatenate([item[name] for item in outputs]) for name in graph.outputs}
        score = Ap50(decode).score(arrays, {"boxes": _boxes(samples)})
        yield DetectorScore(file, data, len(samples), score, figure)


def _boxes(samples: list[Sample]) -> NDArray[np.float64]:
    return np.stack([np.asarray(sample.labels["boxes"], np.float64) for sample in samples])


if __name__ == "__main__":
    for found in detector_scores(models_root()):
        print(found)
