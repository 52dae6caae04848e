"""Sums of what lies within another tensor, is pooled or is only seen with another shape, and the blocks made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import draws
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge

pytestmark = pytest.mark.sdk

_PRECISIONS = (Precision.U8, Precision.I8)
_HALF = 4
"""Channels of every operand."""
_TWICE = {"kernel_shape": (2, 2), "strides": (2, 2)}


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:t527", "vsi:a733", "vsi:a311d", "vsi:imx8mp"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _convolution(growth: Growth, data: str, made: int = _HALF, slope: float | None = None) -> str:
    channels = growth.shape(data)[1]
    weight = growth.constant(growth.rng.normal(size=(made, channels, 3, 3)) / (3.0 * channels**0.5))
    bias = growth.constant(growth.rng.normal(size=made) / 4.0)
    found = growth.op("Conv", data, weight, bias, pads=(1, 1, 1, 1), kernel_shape=(3, 3))
    return found if slope is None else growth.op("LeakyRelu", found, alpha=slope)


def _cut(growth: Growth, data: str, begin: int, axis: int, size: int) -> str:
    return growth.op("Slice", data, *(growth.constant([value]) for value in (begin, begin + size, axis)))


def _operand(growth: Growth, kind: str) -> str:
    """Return a tensor of 4 channels of 6 x 8, made in one of the ways that the compiler sees through."""

    def made(*shape: int, channels: int = _HALF, slope: float | None = None) -> str:
        return _convolution(growth, drawn_input(growth, 1, _HALF, *shape), channels, slope)

    ways: Mapping[str, Callable[[], str]] = {
        "size": lambda: growth.op("Abs", drawn_input(growth, 1, _HALF, 6, 8)),
        "convolution": lambda: made(6, 8),
        "ReLU": lambda: growth.op("Relu", made(6, 8)),
        "slope": lambda: made(6, 8, slope=0.1),
        "part": lambda: _cut(growth, made(6, 8, channels=2 * _HALF), _HALF, 1, _HALF),
        "part of slopes": lambda: _cut(growth, made(6, 8, channels=2 * _HALF, slope=0.1), 0, 1, _HALF),
        "part of an input": lambda: _cut(growth, drawn_input(growth, 1, 2 * _HALF, 6, 8), _HALF, 1, _HALF),
        "columns": lambda: _cut(growth, made(6, 10), 1, 3, 8),
        "largest": lambda: growth.op("MaxPool", made(12, 16), **_TWICE),
        "average": lambda: growth.op("AveragePool", made(12, 16), **_TWICE),
        "ReLU of the largest": lambda: growth.op("Relu", growth.op("MaxPool", made(12, 16), **_TWICE)),
        "shape": lambda: growth.op("Reshape", made(8, 6), growth.constant([1, _HALF, 6, 8])),
        "shape of a ReLU": lambda: growth.op(
            "Reshape", growth.op("Relu", made(8, 6)), growth.constant([1, _HALF, 6, 8])
        ),
    }
    return ways[kind]()


_WAYS = (
    *("size", "convolution", "ReLU", "slope", "part", "part of slopes", "part of an input", "columns", "largest"),
    *("average", "ReLU of the largest", "shape", "shape of a ReLU"),
)


def _sum(seed: int, first: str, second: str) -> WildCase:
    growth = Growth(seed)
    growth.op("Abs", growth.op("Add", _operand(growth, first), _operand(growth, second)))
    return growth.case(seed)


@pytest.mark.parametrize("first", ["size", "slope", "part", "shape", "largest"])
def test_sums_of_parts_are_what_the_part_makes_of_them(first: str, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    told: list[str] = []
    for second in _WAYS:
        for precision in _PRECISIONS:
            found = judge.judge(_sum(seed, first, second), precision)
            if found.outcome is not WildOutcome.EQUAL:
                told.append(f"{second}, {precision.value}, seed {seed}: {found.steps} {found.reason}")
    assert not told, "\n".join(told)


def _activated(growth: Growth, data: str, made: int, function: str) -> str:
    """Return a convolution with weights that are sometimes larger or smaller, and its function."""
    channels, gain = growth.shape(data)[1], growth.draw.pick(0.5, 1.0, 2.0)
    weight = growth.constant(growth.rng.normal(size=(made, channels, 3, 3)) * gain / (3.0 * channels**0.5))
    bias = growth.constant(growth.rng.normal(size=made) / 4.0)
    found = growth.op("Conv", data, weight, bias, pads=(1, 1, 1, 1), kernel_shape=(3, 3))
    if function == "SiLU":
        return growth.op("Mul", found, growth.op("Sigmoid", found))
    attributes = {"alpha": 0.1} if function == "LeakyRelu" else {}
    return found if function == "none" else growth.op(function, found, **attributes)


def _block(seed: int, function: str) -> WildCase:
    """Return a block of detectors: half of the channels go through residuals, and all that came by are joined."""
    growth = Growth(seed)
    halves = growth.constant([_HALF, _HALF])
    whole = _activated(growth, drawn_input(growth, 1, 3, 10, 12), 2 * _HALF, function)
    passed = list(growth.split("Split", (whole, halves), 2, axis=1))
    for _ in range(growth.draw.pick(1, 2)):
        inner = _activated(growth, _activated(growth, passed[-1], _HALF, function), _HALF, function)
        passed.append(growth.op("Add", *((passed[-1], inner) if growth.draw.chance(0.7) else (inner, passed[-1]))))
    joined = growth.op("Concat", *passed, axis=1)
    if growth.draw.chance(0.7):
        _activated(growth, joined, 2 * _HALF, function)
    case, alike = growth.case(seed), (whole, joined, *passed)
    if growth.draw.chance(0.5):
        # With one scale for all, the Concat copies nothing: what it joins lies within it from the beginning.
        shared = Range(min(case.ranges[name].low for name in alike), max(case.ranges[name].high for name in alike))
        case = replace(case, ranges={**case.ranges, **dict.fromkeys(alike, shared)})
    return case


@pytest.mark.parametrize("function", ["none", "Relu", "LeakyRelu", "SiLU", "HardSwish"])
def test_blocks_with_a_residual_of_half_of_the_channels_are_equal(function: str, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for precision in _PRECISIONS:
        found = judge.judge(_block(seed, function), precision)
        assert found.outcome is WildOutcome.EQUAL, f"{precision.value}, seed {seed}: {found.steps} {found.reason}"
