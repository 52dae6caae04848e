"""Averages that the compiler turns into convolutions on the multiply-accumulate array.

The weights are quantised like those of any convolution: 255 steps where tensors are affine bytes, 7 bits in dynamic
fixed point. The accumulator's multiplier is that of a convolution, cut to the width of the part.
"""

from __future__ import annotations

import math

import numpy as np

from dovetail.backend.arithmetic import Vip, cut_mantissa
from dovetail.backends.vip.floats import single
from dovetail.backends.vip.scene import Rule, Scene, Values, one_sample
from dovetail.ir import AnyArray, DType, TensorType

STEPS = 255
"""Between the lowest and the highest byte weight."""
_FIXED_POINT_BITS = 7
_MOST_FRACTION_BITS = 12
OLD = (Vip.V7, Vip.V7_BYTES)
"""Parts that cut an accumulator's multiplier to 16 bits."""


def _widest(vip: Vip) -> int:
    """Return the largest averaging window that goes to the array; larger ones go to the shaders."""
    return 11 if vip in OLD else 15


def held(weight: float, data: float, made: float, vip: Vip) -> float:
    """Return the multiplier of a weight's, an input's and an output's scale as the array holds it."""
    single = float(np.float32(weight) * np.float32(data) / np.float32(made))
    return float(cut_mantissa(np.asarray(single), 16 if vip in OLD else 24))


def average_rule(scene: Scene) -> Rule | None:
    """Return an average that runs on the array, or None for one of the shaders.

    Those are exact: windows with padding, strides other than 1 and 2, and large ones.
    """
    kind = scene.kind(0)
    if kind.dtype is DType.I16 and scene.vip is Vip.V7_BYTES:
        return None
    window = _pooled(scene) if scene.node.op == "AveragePool" else _reduced(scene)
    if window is None or max(window[0]) > _widest(scene.vip):
        return None
    kernel, strides, shape = window
    count = math.prod(kernel)
    assert kind.quant is not None
    assert scene.made.quant is not None
    scales = kind.quant.scale[0], scene.made.quant.scale[0]
    if kind.dtype is DType.I16 or scene.in_fixed_point:
        weight, multiplier = _fixed_weight(count), scales[0] / scales[1]
    else:
        weight, step = float(STEPS), float(single(float(single(1.0 / count)) / STEPS))
        multiplier = held(step, *scales, scene.vip)

    def rule(values: Values) -> AnyArray:
        stored = values[0]
        assert stored is not None
        total = _window_sums(centred(stored, kind), kernel, strides)
        steps = np.rint(np.multiply(total * weight, multiplier, dtype=np.float64))
        return stored_from(steps, scene.made).reshape(shape or total.shape)

    return rule


def _fixed_weight(count: int) -> float:
    """Return 1 / count as the array holds it: 7 bits, of which none lies below 2 ** -12."""
    _, exponent = math.frexp(1.0 / count)
    bits = min(_FIXED_POINT_BITS - exponent, _MOST_FRACTION_BITS)
    return float(np.rint(math.ldexp(1.0 / count, bits))) * math.ldexp(1.0, -bits)


_Window = tuple[tuple[int, int], tuple[int, int], tuple[int, ...] | None]


def _pooled(scene: Scene) -> _Window | None:
    node = scene.node
    kernel, strides = node.integers("kernel_shape"), node.integers("strides") or (1, 1)
    plain = not any(node.integers("pads")) and node.text("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    if not plain or len(kernel) != 2 or strides not in ((1, 1), (2, 2)) or node.integer("ceil_mode", 0):
        return None
    return (kernel[0], kernel[1]), (strides[0], strides[1]), None


def _reduced(scene: Scene) -> _Window | None:
    """Return the window of an average over the last two of four axes."""
    sizes = one_sample(scene.kind(0))
    if sizes is None or len(sizes) != 4:
        return None
    node = scene.node
    if node.op == "ReduceMean":
        given = scene.graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
        axes = node.integers("axes") if given is None else tuple(int(axis) for axis in given.reshape(-1))
        if sorted(axis % 4 for axis in axes) != [2, 3]:
            return None
    made = one_sample(scene.made)
    return None if made is None else ((sizes[2], sizes[3]), (1, 1), (-1, *made[1:]))


def _window_sums(values: AnyArray, kernel: tuple[int, int], strides: tuple[int, int]) -> AnyArray:
    rows, columns = ((values.shape[2 + i] - kernel[i]) // strides[i] + 1 for i in range(2))
    total = np.zeros((*values.shape[:2], rows, columns), np.int64)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            down = slice(row, row + (rows - 1) * strides[0] + 1, strides[0])
            across = slice(column, column + (columns - 1) * strides[1] + 1, strides[1])
            total += values[:, :, down, across]
    return total


def centred(stored: AnyArray, kind: TensorType) -> AnyArray:
    """Return `q - zero_point` in int64."""
    assert kind.quant is not None
    return np.asarray(stored.astype(np.int64) - kind.quant.zero_point[0])


def stored_from(steps: AnyArray, made: TensorType) -> AnyArray:
    """Return stored integers of whole steps around the zero point."""
    assert made.quant is not None
    return np.asarray(np.clip(steps + made.quant.zero_point[0], *made.dtype.integer_range).astype(made.dtype.carrier))
