"""Random operators of two tensors, what makes either of them, and what reads the result.

A vendor's compiler computes such an operator together with one of what it merges; which, and how, hangs on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth, grown
from dovetail.testing.wild.trios import PRODUCERS, READERS, Producer, given

_OPERATORS = ("Add", "Add", "Add", "Sub", "Mul", "Mul", "Max", "Min", "Div", "Concat")
_FUNCTIONS = (
    *("Abs", "Celu", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu"),
    *("Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"),
)
_CHANNELS = (1, 3, 8, 17)
_ATTEMPTS = 20


def wild_merge(seed: int) -> WildCase:
    """Return an operator of two tensors between drawn neighbours, the same for the same seed."""
    found = grown(seed, _ATTEMPTS, _grow)
    if found is not None:
        return found
    growth = Growth(seed)
    growth.op("Add", given(growth, (1, 3, 4, 4)), given(growth, (1, 3, 4, 4)))
    return growth.case(seed)


def _grow(growth: Growth, _attempt: int) -> None:
    draw = growth.draw
    shape = (draw.pick(1, 1, 1, 2), draw.pick(*_CHANNELS), 2 * draw.whole(1, 6), 2 * draw.whole(1, 6))
    made, op = _side(growth, shape), draw.pick(*_OPERATORS)
    other = _constant(growth, shape) if op != "Concat" and draw.chance(0.15) else _side(growth, shape)
    both = (made, other) if draw.chance(0.5) else (other, made)
    merged = growth.op(op, *both, **({"axis": draw.pick(1, 2, 3)} if op == "Concat" else {}))
    for _ in range(draw.pick(0, 0, 1, 2)):
        merged = draw.pick(*READERS)(growth, merged)


def _side(growth: Growth, shape: tuple[int, ...]) -> str:
    """Return a tensor that goes in, that one operator makes, or a function behind that."""
    if growth.draw.chance(0.15):
        return given(growth, shape)
    made = growth.draw.pick(*PRODUCERS, *_IMAGES, *_IMAGES)(growth, shape)
    return growth.draw.pick(*_FOLLOWERS)(growth, made) if growth.draw.chance(0.4) else made


def _constant(growth: Growth, shape: tuple[int, ...]) -> str:
    wide = growth.draw.pick((), (1, shape[1], 1, 1), (shape[1], 1, 1), (1, shape[1], *shape[2:]), (shape[3],))
    return growth.constant(growth.rng.normal(0.5, 1.0, wide))


def _weights(growth: Growth, shape: tuple[int, ...], outer: int) -> tuple[str, ...]:
    """Return weights of a product, and a bias in most cases."""
    terms = math.prod(shape[1:])
    weight = growth.constant(growth.rng.normal(0.0, 1.0 / math.sqrt(terms), shape))
    return (weight, growth.constant(growth.rng.normal(0.0, 0.3, outer))) if growth.draw.chance(0.7) else (weight,)


def _convolution(growth: Growth, shape: tuple[int, ...]) -> str:
    """Return a convolution with a window, strides, dilations and groups of many kinds."""
    draw, (batch, outer, *places) = growth.draw, shape
    groups = draw.pick(1, 1, 1, outer, *(size for size in (2, 4) if outer % size == 0))
    inner = groups * (1 if groups == outer > 1 else draw.pick(1, 3, 8))
    side, stride, spread = draw.pick(1, 3, 3, 5), draw.pick(1, 1, 1, 2), draw.pick(1, 1, 1, 2)
    growth.spend(math.prod(shape) * side * side * inner // groups)
    pads = spread * (side // 2)
    data = given(growth, (batch, inner, *(size * stride for size in places)))
    weights = _weights(growth, (outer, inner // groups, side, side), outer)
    window = {"kernel_shape": (side, side), "pads": (pads,) * 4, "strides": (stride,) * 2, "dilations": (spread,) * 2}
    return growth.op("Conv", data, *weights, group=groups, **window)


def _transposed(growth: Growth, shape: tuple[int, ...]) -> str:
    """Return a transposed convolution that doubles the sizes."""
    draw, (batch, outer, *places) = growth.draw, shape
    groups = draw.pick(1, 1, 1, outer)
    inner = outer if groups == outer else draw.pick(3, 8)
    side, pads, more = draw.pick((2, 0, 0), (4, 1, 0), (3, 1, 1))
    growth.spend(math.prod(shape) * side * side * inner // groups)
    weights = _weights(growth, (inner, outer // groups, side, side), outer)
    window = {"kernel_shape": (side, side), "pads": (pads,) * 4, "strides": (2, 2), "output_padding": (more, more)}
    data = given(growth, (batch, inner, *(size // 2 for size in places)))
    return growth.op("ConvTranspose", data, *weights, group=groups, **window)


def _averaged(growth: Growth, shape: tuple[int, ...]) -> str:
    data = given(growth, (*shape[:2], *(2 * size for size in shape[2:])))
    return growth.op(growth.draw.pick("AveragePool", "MaxPool"), data, kernel_shape=(2, 2), strides=(2, 2))


def _enlarged(growth: Growth, shape: tuple[int, ...]) -> str:
    data = given(growth, (*shape[:2], *(size // 2 for size in shape[2:])))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return growth.op("Resize", data, growth.constant([]), growth.constant([1.0, 1.0, 2.0, 2.0]), **how)


def _function(growth: Growth, tensor: str) -> str:
    return growth.op(growth.draw.pick(*_FUNCTIONS), tensor)


def _clamp(growth: Growth, tensor: str) -> str:
    return growth.op("Clip", tensor, growth.constant(0.0), growth.constant(growth.draw.pick(1.0, 6.0)))


def _slope(growth: Growth, tensor: str) -> str:
    channels = growth.shape(tensor)[1]
    return growth.op("PRelu", tensor, growth.constant(growth.rng.uniform(0.0, 0.5, (channels, 1, 1))))


def _pool(growth: Growth, tensor: str) -> str:
    window = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1)}
    return growth.op(growth.draw.pick("MaxPool", "AveragePool"), tensor, **window)


def _normalised(growth: Growth, tensor: str) -> str:
    channels, numbers = growth.shape(tensor)[1], growth.rng
    scale, shift = numbers.uniform(0.5, 1.5, channels), numbers.normal(0.0, 0.3, channels)
    mean, variance = numbers.normal(0.0, 0.3, channels), numbers.uniform(0.5, 1.5, channels)
    values = (growth.constant(value) for value in (scale, shift, mean, variance))
    return growth.op("BatchNormalization", tensor, *values)


def _gated(growth: Growth, tensor: str) -> str:
    return growth.op("Mul", tensor, growth.op("Sigmoid", tensor))


_IMAGES: tuple[Producer, ...] = (_convolution, _convolution, _convolution, _transposed, _averaged, _enlarged)
_FOLLOWERS: tuple[Callable[[Growth, str], str], ...] = (
    *(_function, _function, _function, _clamp, _slope, _pool, _normalised, _gated),
)
