"""Tables behind the array of a part with a stream processor, and what reads its accumulators: equal on drawn scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome, deploy
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge, target_named

pytestmark = pytest.mark.sdk

_TARGET = "vsi:a733"
_BYTES = (Precision.U8, Precision.I8DFP)
_SCALES = 3


class _Product(NamedTuple):
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    is_read: bool = True
    """A function of bytes reads what the array has."""


_PRODUCTS = {
    "plain": _Product(is_read=False),
    "dilated": _Product(dilations=(2, 2)),
    "two points": _Product(kernel=(1, 2)),
    "two points of channels": _Product(kernel=(4, 3), strides=(3, 4)),
    "four points of channels": _Product(kernel=(4, 4), strides=(3, 3), is_read=False),
    "single channels": _Product(groups=4, is_read=False),
    "single channels, moved": _Product(strides=(3, 3), groups=4),
    "groups": _Product(groups=2, is_read=False),
}


@pytest.fixture(scope="module")
def judge(vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(_TARGET, vendor) as simulator:
        yield simulator


def _convolved(growth: Growth, product: _Product) -> str:
    """Add a convolution of a drawn range."""
    size = float(np.exp2(growth.rng.uniform(-4.0, 3.0)))
    weight = growth.constant(growth.rng.uniform(-size, size, (4, 4 // product.groups, *product.kernel)))
    bias = growth.constant(growth.rng.uniform(-size, size, 4))
    return growth.op(
        "Conv",
        *(drawn_input(growth, 1, 4, 13, 13), weight, bias),
        kernel_shape=product.kernel,
        strides=product.strides,
        dilations=product.dilations,
        group=product.groups,
    )


def _read(growth: Growth, op: str, tensor: str) -> None:
    if op == "gate":
        growth.op("Mul", tensor, growth.op("Sigmoid", tensor))
    else:
        growth.op(op, tensor)


def _joins(case: WildCase, precision: Precision) -> bool:
    _, (deployed,) = deploy(case, profile_of(target_named(_TARGET)), precision)
    first = deployed.program.operators[-1].joins[:1]
    return bool(first) and deployed.program.operators[first[0]].kind == "conv2d"


def _check(case: WildCase, precision: Precision, judge: SimulatorJudge, rare: int = 0) -> None:
    found = judge.judge(case, precision)
    said = f"{precision.value}, seed {case.seed}: {found.outcome.value} {found.steps} {found.reason}"
    assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
    assert found.steps.differing <= rare, said
    assert found.steps.largest <= 1, said


@pytest.mark.parametrize("precision", _BYTES)
@pytest.mark.parametrize("op", ["Gelu", "HardSwish", "Sigmoid", "Softplus", "Tanh", "gate"])
@pytest.mark.parametrize("name", _PRODUCTS)
def test_a_function_of_bytes_reads_the_array_where_no_stream_is_joined(
    name: str, op: str, precision: Precision, judge: SimulatorJudge
) -> None:
    seed = draws.seed_here()
    growth = Growth(seed)
    _read(growth, op, _convolved(growth, _PRODUCTS[name]))
    case = growth.case(seed)
    assert _joins(case, precision) is _PRODUCTS[name].is_read
    # One entry in 5,000 is rounded otherwise.
    _check(case, precision, judge, rare=1)


@pytest.mark.parametrize("op", ["Elu", "Erf", "Gelu", "HardSwish", "Mish", "Sigmoid", "Softplus", "Tanh", "gate"])
@pytest.mark.parametrize("name", [name for name in _PRODUCTS if name != "groups"])
def test_a_function_of_16_bits_has_knots_as_far_as_it_reads(name: str, op: str, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for drawn in range(seed, seed + _SCALES):
        growth = Growth(drawn)
        _read(growth, op, _convolved(growth, _PRODUCTS[name]))
        case = growth.case(drawn)
        assert _joins(case, Precision.I16)
        _check(case, Precision.I16, judge)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8DFP, Precision.I16])
@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize("name", ["plain", "two points", "two points of channels", "dilated"])
def test_what_two_points_make_is_stored_before_it_is_added(
    name: str, op: str, precision: Precision, judge: SimulatorJudge
) -> None:
    seed = draws.seed_here()
    growth = Growth(seed)
    made = _convolved(growth, _PRODUCTS[name])
    growth.op(op, made, drawn_input(growth, *growth.shape(made)))
    case = growth.case(seed)
    assert _joins(case, precision) is (name in ("plain", "dilated"))
    _check(case, precision, judge)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8DFP, Precision.I16])
@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "gate"])
def test_a_function_reads_the_sums_of_an_average(op: str, precision: Precision, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    growth = Growth(seed)
    _read(growth, op, growth.op("AveragePool", drawn_input(growth, 1, 4, 13, 13), kernel_shape=(2, 2)))
    _check(growth.case(seed), precision, judge, rare=0 if precision is Precision.I16 else 1)


@pytest.mark.parametrize("op", ["Gelu", "Reciprocal", "Sigmoid", "Softplus", "Sqrt", "Tanh", "gate"])
def test_a_table_of_16_bits_has_knots_at_steps(op: str, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for drawn in range(seed, seed + _SCALES):
        growth = Growth(drawn)
        high = float(np.exp2(growth.rng.uniform(-6.0, 6.0)))
        low = high / 100.0 if op in ("Reciprocal", "Sqrt") else -high
        name = growth.input(1, 96, 96)
        growth.values[name] = [growth.rng.uniform(low, high, (1, 96, 96)).astype(np.float32) for _ in range(2)]
        _read(growth, op, name)
        _check(growth.case(drawn), Precision.I16, judge)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8DFP, Precision.I16])
def test_shares_are_sums_of_sixteen_after_sixteen(precision: Precision, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for drawn in range(seed, seed + _SCALES):
        growth = Growth(drawn)
        size, reach = int(growth.rng.integers(2, 130)), float(np.exp2(growth.rng.uniform(-9.0, 3.0)))
        name = growth.input(1, 64, size)
        growth.values[name] = [growth.rng.uniform(-reach, reach, (1, 64, size)).astype(np.float32) for _ in range(2)]
        growth.op("Softmax", name, axis=-1)
        _check(growth.case(drawn), precision, judge)
