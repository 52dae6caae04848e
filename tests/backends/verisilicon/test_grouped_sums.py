"""Sums, differences and products of grouped convolutions, which the compiler cuts into one for each group."""

from __future__ import annotations

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge

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
    seed, differing, elements = draws.seed_here(), 0, 0
    with kept_judge(target, vendor) as judge:
        for index in np.random.SeedSequence(seed).generate_state(_CASES):
            found = judge.judge(grouped_sum(int(index)), precision)
            said = f"seed {index}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
            assert found.steps.largest <= 1, said
            assert found.steps.differing <= max(2, 0.02 * found.steps.elements), said
            differing, elements = differing + found.steps.differing, elements + found.steps.elements
    assert differing <= max(2, _FEW * elements), f"seed {seed}: {differing} of {elements}"
