"""Outputs that are moved last, against the vendor's simulator: nothing filled them where they were only views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import kept_judge

pytestmark = [pytest.mark.sdk, pytest.mark.slow]

_DRAWN = 6
_PRECISIONS = [Precision.U8, Precision.I16]


@pytest.fixture(scope="module", params=["vsi:imx8mp", "vsi:v853", "vsi:rv1126"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _convolved(growth: Growth, tensor: str, channels: int, made: int) -> str:
    weights = growth.constant(growth.rng.normal(0, 0.3, (made, channels, 1, 1)))
    return growth.op("Conv", tensor, weights, kernel_shape=(1, 1))


def _integers(growth: Growth, *values: int) -> str:
    return growth.constant(np.array(values, np.int64))


def _turned_and_sliced(seed: int) -> WildCase:
    """A slice of what is transposed, as a detector's boxes are cut from its rows, beside a convolution."""
    growth = Growth(seed)
    draw, channels = growth.draw, growth.draw.pick(4, 8, 12)
    sides = draw.whole(3, 8), draw.whole(3, 8)
    made = growth.input(1, channels, *sides)
    made = _convolved(growth, made, channels, channels) if draw.chance(0.5) else made
    shape = [1, channels, *sides]
    if draw.chance(0.5):
        rows = sides[0] * sides[1]
        made, shape = growth.op("Reshape", made, _integers(growth, 1, channels, rows)), [1, channels, rows]
    order = [0, *growth.rng.permutation(np.arange(1, len(shape))).tolist()]
    turned = growth.op("Transpose", made, perm=tuple(order))
    axis = draw.whole(1, len(shape) - 1)
    size = shape[order[axis]]
    start = draw.whole(0, size - 2)
    ends = (start, draw.whole(start + 1, size), axis, 1)
    growth.op("Slice", turned, *(_integers(growth, value) for value in ends))
    if draw.chance(0.5):
        _convolved(growth, growth.input(1, 4, 5, 5), 4, 6)
    return growth.case(seed)


def _added_and_turned(seed: int) -> WildCase:
    """A concatenation that is added to a convolution, and transposed for an output.

    Its parts are converted, or it would be a view. All else is of one range: no sum lies at a tie.
    """
    growth = Growth(seed)
    draw, sides = growth.draw, (growth.draw.whole(3, 8), growth.draw.whole(3, 8))
    parts = [growth.input(1, draw.whole(1, 8), *sides) for _ in range(draw.whole(2, 3))]
    joined = growth.op("Concat", *parts, axis=1)
    channels = growth.values[joined][0].shape[1]
    convolved = _convolved(growth, growth.input(1, 4, *sides), 4, channels)
    operands = [growth.op("Relu", convolved) if draw.chance(0.5) else convolved, joined]
    growth.op(draw.pick("Add", "Sub"), *operands)
    if draw.chance(0.5):
        rows = growth.op("Reshape", joined, _integers(growth, 1, channels, sides[0] * sides[1]))
        growth.op("Transpose", rows, perm=(0, 2, 1))
    else:
        growth.op("Transpose", joined, perm=(0, 2, 3, 1))
    case = growth.case(seed)
    ranges = dict.fromkeys(case.ranges, Range(-4.0, 4.0)) | dict.fromkeys(parts, Range(-8.0, 8.0))
    return replace(case, ranges=ranges)


@pytest.mark.parametrize("precision", _PRECISIONS)
@pytest.mark.parametrize("draw", [_turned_and_sliced, _added_and_turned])
def test_what_is_moved_last_is_filled(
    draw: Callable[[int], WildCase], precision: Precision, judge: SimulatorJudge
) -> None:
    seed = draws.seed_here()
    for number in range(_DRAWN):
        found = judge.judge(draw(seed + number), precision)
        assert found.outcome is WildOutcome.EQUAL, (
            f"{seed + number}: {found.outcome.value} {found.steps} {found.reason}"
        )
