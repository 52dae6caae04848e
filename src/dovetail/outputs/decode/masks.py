"""Classes of pixels, and regions of text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.outputs.decode.detections import Detections
from dovetail.outputs.decode.planes import Arrays, Floats, activate
from dovetail.outputs.layouts import Activation, MaskLayout

_UNCLIP = 1.5
"""How far a region of text grows before it is a box: its area times this over its circumference (Liao et al., 2020)."""
_SMALLEST = 3
"""Sides of a region below this many pixels are noise, by the same source's published code."""


def class_map(layout: MaskLayout, values: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return the classes `[H, W]` of one sample's output; one score gives 0 and 1."""
    if layout.labels:
        return np.asarray(np.rint(values), np.int64).reshape(_sides(layout, values.shape))
    if layout.class_axis is None:
        score = activate(values.reshape(_sides(layout, values.shape)), layout.activation, Activation.SIGMOID)
        return np.asarray(score > layout.threshold, np.int64)
    scores = np.nan_to_num(np.asarray(values, np.float64), nan=-np.inf)
    return np.asarray(scores.argmax(axis=layout.class_axis), np.int64)


def class_shares(layout: MaskLayout, values: NDArray[np.generic]) -> Floats | None:
    """Return the probabilities `[classes, H, W]` of one sample, or None where the output holds ids."""
    if layout.labels:
        return None
    if layout.class_axis is None:
        score = activate(values.reshape(_sides(layout, values.shape)), layout.activation, Activation.SIGMOID)
        return np.stack([1.0 - score, score])
    scores = np.moveaxis(np.asarray(values, np.float64), layout.class_axis, -1)
    return np.moveaxis(activate(scores, layout.activation, Activation.SOFTMAX), -1, 0)


def _sides(layout: MaskLayout, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of a shape that has axes of size 1 beside them."""
    wide = [size for size in shape if size != 1]
    return (wide[0], wide[1]) if len(wide) == 2 else (shape[-2], shape[-1])


def text_regions(layout: MaskLayout, outputs: Arrays, threshold: float = 0.6) -> list[Detections]:
    """Return the boxes of connected text in every sample, in cells of the map; class 0, the mean score of a region.

    Boxes are upright: the smallest around a region, grown as the method's published code grows its polygons. Regions
    with a mean score below `threshold` are left out.
    """
    from scipy import ndimage

    found: list[Detections] = []
    for values in outputs[layout.output]:
        score = np.asarray(values, np.float64).reshape(_sides(layout, values.shape))
        marked, _ = ndimage.label(score > layout.threshold, structure=np.ones((3, 3)))
        boxes, scores = [], []
        for number, (rows, cols) in enumerate(ndimage.find_objects(marked), 1):
            height, width = rows.stop - rows.start, cols.stop - cols.start
            mean = float(score[rows, cols][marked[rows, cols] == number].mean())
            if min(height, width) < _SMALLEST or mean < threshold:
                continue
            grow = height * width * _UNCLIP / (2 * (height + width))
            boxes.append([cols.start - grow, rows.start - grow, cols.stop + grow, rows.stop + grow])
            scores.append(mean)
        limit = np.array([score.shape[1], score.shape[0]] * 2, np.float64)
        corners = np.clip(np.array(boxes, np.float64).reshape(-1, 4), 0.0, limit)
        found.append(Detections(corners, np.array(scores, np.float64), np.zeros(len(scores), np.int64)))
    return found
