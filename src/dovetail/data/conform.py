"""Fit an array to a model's input, or say why it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.sample import InputSpec
from dovetail.errors import DataError

_KIND_FLOAT = "f"
_KINDS_NUMERIC = "biuf"


def describe_shape(shape: Sequence[int | None]) -> str:
    """Write a shape as `[1, ?, 224]`; `?` is symbolic."""
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _matches(found: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(found) == len(wanted) and all(w is None or f == w for f, w in zip(found, wanted, strict=True))


def fitted_shape(shape: tuple[int, ...], spec: InputSpec) -> tuple[int, ...] | None:
    """Return the shape of one sample as the model wants it, or `None` when it does not fit.

    Only dimensions of size 1 are added: the batch, and a channel or height that a file leaves out.
    """
    expected = spec.shape
    if _matches(shape, expected):
        return shape
    if expected and expected[0] in (1, None):
        if _matches(shape, expected[1:]):
            return (1, *shape)
        known = tuple(size for size in expected[1:] if size is not None)
        squeezed = tuple(size for size in known if size != 1)
        if len(known) == len(expected) - 1 and len(shape) < len(expected) and squeezed == _squeeze(shape):
            return (1, *known)
    return None


def _squeeze(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def cast_exactly(array: NDArray[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """Cast numbers to `dtype`; only float to float may round.

    Raises DataError for text and objects, NaN and infinity, and integers that the type cannot hold exactly.
    """
    if array.dtype.kind not in _KINDS_NUMERIC:
        raise DataError(f"{where}: dtype {array.dtype} is not numeric.", hint="Give integers, floats or booleans.")
    if array.dtype.kind == _KIND_FLOAT:
        _check_finite(array, where)
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
        exact = bool(np.array_equal(result.astype(array.dtype), array) and np.array_equal(result, array))
    both_float = array.dtype.kind == dtype.kind == _KIND_FLOAT
    if not both_float and not exact:
        raise DataError(
            f"{where}: {array.dtype} values in [{array.min()}, {array.max()}] are not exact in {dtype}.",
            hint="Scale or round the data first.",
        )
    if both_float and not np.isfinite(result).all():
        raise DataError(f"{where}: {array.dtype} values overflow {dtype}.", hint="Scale the data first.")
    return result


def _check_finite(array: NDArray[Any], where: str) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        bad = int(array.size - np.count_nonzero(finite))
        raise DataError(
            f"{where}: {bad} of {array.size} values are NaN or infinite.",
            hint="Remove or repair this sample.",
        )


def conform(array: NDArray[Any], spec: InputSpec, sample_id: str) -> NDArray[Any]:
    """Return `array` with the dtype and rank of `spec`.

    Raises DataError naming the sample, the input, and the shapes expected and found.
    """
    where = f"sample {sample_id!r}, input {spec.name!r}"
    shape = fitted_shape(array.shape, spec)
    if shape is None:
        raise DataError(
            f"{where}: expected shape {describe_shape(spec.shape)}, found {describe_shape(array.shape)}."
            f"{_layout_note(array.shape, spec)}"
        )
    if array.size == 0:
        raise DataError(f"{where}: shape {describe_shape(array.shape)} holds no value.")
    # ascontiguousarray gives a scalar one dimension, so the shape comes last.
    return np.ascontiguousarray(cast_exactly(array, spec.dtype, where)).reshape(shape)


def _layout_note(given_shape: tuple[int, ...], spec: InputSpec) -> str:
    if len(given_shape) < 3:
        return ""
    *lead, a, b, c = given_shape
    for axes, shape in (
        ("[H, W, C] to [C, H, W]", (*lead, c, a, b)),
        ("[C, H, W] to [H, W, C]", (*lead, b, c, a)),
    ):
        if fitted_shape(shape, spec) is not None:
            return f" Transposing {axes} would fit."
    return ""
