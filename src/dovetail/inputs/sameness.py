"""How much alike two readings of a picture are: what a model sees stays where the picture is mirrored or moved."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np

from dovetail.compare.decisions.boxes import expected_f1
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.decode.detections import Detections
from dovetail.outputs.decode.found import find_detections
from dovetail.outputs.decode.masks import class_map
from dovetail.outputs.decode.planes import activate
from dovetail.outputs.ends import ImageInput
from dovetail.outputs.layouts import Activation, DenseLayout, MaskLayout, RowsLayout, ScoresLayout
from dovetail.outputs.view import HeadView

Outputs = Mapping[str, AnyArray]
"""Outputs of one sample, `[1, ...]` each."""

_SHIFT = 16
"""A picture is moved by a 16th of its width: two cells of most detectors' finest grids, or one."""


class Warp(Enum):
    """A change of a picture that leaves what is in it as it is."""

    NONE = "none"
    MIRRORED = "mirrored"
    MOVED = "moved to the right"
    MOVED_BACK = "moved to the left"


def warped(array: AnyArray, warp: Warp, image: ImageInput) -> AnyArray:
    """Return an input tensor `[1, C, H, W]` or `[1, H, W, C]` changed; what moves in repeats the edge."""
    axis = 2 if image.channels_last else 3
    if warp is Warp.MIRRORED:
        return np.ascontiguousarray(np.flip(array, axis))
    if warp is not Warp.NONE:
        source = np.clip(np.arange(image.cols) - step_of(warp, image), 0, image.cols - 1)
        return np.ascontiguousarray(np.take(array, source, axis=axis))
    return array


def step_of(warp: Warp, image: ImageInput) -> int:
    """Return by how many pixels a picture is moved to the right."""
    step = max(1, image.cols // _SHIFT)
    return {Warp.MOVED: step, Warp.MOVED_BACK: -step}.get(warp, 0)


Decided = Detections | AnyArray
"""What is decided in a picture: detections, a share of each class, or a map of classes."""


def decided(head: HeadView, outputs: Outputs) -> Decided | None:
    """Return what a run decides; None where a head has no decision that can be followed through a change."""
    layout = head.layout
    if isinstance(layout, DenseLayout | RowsLayout):
        return find_detections(layout, outputs)[0]
    if isinstance(layout, ScoresLayout) and not layout.labels:
        return _shares(layout, outputs)
    return class_map(layout, outputs[layout.output][0]) if isinstance(layout, MaskLayout) else None


def sameness(head: HeadView, first: Decided, second: Decided, warp: Warp, image: ImageInput) -> float:
    """Return in 0..1 how much alike two decisions are, the second of a changed picture."""
    layout = head.layout
    if isinstance(first, Detections) and isinstance(second, Detections):
        assert isinstance(layout, DenseLayout | RowsLayout)
        own = expected_f1(first, first, layout.threshold)
        found = expected_f1(first, _back(second, warp, image), layout.threshold)
        # Pictures in which nothing is seen say nothing.
        return found if len(first.scores) and own > 0 else 0.0
    golden, measured = np.asarray(first), np.asarray(second)
    if isinstance(layout, MaskLayout):
        return _mask(golden, measured, warp, image)
    return float(np.clip((golden * measured).sum(), 0.0, 1.0))


def _back(found: Detections, warp: Warp, image: ImageInput) -> Detections:
    """Return detections of a changed picture where they are in the picture as it was."""
    boxes = found.boxes
    if warp is Warp.MIRRORED:
        boxes = np.stack([image.cols - boxes[:, 2], boxes[:, 1], image.cols - boxes[:, 0], boxes[:, 3]], axis=1)
    step = step_of(warp, image)
    return Detections(boxes - np.array([step, 0, step, 0]), found.scores, found.classes)


def _shares(layout: ScoresLayout, outputs: Outputs) -> AnyArray:
    values = np.asarray(outputs[layout.output], np.float64).reshape(1, -1)
    if values.shape[1] == 1:
        yes = activate(values, layout.activation, Activation.SIGMOID)
        return np.concatenate([1 - yes, yes], axis=1)
    if layout.independent:
        # As a distribution over the classes: which of them, not how many.
        yes = activate(values, layout.activation, Activation.SIGMOID)
        return np.asarray(yes / max(float(yes.sum()), 1e-9))
    return activate(values, layout.activation, Activation.SOFTMAX)


def _mask(golden: AnyArray, measured: AnyArray, warp: Warp, image: ImageInput) -> float:
    """Return the mean IoU over the classes but the most common one."""
    if warp is Warp.MIRRORED:
        measured = measured[:, ::-1]
    step = round(step_of(warp, image) * golden.shape[1] / image.cols)
    if step > 0:
        golden, measured = golden[:, :-step], measured[:, step:]
    if step < 0:
        golden, measured = golden[:, -step:], measured[:, :step]
    low = min(int(golden.min()), int(measured.min()))
    classes = max(int(golden.max()), int(measured.max())) - low + 1
    pairs = (golden.reshape(-1) - low) * classes + measured.reshape(-1) - low
    both = np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    own, other, common = both.sum(axis=1), both.sum(axis=0), np.diagonal(both)
    union = own + other - common
    counted = (union > 0) & (np.arange(classes) != own.argmax())
    return float((common[counted] / union[counted]).mean()) if counted.any() else 0.0
