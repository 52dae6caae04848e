"""Operators of which one pixel is left, or that see one row: on random weights and values."""

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

_PRECISIONS = (Precision.U8, Precision.I8PC, Precision.I16)
_PIXELS = {
    "strides": ((1, 1), (3, 3), (2, 2), (1, 1, 1, 1)),
    "even kernel": ((2, 2), (2, 2), (1, 1), (1, 1, 1, 1)),
    "from a row": ((1, 2), (3, 2), (1, 1), (1, 1, 1, 1)),
    "from more": ((3, 2), (3, 2), (1, 1), (2, 1, 2, 1)),
}
"""Input plane, kernel, strides and pads."""


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _check(case: WildCase, judge: SimulatorJudge) -> None:
    for precision in _PRECISIONS:
        found = judge.judge(case, precision)
        said = f"{precision.value}, seed {case.seed}: {found.outcome.value} {found.steps} {found.reason}"
        assert found.outcome is WildOutcome.EQUAL, said


@pytest.mark.parametrize("made", [1, 3])
@pytest.mark.parametrize("case", _PIXELS)
def test_a_transposed_convolution_may_leave_one_pixel(case: str, made: int, judge: SimulatorJudge) -> None:
    """The vendor's ends the simulator, or is garbage."""
    seed = draws.seed_here()
    growth, (plane, kernel, strides, pads) = Growth(seed), _PIXELS[case]
    weight = growth.constant(growth.rng.normal(size=(3, made, *kernel)) * 0.4)
    bias = growth.constant(growth.rng.normal(size=made) * 0.4)
    growth.op("ConvTranspose", drawn_input(growth, 1 + seed % 2, 3, *plane), weight, bias, strides=strides, pads=pads)
    _check(growth.case(seed), judge)


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("width", [2, 5, 8])
def test_pairs_of_a_row_are_averaged(width: int, counted: int, judge: SimulatorJudge) -> None:
    """With strides of 2 along both axes the vendor's compiler ends."""
    seed = draws.seed_here()
    growth = Growth(seed)
    growth.op(
        "AveragePool",
        drawn_input(growth, 1 + seed % 2, 3, 1, width),
        kernel_shape=(1, 2),
        strides=(2, 2),
        count_include_pad=counted,
    )
    _check(growth.case(seed), judge)
