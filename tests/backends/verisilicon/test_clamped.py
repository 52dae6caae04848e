"""ReLUs and slopes behind a convolution that is seen with another shape, and sums of clamped layers."""

from __future__ import annotations

from collections.abc import Iterator

import draws
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge

pytestmark = pytest.mark.sdk

_TAILS = {
    "output": (),
    "view": ("Reshape",),
    "size": ("Abs",),
    "shader": ("ReduceMax",),
    "clamp": ("Relu",),
    "table": ("Sigmoid",),
}
_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8DFP)


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:t527", "vsi:a733", "vsi:imx8mp", "vsi:a311d"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _row(growth: Growth) -> str:
    weight = growth.constant(growth.rng.normal(size=(16, 24)) / 4.0)
    return growth.op("MatMul", drawn_input(growth, 1, 16), weight)


def _sum_of_clamped_rows(seed: int, tail: str, *, both: bool) -> WildCase:
    growth = Growth(seed)
    one = growth.op("Relu", _row(growth))
    other = growth.op("Relu", _row(growth)) if both else drawn_input(growth, 1, 24)
    made = growth.op("Add", one, other)
    with_whole = {"Reshape": [1, 4, 6], "ReduceMax": [1]}
    for op in _TAILS[tail]:
        made = growth.op(op, made, *(growth.constant(with_whole[name]) for name in with_whole if name == op))
    return growth.case(seed)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("tail", _TAILS)
def test_sums_of_clamped_rows_are_equal(tail: str, both: bool, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for precision in _PRECISIONS:
        found = judge.judge(_sum_of_clamped_rows(seed, tail, both=both), precision)
        assert found.outcome is WildOutcome.EQUAL, f"{precision.value}, seed {seed}: {found.steps} {found.reason}"


def test_a_size_that_lies_nearly_between_two_steps_is_rounded_as_the_stream_processor_does(vendor: VsiBackend) -> None:
    with kept_judge("vsi:a733", vendor) as simulator:
        found = simulator.judge(_sum_of_clamped_rows(113597407, "size", both=False), Precision.U8)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"


def _seen_with_another_shape(seed: int, op: str, side: int) -> WildCase:
    growth = Growth(seed)
    weight, bias = growth.rng.normal(size=(24, 16, 1, 1)) / 4.0, growth.rng.normal(size=24)
    made = growth.op("Conv", drawn_input(growth, 1, 16, side, side), growth.constant(weight), growth.constant(bias))
    growth.op(op, growth.op("Reshape", made, growth.constant([1, 24 * side * side])))
    return growth.case(seed)


@pytest.mark.parametrize("side", [1, 4])
def test_a_clamp_behind_a_change_of_shape_is_rounded_as_the_part_does(side: int, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for precision in (*_PRECISIONS, Precision.I16):
        found = judge.judge(_seen_with_another_shape(seed, "Relu", side), precision)
        assert found.outcome is WildOutcome.EQUAL, f"{precision.value}, seed {seed}: {found.steps} {found.reason}"


@pytest.mark.parametrize("seed", [931005180, 221733, 926524, 974038])
def test_a_clamp_of_16_bits_that_lies_nearly_between_two_steps_is_cut_first(seed: int, vendor: VsiBackend) -> None:
    with kept_judge("vsi:a733", vendor) as simulator:
        found = simulator.judge(_seen_with_another_shape(seed, "Relu", 4), Precision.I16)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"


def _added_over_one_axis(seed: int) -> WildCase:
    growth = Growth(seed)
    made = growth.op("Conv", drawn_input(growth, 1, 16, 9), growth.constant(growth.rng.normal(size=(24, 16, 1)) / 4.0))
    growth.op("Add", growth.op("Relu", made), drawn_input(growth, 1, 24, 9))
    return growth.case(seed)


def test_residual_blocks_over_one_axis_are_equal(judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for precision in _PRECISIONS:
        found = judge.judge(_added_over_one_axis(seed), precision)
        assert found.outcome is WildOutcome.EQUAL, f"{precision.value}, seed {seed}: {found.steps} {found.reason}"
