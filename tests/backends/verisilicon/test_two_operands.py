"""Sums, differences, products and extremes of what convolutions, pools, functions and constants make."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, expect_ties_only

pytestmark = pytest.mark.sdk

_CASES = 14
_FEW = 0.003
"""Share of elements that may be a step off: ties."""
_MEASURED = (Precision.U8, Precision.I8, Precision.I8DFP, Precision.I16)
_PARTS = ("vsi:v853", "vsi:t527", "vsi:a733", "vsi:imx8mp", "vsi:a311d")
_PLACES = [(target, precision) for target in _PARTS for precision in _MEASURED]
_OPERATORS = ("Add", "Sub", "Mul", "Max", "Min")
_FUNCTIONS = ("Abs", "Celu", "Elu", "Erf", "Gelu", "LeakyRelu", "Mish", "Neg", "Relu", "Selu", "Softsign")
_CHANNELS = 8
_BESIDE = (4, 8, 16)

_Maker = Callable[[Growth, tuple[int, ...]], str]


def _convolution(growth: Growth, shape: tuple[int, ...], groups: int = 1) -> str:
    draw = growth.draw
    size = 3 if groups == _CHANNELS else draw.pick(1, 3)
    width = _CHANNELS if groups > 1 else draw.pick(*_BESIDE)
    data = drawn_input(growth, 1, width, *shape[2:])
    weights = growth.constant(growth.rng.normal(0, 0.3, (_CHANNELS, width // groups, size, size)))
    bias = growth.constant(growth.rng.normal(0, 0.5, _CHANNELS))
    return growth.op("Conv", data, weights, bias, group=groups, kernel_shape=(size, size), pads=(size // 2,) * 4)


def _transposed(growth: Growth, shape: tuple[int, ...]) -> str:
    width = growth.draw.pick(*_BESIDE)
    data = drawn_input(growth, 1, width, *(size // 2 for size in shape[2:]))
    weights = growth.constant(growth.rng.normal(0, 0.4, (width, _CHANNELS, 2, 2)))
    bias = growth.constant(growth.rng.normal(0, 0.5, _CHANNELS))
    return growth.op("ConvTranspose", data, weights, bias, kernel_shape=(2, 2), strides=(2, 2))


def _average(growth: Growth, shape: tuple[int, ...]) -> str:
    data = drawn_input(growth, 1, _CHANNELS, *(2 * size for size in shape[2:]))
    return growth.op("AveragePool", data, kernel_shape=(2, 2), strides=(2, 2))


def _maximum(growth: Growth, shape: tuple[int, ...]) -> str:
    made = _convolution(growth, shape)
    return growth.op("MaxPool", made, kernel_shape=(3, 3), pads=(1, 1, 1, 1))


def _function(growth: Growth, shape: tuple[int, ...]) -> str:
    return growth.op(growth.draw.pick(*_FUNCTIONS), growth.draw.pick(_convolution, _average)(growth, shape))


def _constant(growth: Growth, _: tuple[int, ...]) -> str:
    return growth.constant(growth.rng.normal(0, 1, (1, _CHANNELS, 1, 1)))


def _row(growth: Growth, _: tuple[int, ...]) -> str:
    return drawn_input(growth, 1, _CHANNELS, 1, 1)


def _grouped(growth: Growth, shape: tuple[int, ...]) -> str:
    return _convolution(growth, shape, growth.draw.pick(4, _CHANNELS))


def _taken(growth: Growth, shape: tuple[int, ...]) -> str:
    return drawn_input(growth, *shape)


_MAKERS: tuple[_Maker, ...] = (_convolution, _grouped, _transposed, _average, _maximum, _function)


def operator_of_two(seed: int) -> WildCase:
    """Return an operator of two tensors, or of one and a number for each channel; the same for the same seed."""
    growth = Growth(seed)
    draw = growth.draw
    shape = (1, _CHANNELS, 2 * draw.whole(1, 4), 2 * draw.whole(2, 5))
    other = draw.pick(*_MAKERS, _taken, _row, _constant, _constant)
    sides = [draw.pick(*_MAKERS)(growth, shape), other(growth, shape)]
    kind = "Add" if other is _constant else draw.pick(*_OPERATORS)
    made = growth.op(kind, *(sides if draw.chance(0.5) else sides[::-1]))
    if kind != "Sub" and draw.chance(0.3):
        growth.op("Relu", made)
    return growth.case(seed)


@pytest.mark.parametrize(("target", "precision"), _PLACES)
def test_what_is_joined_is_not_rounded(target: str, precision: Precision, vendor: VsiBackend) -> None:
    """Half the extremes with a convolution or an average were a step off, and all sums with numbers of channels."""
    expect_ties_only(target, precision, vendor, operator_of_two, _CASES, _FEW)
