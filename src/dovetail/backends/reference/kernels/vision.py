"""Sampling and boxes: GridSample and NonMaxSuppression."""

from __future__ import annotations

from itertools import product as combinations

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels
from dovetail.backends.reference.kernels.resize import cubic
from dovetail.ir import AnyArray


def _unnormalise(grid: AnyArray, size: int, align: bool) -> AnyArray:
    return np.asarray((grid + 1) / 2 * (size - 1) if align else ((grid + 1) * size - 1) / 2)


def _reflect(at: AnyArray, size: int, align: bool) -> AnyArray:
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return np.zeros_like(at)
    folded = np.mod(at - low, 2 * span)
    return np.asarray(low + np.where(folded > span, 2 * span - folded, folded))


def _sample(x: AnyArray, index: tuple[AnyArray, ...], padding: str, align: bool) -> AnyArray:
    """Read `[C, *spatial]` at integer coordinates that may lie outside."""
    inside = np.ones(index[0].shape, np.bool_)
    safe: list[AnyArray] = []
    for at, size in zip(index, x.shape[1:], strict=True):
        if padding == "reflection":
            at = _reflect(at, size, align)
        elif padding == "zeros":
            inside = inside & (at >= 0) & (at < size)
        safe.append(np.clip(at, 0, size - 1).astype(np.int64))
    place: tuple[slice | AnyArray, ...] = (slice(None), *safe)
    return np.asarray(x[place] * inside)


def _cubic_weights(fraction: AnyArray) -> tuple[AnyArray, ...]:
    return tuple(cubic(distance, -0.75) for distance in (fraction + 1, fraction, 1 - fraction, 2 - fraction))


def _grid_sample(call: Call) -> tuple[AnyArray, ...]:
    """Sample `[N, C, *spatial]` at `[N, *output, rank]` normalised positions, last axis first."""
    x, grid = call.input(0), call.input(1)
    mode, padding = call.node.text("mode", "linear"), call.node.text("padding_mode", "zeros")
    align = bool(call.node.integer("align_corners", 0))
    spatial = x.shape[2:]
    planes: list[AnyArray] = []
    for sample, where in zip(x, grid, strict=True):
        at = [_unnormalise(where[..., -1 - axis], size, align) for axis, size in enumerate(spatial)]
        if mode == "nearest":
            index = tuple(np.rint(_border(one, size, padding, align)) for one, size in zip(at, spatial, strict=True))
            planes.append(_sample(sample, index, padding, align))
            continue
        if mode == "linear":
            at = [_border(one, size, padding, align) for one, size in zip(at, spatial, strict=True)]
        base = [np.floor(one) for one in at]
        parts = [one - low for one, low in zip(at, base, strict=True)]
        weights = [_cubic_weights(part) if mode == "cubic" else (1 - part, part) for part in parts]
        first = -1 if mode == "cubic" else 0
        total: AnyArray = np.zeros((x.shape[1], *where.shape[:-1]))
        for taps in combinations(range(len(weights[0])), repeat=len(spatial)):
            index = tuple(low + tap + first for low, tap in zip(base, taps, strict=True))
            weight = np.prod([weights[axis][tap] for axis, tap in enumerate(taps)], axis=0)
            total = np.asarray(total + weight * _sample(sample, index, padding, align))
        planes.append(total)
    return (np.stack(planes),)


def _border(at: AnyArray, size: int, padding: str, align: bool) -> AnyArray:
    """Move a real coordinate inside as the padding mode asks; with zeros it stays."""
    if padding == "border":
        return np.asarray(np.clip(at, 0, size - 1))
    return np.asarray(np.clip(_reflect(at, size, align), 0, size - 1)) if padding == "reflection" else at


def _corners(boxes: AnyArray, centred: bool) -> AnyArray:
    """Return `[n, 4]` as y1, x1, y2, x2 with the smaller corner first."""
    if centred:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], axis=1)


def _overlap(box: AnyArray, others: AnyArray) -> AnyArray:
    """Return intersection over union."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def _non_max_suppression(call: Call) -> tuple[AnyArray, ...]:
    boxes, scores = call.input(0), call.input(1)
    most, threshold = int(call.scalar(2, 0)), call.scalar(3, 0.0)
    lowest = call.scalar(4, -np.inf)
    chosen: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], bool(call.node.integer("center_point_box", 0)))
        for kind in range(scores.shape[1]):
            kept: list[int] = []
            for index in np.argsort(-scores[batch, kind], kind="stable"):
                if len(kept) >= most or scores[batch, kind, index] <= lowest:
                    break
                if not np.any(_overlap(corners[index], corners[kept]) > threshold):
                    kept.append(int(index))
            chosen.extend((batch, kind, index) for index in kept)
    return (np.array(chosen, dtype=np.int64).reshape(-1, 3),)


KERNELS: Kernels = {"GridSample": _grid_sample, "NonMaxSuppression": _non_max_suppression}
