"""LayerNormalization of rows whose values are all but the same: their variance in float32 may be less than 0."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import target_named

pytestmark = pytest.mark.sdk

_CASES = 6


def alike_rows(seed: int) -> WildCase:
    """Return rows of values that are a few steps apart, far from 0."""
    growth = Growth(seed)
    shape = (1, 8, growth.draw.pick(5, 7, 16, 33))
    data = growth.input(*shape)
    level = growth.rng.uniform(2.0, 3.9)
    growth.values[data] = [growth.rng.uniform(level, level + 0.001, shape).astype(np.float32) for _ in range(2)]
    gain, shift = growth.rng.uniform(0.5, 2.0, shape[-1]), growth.rng.normal(size=shape[-1])
    growth.op("LayerNormalization", data, growth.constant(gain), growth.constant(shift), axis=-1)
    return growth.case(seed)


@pytest.mark.parametrize("target", ["vsi:rv1126", "vsi:v853"])
def test_rows_of_like_values_are_equal(target: str, vendor: VsiBackend) -> None:
    seeds = [int(seed) for seed in np.random.SeedSequence().generate_state(_CASES)]
    with SimulatorJudge(profile_of(target_named(target)), Settings(vendor.folder)) as simulator:
        for seed in seeds:
            found = simulator.judge(alike_rows(seed), Precision.I16)
            said = f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome is WildOutcome.EQUAL, said
