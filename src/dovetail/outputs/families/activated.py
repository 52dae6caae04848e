"""What has been applied to scores, told from the operators and from the values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.outputs.decode.planes import Arrays, read_part
from dovetail.outputs.ends import End
from dovetail.outputs.layouts import Activation, LayoutPart

_SLACK = 1e-2


def activation_of(end: End, axis: int, start: int = 0, stop: int | None = None) -> Activation:
    """Return the activation of some entries of an axis of an output."""
    size = end.shape[axis] if stop is None else stop
    applied = end.activations(axis, start, size)
    if applied == {"Softmax"}:
        return Activation.SOFTMAX
    if applied <= {"Sigmoid", "HardSigmoid"}:
        return Activation.SIGMOID
    values = end.values.take(range(start, size), axis=axis + 1)
    if values.dtype.kind != "f" or not values.size:
        return Activation.NONE
    real = values[np.isfinite(values)]
    if not real.size or real.min() < -_SLACK or real.max() > 1 + _SLACK:
        return Activation.NONE
    sums = np.nansum(values, axis=axis + 1)
    if size - start > 1 and bool(np.abs(sums - 1).max() < _SLACK):
        return Activation.SOFTMAX
    # Values that only happen to be small are logits: what a Sigmoid has made is nowhere below 0.
    return Activation.SIGMOID if real.min() >= 0 else Activation.NONE


def background_of(scores: LayoutPart, outputs: Arrays) -> int | None:
    """Return the class that says that nothing is there, where classes of places exclude each other, else None."""
    if scores.activation is not Activation.SOFTMAX or scores.width < 2:
        return None
    return _usual(np.asarray(read_part(scores, outputs), np.float64))


def background_index(end: End, axis: int) -> int:
    """Return the class that says that nothing is there: the usual one of the first and the last."""
    return _usual(np.moveaxis(np.asarray(end.values, np.float64), axis + 1, -1))


def _usual(shares: NDArray[np.float64]) -> int:
    mean = shares.reshape(-1, shares.shape[-1]).mean(axis=0)
    return 0 if mean[0] >= mean[-1] else len(mean) - 1
