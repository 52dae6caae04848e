"""What an emulated operator is: a function from stored arrays to stored arrays, built once an operator.

Arrays have one axis more than the program's tensors: samples come first, and a constant has one of them. So an axis in
the vendor's counting, from the fastest dimension, is `-1 - axis` whatever the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.ir import AnyArray

Values = Sequence[AnyArray | None]
Kernel = Callable[[Values], AnyArray]
"""Reads an operator's inputs (None where left out) and returns its output, all in stored values."""


def given(values: Values, index: int = 0) -> AnyArray:
    """Return an input that must be there."""
    value = values[index]
    assert value is not None
    return value


def exact_type(bound: float) -> np.dtype[np.generic]:
    """Return the fastest type in which sums of integers below this size are exact in any order."""
    if bound < 2**24:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if bound < 2**53 else np.dtype(np.int64)


def samples_first(value: AnyArray) -> AnyArray:
    """Return `[samples, N, ...]` as `[samples * N, ...]`."""
    return value.reshape(-1, *value.shape[2:])


def with_samples(value: AnyArray, count: int) -> AnyArray:
    """Return `[samples * N, ...]` as `[samples, N, ...]`."""
    return value.reshape(count, -1, *value.shape[1:])
