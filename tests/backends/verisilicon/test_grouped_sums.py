"""Sums, differences and products of grouped convolutions, which the compiler cuts into one for each group."""

from __future__ import annotations

import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, expect_ties_only

pytestmark = pytest.mark.sdk

_CASES = 10
_FEW = 0.003
"""Share of elements that may be a step off: ties."""
_MEASURED = (Precision.U8, Precision.I8, Precision.I8DFP, Precision.I16)
_SIDES = ("grouped", "grouped", "grouped relu", "dense", "dense relu", "pool", "relu", "input")
_PLACES = (
    *((target, precision) for target in ("vsi:v853", "vsi:a311d", "vsi:imx8mp") for precision in _MEASURED),
    *(("vsi:a733", precision) for precision in (Precision.U8, Precision.I8DFP)),
)


def _side(growth: Growth, how: str, shape: tuple[int, ...]) -> str:
    draw, channels = growth.draw, shape[1]
    first, _, rest = how.partition(" ")
    if first in ("grouped", "dense"):
        groups = 4 if first == "grouped" else 1
        width, size = draw.pick(8, 24), draw.pick(1, 3)
        data = drawn_input(growth, shape[0], width, *shape[2:])
        weights = growth.constant(growth.rng.normal(0, 0.3, (channels, width // groups, size, size)))
        bias = growth.constant(growth.rng.normal(0, 0.5, channels))
        window = {"kernel_shape": (size, size), "pads": (size // 2,) * 4}
        made = growth.op("Conv", data, weights, bias, group=groups, **window)
        return growth.op("Relu", made) if rest else made
    data = drawn_input(growth, *shape)
    if first == "pool":
        return growth.op("MaxPool", data, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    return growth.op("Relu", data) if first == "relu" else data


def grouped_sum(seed: int) -> WildCase:
    """Return a sum with a grouped convolution, the same for the same seed."""
    growth = Growth(seed)
    draw = growth.draw
    shape = (1, 8, draw.whole(1, 9), draw.whole(2, 9))
    sides = [_side(growth, draw.pick("grouped", "grouped relu"), shape), _side(growth, draw.pick(*_SIDES), shape)]
    made = growth.op(draw.pick("Add", "Add", "Sub", "Mul"), *(sides if draw.chance(0.5) else sides[::-1]))
    behind = draw.pick("", "", "Relu", "Sigmoid", "LeakyRelu")
    if behind:
        growth.op(behind, made)
    return growth.case(seed)


@pytest.mark.parametrize(("target", "precision"), _PLACES)
def test_no_sum_joins_a_grouped_convolution(target: str, precision: Precision, vendor: VsiBackend) -> None:
    """Of unsigned bytes a quarter of the values was a step off, on all parts."""
    expect_ties_only(target, precision, vendor, grouped_sum, _CASES, _FEW)
