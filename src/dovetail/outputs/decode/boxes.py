"""Boxes in pixels of the input, from what a detector says of its places.

Sources of the formulas: YOLOX (Ge et al., 2021), FCOS (Tian et al., 2019), generalised focal loss (Li et al., 2020),
SSD (Liu et al., 2016), YOLOv3 (Redmon and Farhadi, 2018), FastestDet's, CenterNet's and MediaPipe's published
post-processing.
"""

from __future__ import annotations

import numpy as np

from dovetail.outputs.decode.planes import Arrays, Cells, Floats, cells_of, read_part
from dovetail.outputs.layouts import Coding, DenseLayout

PLAIN = (Coding.CORNERS, Coding.CORNERS_YX, Coding.CENTRE)
"""Codings that need no cell."""

LARGEST_POWER = 20.0
"""Bound of exponents: a box of e^20 strides is larger than any picture."""


def corners_of(layout: DenseLayout, outputs: Arrays) -> Floats | None:
    """Return boxes `[N, P, 4]` (x1, y1, x2, y2) in pixels of the input, or None where the coding is not known."""
    cells = cells_of(layout.levels)
    if layout.coding is Coding.CENTRE_SIZE and layout.sizes is not None:
        offsets = None if layout.offsets is None else np.asarray(read_part(layout.offsets, outputs), np.float64)
        return _centred(offsets, np.asarray(read_part(layout.sizes, outputs), np.float64), cells)
    if layout.boxes is None:
        return None
    values = np.asarray(read_part(layout.boxes, outputs), np.float64)
    if layout.coding in PLAIN:
        return plain_corners(values, layout.coding, layout.image if layout.unit else None)
    if layout.coding is Coding.DISTRIBUTION:
        return _distances(expected_bins(values), cells, layout.centre)
    if layout.coding is Coding.DISTANCES:
        return _distances(values, cells, layout.centre)
    return _coded(layout, values, cells)


def plain_corners(values: Floats, coding: Coding, image: tuple[int, int] | None) -> Floats:
    """Return corners in pixels of boxes that need no cell; `image` is given where they are shares of it."""
    ordered = values[..., [1, 0, 3, 2]] if coding is Coding.CORNERS_YX else values
    if image is not None:
        ordered = ordered * np.array([image[1], image[0]] * 2)
    return _around(ordered[..., :2], ordered[..., 2:4]) if coding is Coding.CENTRE else ordered


def _coded(layout: DenseLayout, values: Floats, cells: Cells) -> Floats | None:
    """Return boxes of codings that need the cell, the image or anchors; None where the anchors are not known."""
    strides = np.stack([cells.stride_x, cells.stride_y], axis=1)
    place = np.stack([cells.x, cells.y], axis=1)
    if layout.coding is Coding.GRID_EXP:
        return _around((values[..., :2] + place) * strides, _power(values[..., 2:4]) * strides)
    if layout.coding is Coding.GRID_SIGMOID:
        size = np.array([layout.image[1], layout.image[0]])
        return _around((np.tanh(values[..., :2]) + place) * strides, _sigmoid(values[..., 2:4]) * size)
    if layout.coding is Coding.PIXELS:
        return _around((place + layout.centre) * strides + values[..., :2], values[..., 2:4])
    if not layout.anchors:
        return None
    anchors = np.array([layout.anchors[level][anchor] for level, anchor in zip(cells.level, cells.anchor, strict=True)])
    if layout.coding is Coding.ANCHORS_V3:
        return _around((_unless(layout, values[..., :2]) + place) * strides, _power(values[..., 2:4]) * anchors)
    if layout.coding is Coding.ANCHORS_V5:
        share = _unless(layout, values[..., :4])
        return _around((share[..., :2] * 2 - 0.5 + place) * strides, (share[..., 2:] * 2) ** 2 * anchors)
    if layout.coding is Coding.PRIORS:
        centre = (place + layout.centre) * strides
        return _around(centre + values[..., :2] * 0.1 * anchors, _power(values[..., 2:4] * 0.2) * anchors)
    return None


def _unless(layout: DenseLayout, values: Floats) -> Floats:
    """Return the sigmoid of values, unless the model has applied it."""
    applied = layout.boxes is not None and layout.boxes.activation.value != "none"
    return values if applied else _sigmoid(values)


def expected_bins(values: Floats) -> Floats:
    """Return the expected bins `[..., 4]` of four distributions `[..., 4 * bins]` given as logits."""
    bins = values.shape[-1] // 4
    logits = values.reshape(*values.shape[:-1], 4, bins)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray((powers * np.arange(bins)).sum(axis=-1) / powers.sum(axis=-1), np.float64)


def _around(centre: Floats, size: Floats) -> Floats:
    return np.concatenate([centre - size / 2, centre + size / 2], axis=-1)


def _distances(values: Floats, cells: Cells, centre: float) -> Floats:
    strides = np.stack([cells.stride_x, cells.stride_y], axis=1)
    points = (np.stack([cells.x, cells.y], axis=1) + centre) * strides
    return np.concatenate([points - values[..., :2] * strides, points + values[..., 2:4] * strides], axis=-1)


def _centred(offsets: Floats | None, sizes: Floats, cells: Cells) -> Floats:
    strides = np.stack([cells.stride_x, cells.stride_y], axis=1)
    centre = (np.stack([cells.x, cells.y], axis=1) + (0.5 if offsets is None else offsets)) * strides
    if sizes.shape[-1] == 4:
        return np.concatenate([centre - sizes[..., :2] * strides, centre + sizes[..., 2:] * strides], axis=-1)
    return _around(centre + np.zeros_like(sizes), sizes * strides)


def _power(values: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(values, -LARGEST_POWER, LARGEST_POWER)), np.float64)


def _sigmoid(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-values)), np.float64)
