"""Tensors that several sums read: the array computes a sum of two that lie side by side, and each lies so once."""

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

_GRAPHS = 8
_TARGETS = {
    "vsi:a311d": Precision.U8,
    "vsi:rv1126": Precision.U8,
    "vsi:imx8mp": Precision.U8,
    "vsi:v853": Precision.I8PC,
    "vsi:a733": Precision.I8PC,
}
"""Parts with bytes that a search starts from: of signed ones on a part that converts them 5 of 100 graphs differ."""
_OUTER, _HEIGHT, _WIDTH = 8, 7, 9


def _convolution(growth: Growth, tensor: str) -> str:
    inner, side = growth.shape(tensor)[1], growth.draw.pick(1, 3)
    weight = growth.constant(growth.rng.normal(size=(_OUTER, inner, side, side)) / (side * np.sqrt(inner)))
    bias = growth.constant(growth.rng.normal(size=_OUTER) * 0.2)
    return growth.op("Conv", tensor, weight, bias, pads=(side // 2,) * 4)


def _operand(growth: Growth, before: list[str], used: set[str]) -> str:
    """Add a convolution of the input or of the first operand, or an operand clamped or with another shape."""
    kind = growth.draw.pick("behind", "beside", "Relu", "Reshape")
    source = growth.draw.pick(*before) if kind == "Reshape" else before[0]
    if kind in ("behind", "beside") or f"{kind} {source}" in used:
        return _convolution(growth, before[0] if kind == "behind" else growth.inputs[0])
    used.add(f"{kind} {source}")
    if kind == "Relu":
        return growth.op("Relu", source)
    return growth.op("Reshape", source, growth.constant([1, _OUTER, _WIDTH, _HEIGHT]))


def shared_operands(seed: int) -> WildCase:
    """Return up to three sums or differences of a few tensors, no two of the same ones."""
    growth, used = Growth(seed), set[str]()
    draw = growth.draw
    operands = [_convolution(growth, growth.input(1, draw.pick(3, _OUTER), _HEIGHT, _WIDTH))]
    for _ in range(draw.pick(2, 3)):
        operands.append(_operand(growth, operands, used))
    done = set[frozenset[str]]()
    for _ in range(draw.pick(2, 3)):
        first = draw.pick(*operands)
        alike = (name for name in operands if name != first and growth.shape(name) == growth.shape(first))
        others = [name for name in alike if frozenset((first, name)) not in done]
        if others:
            pair = (first, draw.pick(*others))
            done.add(frozenset(pair))
            operands.append(growth.op(draw.pick("Add", "Add", "Sub"), *pair))
    return growth.case(seed)


@pytest.mark.parametrize("name", _TARGETS)
def test_sums_that_share_operands_are_equal(name: str, vendor: VsiBackend) -> None:
    """New seeds each time."""
    with kept_judge(name, vendor) as judge:
        for seed in np.random.SeedSequence(draws.seed_here()).generate_state(_GRAPHS):
            found = judge.judge(shared_operands(int(seed)), _TARGETS[name])
            said = f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome is WildOutcome.EQUAL, said
