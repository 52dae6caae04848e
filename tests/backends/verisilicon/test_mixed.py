"""Operators at 8 and at 16 bits beside each other, as a search places them, on random scales and values.

A733 is left out: it is off by a step in some of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_RARE = 0.01
_SHAPE = (1, 8, 12, 12)
_BYTES = (Precision.U8, Precision.I8, Precision.I8PC, Precision.I8DFP)


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _input(growth: Growth) -> str:
    name, most = growth.input(*_SHAPE), growth.rng.uniform(0.3, 6.0)
    growth.values[name] = [growth.rng.uniform(-most, most, _SHAPE).astype(np.float32) for _ in range(2)]
    return name


def _raised(growth: Growth, seed: int, *ops: str) -> WildCase:
    case = growth.case(seed)
    return replace(case, raised=frozenset(node.name for node in case.graph.nodes if node.op in ops))


def _bytes_on_the_way(seed: int) -> WildCase:
    growth = Growth(seed)
    made = growth.op("Add", _input(growth), _input(growth))
    for shape in ([1, 8, 144], [8, 144])[: 1 + seed % 2]:
        made = growth.op("Reshape", made, growth.constant(np.array(shape)))
    growth.op("Abs", made)
    return _raised(growth, seed, "Add", "Abs")


def _gated(seed: int) -> WildCase:
    growth = Growth(seed)
    weight = growth.constant(growth.rng.normal(size=(8, 8, 1, 1)) * 0.4)
    made = growth.op("Conv", _input(growth), weight)
    made = growth.op("Mul", made, growth.op("Sigmoid", made))
    growth.op("Add", made, made)
    return _raised(growth, seed, "Add")


def _copied_on_the_way(seed: int) -> WildCase:
    growth, shape = Growth(seed), ((8, 144), (1, 1), (3, 7))[seed % 3]
    names = [growth.input(*shape) for _ in range(2)]
    for name in names:
        growth.values[name] = [growth.rng.uniform(-3.0, 3.0, shape).astype(np.float32) for _ in range(2)]
    growth.op("Abs", growth.op("Flatten", growth.op("Add", *names)))
    return _raised(growth, seed, "Add", "Abs")


def _widened(seed: int, kind: str, *, seen: bool) -> WildCase:
    growth, window = Growth(seed), {"pads": (0, 0, 0, 0), "strides": (1, 1), "dilations": (1, 1)}
    made = _input(growth)
    if kind == "layer":
        weight = growth.constant(growth.rng.normal(size=(12, 8 * 144)) * 0.1)
        made = growth.op("Gemm", growth.op("Flatten", made), weight, transB=1)
    elif kind == "average":
        made = growth.op("AveragePool", made, kernel_shape=(2, 2), strides=(2, 2))
    else:
        group = 8 if kind == "depthwise" else 1
        weight = growth.constant(growth.rng.normal(size=(8, 8 // group, 3, 3)) * 0.4)
        made = growth.op("Conv", made, weight, group=group, **window)
    if kind == "clamped":
        made = growth.op("Relu", made)
    if seen:
        made = growth.op("Reshape", made, growth.constant(np.array([1, -1])))
    growth.op("Sigmoid", made)
    return _raised(growth, seed, "Sigmoid")


def _forked(seed: int, *, ahead: bool) -> WildCase:
    """Return bytes that two read: at 16 and at 8 bits, or both at 16 bits."""
    growth = Growth(seed)
    made = growth.op("Relu", _input(growth))
    ops = ("Abs", "Tanh") if ahead else ("Abs", "Neg")
    for op in ops:
        growth.op(op, made)
    return _raised(growth, seed, "Abs", "Neg")


def _joined(seed: int, op: str) -> WildCase:
    """Return bytes that become a part of 16 bits, or are seen with another shape, or cut into groups."""
    growth = Growth(seed)
    made = growth.op("Relu", _input(growth))
    if op == "Concat":
        growth.op(op, made, _input(growth), axis=1)
    elif op.startswith("Conv"):
        group = int(op.removeprefix("Conv"))
        window = {"pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1), "group": group}
        growth.op("Conv", made, growth.constant(growth.rng.normal(size=(8, 8 // group, 3, 3)) * 0.4), **window)
    else:
        growth.op(op, made, growth.constant(np.array([1, 8, 144])))
    return _raised(growth, seed, "Concat", "Conv", "Reshape")


def _turned(seed: int, first: str, behind: str) -> WildCase:
    """Return bytes that are turned, and clamped or cut, between two operators of 16 bits."""
    growth = Growth(seed)
    made = _input(growth)
    if first == "Conv":
        made = growth.op("Conv", made, growth.constant(growth.rng.normal(size=(8, 8, 1, 1)) * 0.4))
    else:
        made = growth.op(first, made)
    turns: dict[str, dict[str, object]] = {"Transpose": {"perm": (0, 1, 3, 2)}, "DepthToSpace": {"blocksize": 2}}
    op = str(growth.rng.choice([*turns]))
    made = growth.op(op, made, **turns[op])
    if behind == "Slice":
        made = growth.op("Slice", made, *(growth.constant(np.array([value])) for value in (1, 5, 2)))
    elif behind:
        made = growth.op(behind, made)
    growth.op("Sigmoid", made)
    return _raised(growth, seed, first, "Sigmoid")


def _check(case: WildCase, judge: SimulatorJudge, rare: float = 0.0) -> None:
    for precision in _BYTES:
        found = judge.judge(case, precision)
        said = f"{precision.value}, seed {case.seed}: {found.outcome.value} {found.steps} {found.reason}"
        assert found.outcome in (WildOutcome.EQUAL, WildOutcome.REFUSED, WildOutcome.DIFFERS), said
        # The last bit of some sums and products is not known; bytes that are skipped are off by tens of steps.
        assert found.steps.largest <= 1 or rare, said
        assert found.steps.differing <= rare * max(1, sum(found.steps.counts)), said


@pytest.mark.parametrize("again", range(2))
def test_bytes_between_wide_layers_are_rounded_to_bytes(again: int, judge: SimulatorJudge) -> None:
    """They are only seen with another shape: the compiler would join the conversions."""
    _check(_bytes_on_the_way(draws.seed_here()), judge)


@pytest.mark.parametrize("behind", ["", "Slice", "Relu", "LeakyRelu"])
@pytest.mark.parametrize("first", ["Conv", "Tanh"])
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:a733"])
def test_bytes_turned_between_wide_layers_are_rounded_to_bytes(
    target: str, first: str, behind: str, vendor: VsiBackend
) -> None:
    """A733's compiler would join the conversions, or the convolution with what is behind the turn.

    Its convolutions of 16 bits are off by a step in some, which now and then is another byte.
    """
    rare = _RARE if target == "vsi:a733" and first == "Conv" else 0.0
    with kept_judge(target, vendor) as simulator:
        _check(_turned(draws.seed_here(), first, behind), simulator, rare)


@pytest.mark.parametrize("again", range(2))
def test_a_gated_layer_before_a_wide_one_is_equal(again: int, judge: SimulatorJudge) -> None:
    """A product of signed bytes that is converted is computed otherwise than one that is stored."""
    _check(_gated(draws.seed_here()), judge)


@pytest.mark.parametrize("again", range(3))
def test_bytes_copied_between_wide_layers_are_rounded_to_bytes(again: int, judge: SimulatorJudge) -> None:
    """They are only copied, or are a single one that a shader converts."""
    _check(_copied_on_the_way(draws.seed_here()), judge)


@pytest.mark.parametrize("ahead", [False, True])
def test_bytes_with_two_readers_are_equal(ahead: bool, judge: SimulatorJudge) -> None:
    """A shader makes one conversion of two only where nothing else reads what is between."""
    _check(_forked(draws.seed_here(), ahead=ahead), judge)


@pytest.mark.parametrize("op", ["Concat", "Reshape", "Conv1", "Conv2", "Conv4", "Conv8"])
def test_bytes_that_become_part_of_a_wide_tensor_are_equal(op: str, judge: SimulatorJudge) -> None:
    _check(_joined(draws.seed_here(), op), judge)


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("kind", ["plain", "depthwise", "clamped", "layer", "average"])
def test_a_product_before_a_wide_function_is_rounded_to_bytes(kind: str, seen: bool, judge: SimulatorJudge) -> None:
    """In fixed point the array would store 16 bits at once."""
    _check(_widened(draws.seed_here(), kind, seen=seen), judge)
