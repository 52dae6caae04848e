"""Symbols along time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.outputs.decode.planes import Arrays
from dovetail.outputs.layouts import SequenceLayout


def read_symbols(layout: SequenceLayout, outputs: Arrays) -> list[tuple[int, ...]]:
    """Return the symbols of every sample: the best of each step, repetitions merged and blanks left out.

    Without a blank every step is a symbol.
    """
    values = outputs[layout.output]
    if layout.labels:
        return [tuple(int(item) for item in row.reshape(-1)) for row in values]
    scores = np.moveaxis(np.asarray(values, np.float64), (layout.time_axis + 1, layout.class_axis + 1), (-2, -1))
    steps = np.nan_to_num(scores, nan=-np.inf).argmax(axis=-1).reshape(len(values), -1)
    return [_collapsed(row, layout.blank) for row in steps]


def _collapsed(steps: NDArray[np.int64], blank: int | None) -> tuple[int, ...]:
    if blank is None:
        return tuple(int(item) for item in steps)
    changed = np.concatenate([[True], steps[1:] != steps[:-1]])
    return tuple(int(item) for item in steps[changed] if item != blank)
