"""Resizing of rows and columns: whole repetitions, or straight lines between neighbours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.converting import requantised
from dovetail.backends.verisilicon.emulator.elementwise import finished
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.normalising import rounded_steps, steps_of
from dovetail.backends.verisilicon.emulator.storing import reals_of
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView
from dovetail.ir import AnyArray, DType


def build_resize(item: OperatorView) -> Kernel:
    """Return `[N, C, H, W]` in another size."""
    linear, aligned, half = bool(item.ints[0]), bool(item.ints[3]), bool(item.ints[4])
    sizes, made = item.shape()[-2:], item.made_shape()[-2:]
    if not linear:
        store = requantised(item)
        times = [big // small for big, small in zip(made, sizes, strict=True)]
        return lambda values: store(given(values).repeat(times[0], -2).repeat(times[1], -1))
    fixed = item.is_stored and (item.kind().dtype is DType.I16 or item.in_fixed_point)
    if fixed and half and item.kind().dtype is item.made().dtype and item.operator.route is Route.SHADER:
        return _shaded(item)

    def run(values: Values) -> AnyArray:
        result = reals_of(given(values), item.kind())
        for axis in (-2, -1):
            result = _along(result, axis, _places(sizes[axis], made[axis], aligned=aligned, half=half))
        return finished(item, result)

    return run


def _places(size: int, made: int, *, aligned: bool, half: bool) -> AnyArray:
    """Return where each output lies among the inputs."""
    at = np.arange(made, dtype=np.float64)
    if aligned:
        return np.asarray(at * (size - 1) / (made - 1)) if made > 1 else np.zeros(made)
    scale = made / size
    return np.asarray((at + 0.5) / scale - 0.5 if half else at / scale)


def _along(values: AnyArray, axis: int, places: AnyArray) -> AnyArray:
    size = values.shape[axis]
    if len(places) == size and np.array_equal(places, np.arange(size)):
        return values
    places = np.clip(places, 0.0, size - 1.0)
    low = np.floor(places).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    shape = [1] * values.ndim
    shape[axis] = len(places)
    share = (places - low).reshape(shape)
    return np.asarray(np.take(values, low, axis) * (1.0 - share) + np.take(values, high, axis) * share)


def _shaded(item: OperatorView) -> Kernel:
    """Return the shader's rule at half pixels for steps that are powers of two: columns first, then rows."""
    scale, inverse = steps_of(item)
    rows, columns = (_halves(item.shape()[axis], item.made_shape()[axis]) for axis in (-2, -1))

    def run(values: Values) -> AnyArray:
        stored = given(values).astype(float32)
        left, right = stored[..., columns[0]], stored[..., columns[1]]
        lines = (right - left) * columns[2] + left
        top, bottom = lines[..., rows[0], :], lines[..., rows[1], :]
        return rounded_steps(item, ((bottom - top) * rows[2][:, None] + top) * float32(scale * inverse))

    return run


def _halves(size: int, made: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return for each output element both neighbours and the share of the second, in float32."""
    half = float32(0.5)
    at = (np.arange(made).astype(float32) + half) * (float32(size) / float32(made)) - half
    low = np.floor(at)
    low_index, high_index = (np.clip(edge, 0, size - 1).astype(np.int64) for edge in (low, np.ceil(at)))
    return low_index, high_index, at - low


RESIZING: dict[str, Callable[[OperatorView], Kernel]] = {"resize": build_resize}
"""Operators of this module by the shim's names."""
