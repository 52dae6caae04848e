"""Slices that a convolution with groups reads, and somebody else with another shape, against the vendor's simulator."""

from __future__ import annotations

from collections.abc import Iterator

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import kept_judge

pytestmark = [pytest.mark.sdk, pytest.mark.slow]


@pytest.fixture(scope="module")
def judge(vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge("vsi:a733", vendor) as simulator:
        yield simulator


def _case(seed: int, tail: str) -> WildCase:
    growth = Growth(seed)
    draw = growth.draw
    groups, kernel, height, width = draw.pick(2, 4), draw.pick(1, 3), draw.whole(4, 12), draw.whole(3, 9)
    channels, cut = groups * draw.pick(2, 3), draw.whole(1, 3)
    ends = [growth.constant(np.array([value], np.int64)) for value in (cut, cut + height, 2, 1)]
    sliced = growth.op("Slice", growth.input(1, channels, height + cut, width), *ends)
    weights = growth.constant(growth.rng.normal(0, 0.3, (2 * groups, channels // groups, kernel, kernel)))
    growth.op("Conv", sliced, weights, group=groups, kernel_shape=(kernel, kernel), pads=(kernel // 2,) * 4)
    seen = growth.op("Reshape", sliced, growth.constant(np.array([1, channels, height * width], np.int64)))
    if tail != "reshape":
        seen = growth.op("Transpose", seen, perm=(0, 2, 1))
    if tail == "product":
        growth.op("MatMul", seen, growth.constant(growth.rng.normal(0, 0.3, (channels, 5))))
    return growth.case(seed)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8PC, Precision.I16])
@pytest.mark.parametrize("tail", ["reshape", "transpose", "product"])
def test_a_slice_is_read_by_a_grouped_convolution_and_seen_with_another_shape(
    tail: str, precision: Precision, judge: SimulatorJudge
) -> None:
    """The compiler laid the slice out for the convolution: garbage for the other reader, or its own death."""
    found = judge.judge(_case(draws.seed_here(), tail), precision)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"
