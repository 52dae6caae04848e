"""Sums with constants behind averages and products with constants, which the vendor's compiler computes as one."""

from __future__ import annotations

from random import Random

import draws
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

_CASES = 12
_TINIEST = 1e-5
"""Inputs below: with steps of 2^-41 a shader adds the constants; from where on is not known."""


def _averaged(rng: Random, growth: Growth) -> str:
    """Return a mean or a product with a number for each channel."""
    kind = rng.choice(["row", "plane", "global", "pool", "scaled"])
    if kind == "row":
        shape = (1, rng.randint(1, 6), rng.randint(2, 40))
        data, axes = growth.input(*shape), growth.constant(np.asarray([-1]))
        return growth.op("ReduceMean", data, axes, keepdims=1)
    data = growth.input(1, rng.choice([1, 3, 5]), rng.randint(4, 9), rng.randint(4, 9))
    if kind == "plane":
        return growth.op("ReduceMean", data, growth.constant(np.asarray([2, 3])), keepdims=1)
    if kind == "global":
        return growth.op("GlobalAveragePool", data)
    if kind == "pool":
        return growth.op("AveragePool", data, kernel_shape=(2, 2), strides=(2, 2))
    factor = growth.constant(growth.rng.normal(size=(1, growth.shape(data)[1], 1, 1)))
    return growth.op("Mul", *((data, factor) if rng.random() < 0.5 else (factor, data)))


def _case(seed: int) -> WildCase:
    rng, growth = Random(seed), Growth(seed)
    made = _averaged(rng, growth)
    while max(float(np.abs(growth.values[name][0]).max()) for name in growth.inputs) < _TINIEST:
        seed += 1_000_003
        growth = Growth(seed)
        made = _averaged(rng, growth)
    largest = float(np.abs(growth.values[made][0]).max()) or 1.0
    size = (1, growth.shape(made)[1], *(1,) * (len(growth.shape(made)) - 2)) if rng.random() < 0.6 else (1,)
    term = growth.constant(growth.rng.normal(size=size) * largest * rng.choice([0.01, 0.5]))
    made = growth.op("Add", *((made, term) if rng.random() < 0.5 else (term, made)))
    if rng.random() < 0.3:
        growth.op("LeakyRelu", made)
    return growth.case(seed)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8, Precision.I16])
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:rv1126"])
def test_a_constant_is_added_before_anything_is_rounded(target: str, precision: Precision, vendor: VsiBackend) -> None:
    seed = draws.seed_here()
    with SimulatorJudge(profile_of(target_named(target)), Settings(vendor.folder)) as judge:
        for number in range(_CASES):
            found = judge.judge(_case(seed + number), precision)
            assert found.outcome is WildOutcome.EQUAL, f"seed {seed + number}: {found.steps} {found.reason}"
