"""Products of two tensors, one or both of which are transposed, as attention has them.

The newest parts' compiler would turn a factor of 16 bits in the product's own shader, and read it wrongly.
"""

from __future__ import annotations

from contextlib import suppress

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome
from dovetail.testing.wild.growth import Growth, UnfitError

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_CASES = 6
_NEAR_HALVES = 0.01
"""Share of values of bytes that may be a step off: halves go by the order of operations."""


def _factor(growth: Growth, sizes: tuple[int, int, int], *, turned: bool, computed: bool) -> str:
    """Return planes of rows and columns, which are an input or a sigmoid of one."""
    planes, rows, columns = sizes
    data = growth.input(planes, *((columns, rows) if turned else (rows, columns)))
    made = growth.op("Sigmoid", data) if computed else data
    return growth.op("Transpose", made, perm=(0, 2, 1)) if turned else made


def _product(seed: int) -> WildCase:
    growth = Growth(seed)
    planes, rows, inner, columns = growth.draw.pick(1, 2, 3), *(growth.draw.pick(1, 4, 7, 16, 17) for _ in range(3))
    ways = [(False, True), (True, False), (True, True)]
    first, second = ways[int(growth.rng.integers(len(ways)))]
    one = _factor(growth, (planes, rows, inner), turned=first, computed=bool(growth.rng.integers(2)))
    other = _factor(growth, (planes, inner, columns), turned=second, computed=bool(growth.rng.integers(2)))
    growth.op("MatMul", one, other)
    return growth.case(seed)


def _heads(seed: int) -> WildCase:
    """Return what heads of attention give, from queries and keys whose channels are split over heads."""
    growth = Growth(seed)
    shape = (1, growth.draw.pick(4, 9, 17), growth.draw.pick(1, 2, 4), growth.draw.pick(4, 8, 15))
    queries = growth.op("Transpose", growth.input(*shape), perm=(0, 2, 1, 3))
    keys = growth.op("Transpose", growth.input(*shape), perm=(0, 2, 3, 1))
    growth.op("Softmax", growth.op("MatMul", queries, keys), axis=-1)
    return growth.case(seed)


def _cases() -> list[WildCase]:
    found: list[WildCase] = []
    for index, seed in enumerate(np.random.SeedSequence(draws.seed_here()).generate_state(20 * _CASES)):
        if len(found) < _CASES:
            with suppress(UnfitError):  # A sum of few products may be 0.
                found.append((_heads if index % 3 == 2 else _product)(int(seed)))
    return found


@pytest.mark.parametrize("target", ["vsi:v853", "vsi:t527", "vsi:a311d", "vsi:imx8mp"])
@pytest.mark.parametrize("precision", [Precision.I16, Precision.U8])
def test_transposed_factors(target: str, precision: Precision, vendor: VsiBackend) -> None:
    with kept_judge(target, vendor) as judge:
        for case in _cases():
            found = judge.judge(case, precision)
            said = f"seed {case.seed}: {found.outcome.value} {found.steps} {found.reason}"
            assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
            assert found.steps.largest <= 1, said
            assert found.steps.differing <= 1 + _NEAR_HALVES * found.steps.elements, said
