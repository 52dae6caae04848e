"""Sums and differences in one graph, whose first operands often have the same zero point."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth, UnfitError

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_CASES = 12
_LEVELS = 255


def _operand(growth: Growth, shape: tuple[int, ...]) -> str:
    """Return a tensor that the graph takes, holds, or computes by one operator."""
    kind = growth.draw.pick("taken", "held", "Relu", "Sigmoid", "Tanh", "Conv", "clamped", "Mul")
    data = growth.input(*shape)
    growth.values[data] = [growth.rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(2)]
    if kind == "held":
        return growth.constant(growth.rng.uniform(-1, 1, shape))
    if kind in ("Conv", "clamped"):
        weights = growth.constant(growth.rng.normal(0, 0.4, (shape[1], shape[1], 1, 1)))
        made = growth.op("Conv", data, weights, kernel_shape=(1, 1))
        return growth.op("Relu", made) if kind == "clamped" else made
    if kind == "Mul":
        return growth.op("Mul", data, growth.constant(growth.rng.uniform(0.5, 1, shape)))
    return data if kind == "taken" else growth.op(kind, data)


def mixed(seed: int) -> WildCase:
    """Return two to five sums and differences of operands, of which zero points are one of two where any will do."""
    growth = Growth(seed)
    shape = (1, growth.draw.pick(1, 3, 8), growth.draw.pick(1, 4, 7), growth.draw.pick(1, 5, 16))
    pool = [_operand(growth, shape) for _ in range(4)]
    for _ in range(growth.draw.pick(2, 3, 5)):
        first, second = (growth.draw.pick(*pool) for _ in range(2))
        pool.append(growth.op(growth.draw.pick("Add", "Sub"), first, second))
    case = growth.case(seed)
    free = [name for node in case.graph.nodes if node.op in ("Add", "Sub", "Mul") for name in node.outputs]
    ranges = dict(case.ranges)
    for name in [*free, *case.graph.inputs]:
        width, zero = ranges[name].high - ranges[name].low, growth.draw.pick(100, 131)
        ranges[name] = Range(-zero * width / _LEVELS, (_LEVELS - zero) * width / _LEVELS)
    return WildCase(case.graph, ranges, seed)


def _cases() -> Iterator[tuple[int, WildCase]]:
    """Yield cases with their seeds, new ones in every run."""
    for seed in np.random.SeedSequence(draws.seed_here()).generate_state(_CASES):
        with suppress(UnfitError):
            yield int(seed), mixed(int(seed))


@pytest.mark.parametrize("target", ["vsi:v853", "vsi:t527"])
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8PC])
def test_sums_and_differences_of_one_graph_are_told_apart(
    target: str, precision: Precision, vendor: VsiBackend
) -> None:
    with kept_judge(target, vendor) as simulator:
        for seed, case in _cases():
            found = simulator.judge(case, precision)
            said = f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.steps.elements, said
            assert found.steps.largest <= 1, said
