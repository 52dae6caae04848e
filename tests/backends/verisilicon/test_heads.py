"""What heads of trained models have and drawn graphs seldom: padded channels, and the score of two classes.

Both came out wrong, or ended the vendor's writer of binary networks, on parts whose bytes are signed.
"""

from __future__ import annotations

from collections.abc import Iterator

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.driver.process import DriverLimits
from dovetail.backends.verisilicon.driver.session import Settings, write_binary
from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome, deploy
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge, target_named

pytestmark = pytest.mark.sdk

_PARTS = ("vsi:v853", "vsi:t527", "vsi:a733")


@pytest.fixture(scope="module", params=_PARTS)
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _padded(seed: int, maker: str, axis: int) -> WildCase:
    """Return what makes a tensor, a padding along one axis and perhaps the plane, and a sum with the result."""
    growth = Growth(seed)
    data = drawn_input(growth, 1, int(growth.rng.integers(3, 12)), 6, 6)
    made = growth.op(maker, data)
    widths = growth.rng.integers(0, 4, 8) * np.asarray([0, 0, 1, 1] * 2) * int(growth.rng.integers(2))
    widths[axis], widths[axis + 4] = growth.rng.integers(0, 5), growth.rng.integers(1, 5)
    padded = growth.op("Pad", made, growth.constant(widths))
    if growth.rng.integers(2):
        growth.op("Add", padded, growth.op("Relu", padded))
    return growth.case(seed)


@pytest.mark.parametrize("precision", [Precision.I8PC, Precision.I8, Precision.U8, Precision.I16])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("maker", ["Relu", "Sigmoid", "Tanh"])
def test_zeros_beside_channels_and_batches(maker: str, axis: int, precision: Precision, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    found = judge.judge(_padded(seed, maker, axis), precision)
    assert found.outcome is WildOutcome.EQUAL, f"seed {seed}: {found.steps} {found.reason}"


def _scored(seed: int, function: str, joined: bool) -> WildCase:
    """Return one number, computed from many or in a convolution of a pooled plane, and its score."""
    growth = Growth(seed)
    if joined:
        data = drawn_input(growth, 1, 24)
        weight = growth.constant(growth.rng.normal(size=(1, 24)) / 3.0)
        made = growth.op("Gemm", data, weight, growth.constant(growth.rng.normal(size=1)), transB=1)
    else:
        pooled = growth.op("GlobalAveragePool", drawn_input(growth, 1, 8, 5, 5))
        weight = growth.constant(growth.rng.normal(size=(1, 8, 1, 1)))
        made = growth.op("Conv", pooled, weight, growth.constant(growth.rng.normal(size=1)), kernel_shape=(1, 1))
    growth.op(function, made)
    return growth.case(seed)


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("function", ["Sigmoid", "Tanh"])
def test_the_score_of_two_classes_is_equal(function: str, joined: bool, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for precision in (Precision.I8PC, Precision.I8, Precision.U8):
        found = judge.judge(_scored(seed, function, joined), precision)
        assert found.outcome is WildOutcome.EQUAL, f"{precision.value}, seed {seed}: {found.steps} {found.reason}"


@pytest.mark.parametrize("target", _PARTS)
@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("function", ["Sigmoid", "Tanh"])
def test_the_score_of_two_classes_is_written(function: str, joined: bool, target: str, vendor: VsiBackend) -> None:
    case = _scored(draws.seed_here(), function, joined)
    _, (deployed,) = deploy(case, profile_of(target_named(target)), Precision.I8PC)
    assert write_binary(deployed.program, Settings(vendor.folder, DriverLimits()), may_skip=True)
