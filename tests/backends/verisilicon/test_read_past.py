"""Squares, sums of a tensor with itself and functions behind a convolution, and behind a slope of one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome
from dovetail.testing.wild.growth import Growth, UnfitError

from .conftest import drawn_input, kept_judge

_CASES = 8
_MOVED: Mapping[str, Mapping[str, object]] = {
    "Flatten": {},
    "MaxPool": {"kernel_shape": (2, 2)},
    "Transpose": {"perm": (0, 2, 3, 1)},
}
_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8PC, Precision.I8DFP, Precision.I16)


def _drawn(seed: int) -> WildCase:
    growth, draw = Growth(seed), Growth(seed).draw
    inner, outer, side = draw.whole(2, 8), draw.whole(2, 39), draw.pick(1, 3)
    data = drawn_input(growth, 1, inner, draw.whole(4, 8), draw.whole(4, 8))
    weights = growth.constant(growth.rng.normal(0, 0.5, (outer, inner, side, side)))
    made = growth.op("Conv", data, weights, kernel_shape=(side, side))
    if draw.chance(0.7):
        slopes = growth.constant(growth.rng.uniform(-0.1, 0.4, (outer, 1, 1)))
        leaky = draw.chance(0.5)
        made = growth.op("LeakyRelu", made, alpha=0.1) if leaky else growth.op("PRelu", made, slopes)
    if draw.chance(0.4):
        moved = draw.pick(*_MOVED)
        made = growth.op(moved, made, **_MOVED[moved])
    last = draw.pick("Mul", "Add", "Sigmoid", "Tanh", "HardSigmoid", "Elu", "Relu")
    growth.op(last, *([made] * (2 if last in ("Mul", "Add") else 1)))
    return growth.case(seed)


@pytest.mark.sdk
@pytest.mark.parametrize("precision", _PRECISIONS)
def test_what_is_read_behind_a_slope_is_what_it_made(precision: Precision, vendor: VsiBackend) -> None:
    judged = 0
    with kept_judge("vsi:a733", vendor) as simulator:
        for seed in np.random.SeedSequence(draws.seed_here()).generate_state(_CASES):
            with suppress(UnfitError):
                found = simulator.judge(_drawn(int(seed)), precision)
                said = f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
                assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
                # A few are a step off behind a slope; joined, half of them were, by up to 250.
                assert found.steps.largest <= 1, said
                assert found.steps.differing <= found.steps.elements / 10, said
                judged += 1
    assert judged
