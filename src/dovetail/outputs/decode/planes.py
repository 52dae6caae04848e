"""Read outputs as channels of places, in one order: level by level, row by row, column by column, anchor by anchor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.layouts import Activation, Form, LayoutPart, Level, Plane

Arrays = Mapping[str, AnyArray]
Floats = NDArray[np.float64]

_FRONT: dict[Form, tuple[int, ...]] = {
    # Axes of [N, ...] put in the order [N, H, W, A, C].
    Form.ACHW: (0, 3, 4, 1, 2),
    Form.AHWC: (0, 2, 3, 1, 4),
    Form.HWAC: (0, 1, 2, 3, 4),
}


@dataclass(frozen=True, slots=True)
class Cells:
    """Where the places are: all arrays are `[P]`; `x` and `y` count cells, strides are in pixels."""

    x: Floats
    y: Floats
    stride_x: Floats
    stride_y: Floats
    anchor: NDArray[np.int64]
    level: NDArray[np.int64]


def cells_of(levels: Sequence[Level]) -> Cells:
    """Return the cells of all places."""
    columns: list[tuple[AnyArray, ...]] = []
    for number, level in enumerate(levels):
        y, x, anchor = np.meshgrid(
            np.arange(level.rows), np.arange(level.cols), np.arange(level.anchors), indexing="ij"
        )
        size = level.places
        strides = np.full(size, level.stride_x), np.full(size, level.stride_y)
        columns.append((x.reshape(-1), y.reshape(-1), *strides, anchor.reshape(-1), np.full(size, number)))
    x, y, stride_x, stride_y, anchor, level_of = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Cells(x.astype(np.float64), y.astype(np.float64), stride_x, stride_y, anchor, level_of)


def read_part(part: LayoutPart, outputs: Arrays) -> AnyArray:
    """Return the channels `[N, P, C]` of a part, as they are."""
    tables = [read_plane(plane, outputs) for plane in part.planes]
    return tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)


def read_plane(plane: Plane, outputs: Arrays) -> AnyArray:
    """Return the channels `[N, P, C]` of one output; raise DataError where it is not shaped as the layout says."""
    if plane.output not in outputs:
        raise DataError(f"output '{plane.output}' is missing; found {', '.join(outputs) or 'none'}.")
    values = np.asarray(outputs[plane.output])
    try:
        table = _table(plane, values)
    except ValueError as error:
        raise DataError(
            f"output '{plane.output}' {list(values.shape)} does not fit {plane.form.value} of "
            f"{sum(level.places for level in plane.levels)} places with {plane.channels} channels."
        ) from error
    return table[..., plane.start : plane.stop]


def _table(plane: Plane, values: AnyArray) -> AnyArray:
    count = len(values)
    places = sum(level.places for level in plane.levels)
    if plane.form in (Form.PC, Form.CP):
        flat = values.reshape(count, *((places, -1) if plane.form is Form.PC else (-1, places)))
        table = flat if plane.form is Form.PC else flat.transpose(0, 2, 1)
        return _cell_by_cell(table, plane.levels) if plane.anchors_first else table
    (level,) = plane.levels
    if plane.form is Form.CHW:
        split = values.reshape(count, level.anchors, plane.channels, level.rows, level.cols)
        return split.transpose(0, 3, 4, 1, 2).reshape(count, places, plane.channels)
    if plane.form is Form.HWC:
        return values.reshape(count, level.rows, level.cols, level.anchors, plane.channels).reshape(
            count, places, plane.channels
        )
    return values.transpose(_FRONT[plane.form]).reshape(count, places, plane.channels)


def _cell_by_cell(table: AnyArray, levels: Sequence[Level]) -> AnyArray:
    """Return `[N, P, C]` with the anchors of a cell side by side, given them one after another."""
    count, _, channels = table.shape
    parts: list[AnyArray] = []
    start = 0
    for level in levels:
        part = table[:, start : start + level.places].reshape(count, level.anchors, -1, channels)
        parts.append(part.transpose(0, 2, 1, 3).reshape(count, level.places, channels))
        start += level.places
    return np.concatenate(parts, axis=1)


def activate(values: AnyArray, applied: Activation, wanted: Activation) -> Floats:
    """Return scores in 0..1: what has not been applied to the last axis is."""
    scores = np.asarray(values, np.float64)
    if applied is not Activation.NONE:
        return scores
    with np.errstate(over="ignore", invalid="ignore"):
        if wanted is Activation.SOFTMAX:
            powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float64)
        return np.asarray(1.0 / (1.0 + np.exp(-scores)), np.float64)
