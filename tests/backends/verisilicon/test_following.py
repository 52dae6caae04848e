"""Convolutions that follow a Pad, a reduction, a gate or one of other groups, on random weights and values."""

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

from .conftest import drawn_input, kept_judge

pytestmark = pytest.mark.sdk

_RARE = 0.002
_PRECISIONS = (Precision.U8, Precision.I8PC, Precision.I16)
_GROUPS = ((3, 2, 6), (2, 4, 8), (4, 2, 8), (2, 2, 8))
_REDUCTIONS = {
    "ReduceMean": {"axes": (2, 3)},
    "ReduceSum": {"axes": (2, 3)},
    "GlobalAveragePool": {},
    "AveragePool": {"kernel_shape": (2, 2), "strides": (2, 2)},
}
_PADS = {
    "zeros": ((0, 0, 1, 1, 0, 0, 1, 1), None, {}),
    "one side": ((0, 0, 0, 1, 0, 0, 0, 0), None, {}),
    "a number": ((0, 0, 1, 1, 0, 0, 1, 1), 0.7, {}),
    "edges": ((0, 0, 1, 1, 0, 0, 1, 1), None, {"mode": "edge"}),
}


_LOOKING_UP = ("vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:rv1126")
"""Parts whose tensor processor has tables of functions."""


@pytest.fixture(scope="module", params=[*_LOOKING_UP, "vsi:a733"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _convolution(growth: Growth, data: str, kernel: int, group: int, pads: tuple[int, ...]) -> str:
    channels = growth.shape(data)[1]
    weight = growth.constant(growth.rng.normal(size=(channels, channels // group, kernel, kernel)) * 0.4)
    window = {"pads": pads, "strides": (1, 1), "dilations": (1, 1)}
    return growth.op("Conv", data, weight, group=group, **window)


def _regrouped(seed: int, first: int, second: int, channels: int) -> WildCase:
    growth = Growth(seed)
    made = _convolution(growth, drawn_input(growth, 1, channels, 8, 8), 3, first, (1, 1, 1, 1))
    _convolution(growth, made, 1, second, (0, 0, 0, 0))
    return growth.case(seed)


def _reduced(seed: int, op: str, *, behind: bool) -> WildCase:
    growth = Growth(seed)
    data = drawn_input(growth, 1, 8, 6, 6)
    made = _convolution(growth, data, 1, 1, (0, 0, 0, 0)) if behind else data
    _convolution(growth, growth.op(op, made, **_REDUCTIONS[op]), 1, 2, (0, 0, 0, 0))
    return growth.case(seed)


def _gated(seed: int, group: int) -> WildCase:
    growth = Growth(seed)
    made = _convolution(growth, drawn_input(growth, 1, 8, 6, 6), 1, 1, (0, 0, 0, 0))
    made = growth.op("Mul", made, growth.op("Sigmoid", made))
    _convolution(growth, made, 1, group, (0, 0, 0, 0))
    return growth.case(seed)


def _padded(seed: int, kind: str, *, depthwise: bool, pads: tuple[int, ...]) -> WildCase:
    growth = Growth(seed)
    widths, value, more = _PADS[kind]
    inputs = [drawn_input(growth, 1, 8, 8, 9), growth.constant(np.array(widths))]
    if value is not None:
        inputs.append(growth.constant(np.array(value, np.float32)))
    made = growth.op("Pad", *inputs, **more)
    _convolution(growth, made, 3, 8 if depthwise else 1, pads)
    return growth.case(seed)


def _check(case: WildCase, judge: SimulatorJudge) -> None:
    for precision in _PRECISIONS:
        found = judge.judge(case, precision)
        said = f"{precision.value}, seed {case.seed}: {found.outcome.value} {found.steps} {found.reason}"
        assert found.outcome in (WildOutcome.EQUAL, WildOutcome.REFUSED, WildOutcome.DIFFERS), said
        # With a scale per channel older parts are off by a step in one of some thousand values; garbage is all of them.
        assert found.steps.largest <= 1, said
        assert found.steps.differing <= _RARE * max(1, sum(found.steps.counts)), said


@pytest.mark.parametrize(("first", "second", "channels"), _GROUPS)
def test_a_convolution_of_other_groups_is_equal(first: int, second: int, channels: int, judge: SimulatorJudge) -> None:
    """The compiler would join the two, and all of it be garbage."""
    _check(_regrouped(draws.seed_here(), first, second, channels), judge)


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("kind", _PADS)
def test_a_convolution_that_pads_what_is_padded_is_equal(kind: str, depthwise: bool, judge: SimulatorJudge) -> None:
    """Its own zeros would be lost behind a Pad of zeros."""
    _check(_padded(draws.seed_here(), kind, depthwise=depthwise, pads=(1, 0, 1, 1)), judge)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("op", _REDUCTIONS)
def test_groups_are_cut_from_a_reduction(op: str, behind: bool, judge: SimulatorJudge) -> None:
    """The compiler cuts them from where the result does not lie, and all but the first are garbage."""
    _check(_reduced(draws.seed_here(), op, behind=behind), judge)


@pytest.mark.parametrize("judge", _LOOKING_UP, indirect=True)
@pytest.mark.parametrize("group", [1, 2])
def test_a_gate_between_convolutions_is_one_table(group: int, judge: SimulatorJudge) -> None:
    """Of signed bytes too, which are unsigned ones inside: a step in ten elements was off."""
    case = _gated(draws.seed_here(), group)
    _check(case, judge)
    found = judge.judge(case, Precision.I8)
    assert found.outcome is WildOutcome.EQUAL, f"{found.outcome.value} {found.steps} {found.reason}"
