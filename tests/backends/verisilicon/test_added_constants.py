"""Sums with constants behind averages and products with constants, which the vendor's compiler computes as one."""

from __future__ import annotations

from random import Random

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth

from .conftest import expect_equal

pytestmark = pytest.mark.sdk

_CASES = 12


def _averaged(rng: Random, growth: Growth) -> str:
    """Return a mean or a product with a number for each channel."""
    kind = rng.choice(["row", "plane", "global", "pool", "scaled"])
    if kind == "row":
        shape = (1, rng.randint(1, 6), rng.randint(2, 60))
        data, axes = growth.input(*shape), growth.constant(np.asarray([-1]))
        return growth.op("ReduceMean", data, axes, keepdims=1)
    data = growth.input(1, rng.choice([1, 3, 5]), rng.randint(4, 24), rng.randint(4, 24))
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
    expect_equal(target, precision, vendor, {f"seed {number}": _case(number) for number in range(seed, seed + _CASES)})
