"""Slices with drawn bounds and steps, forwards and backwards, over one to five axes."""

from __future__ import annotations

from collections.abc import Iterator

import draws
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import case_of
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.table import wild_operator

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_PRECISIONS = (Precision.U8, Precision.I8PC, Precision.I16)
_CASES = 30


@pytest.fixture(scope="module", params=["vsi:a733", "vsi:v853", "vsi:a311d"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


@pytest.mark.parametrize("precision", _PRECISIONS, ids=lambda precision: str(precision.value))
def test_slices_are_equal(precision: Precision, judge: SimulatorJudge) -> None:
    """A stream processor's steps along a vector or behind a batch, and what is cut of five axes, are garbage there."""
    first = draws.seed_here()
    for seed in range(first, first + _CASES):
        found = judge.judge(case_of(wild_operator("Slice", seed), seed), precision)
        assert found.outcome is WildOutcome.EQUAL, f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
