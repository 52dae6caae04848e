"""LayerNormalization where its variance is next to nothing: a root of less than 0, and what epsilon is added to."""

from __future__ import annotations

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import kept_judge

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
    seeds = [int(seed) for seed in np.random.SeedSequence(draws.seed_here()).generate_state(_CASES)]
    with kept_judge(target, vendor) as simulator:
        for seed in seeds:
            found = simulator.judge(alike_rows(seed), Precision.I16)
            said = f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome is WildOutcome.EQUAL, said


def small_rows(seed: int) -> WildCase:
    """Return rows whose variance is less than epsilon."""
    growth = Growth(seed)
    data = growth.input(1, 8, 16)
    growth.values[data] = [growth.rng.uniform(-0.003, 0.003, (1, 8, 16)).astype(np.float32) for _ in range(2)]
    gain, shift = growth.rng.uniform(0.5, 2.0, 16), growth.rng.normal(size=16)
    growth.op("LayerNormalization", data, growth.constant(gain), growth.constant(shift), axis=-1)
    return growth.case(seed)


@pytest.mark.parametrize(("target", "steps"), [("vsi:v853", 0), ("vsi:imx8mp", 0), ("vsi:a733", 1)])
def test_epsilon_is_added_to_steps_but_by_the_stream_processor(target: str, steps: int, vendor: VsiBackend) -> None:
    seed = draws.seed_here()
    with kept_judge(target, vendor) as simulator:
        found = simulator.judge(small_rows(seed), Precision.U8)
    assert found.steps.elements
    assert found.steps.largest <= steps, f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
