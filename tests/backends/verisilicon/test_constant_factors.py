"""Products of matrices of which one side is a constant, matrix by matrix."""

from __future__ import annotations

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome
from dovetail.testing.wild.growth import Growth

from .conftest import drawn_input, kept_judge

pytestmark = pytest.mark.sdk

_CASES = 12
_FEW = 0.003
"""Share of elements that may be a step off: ties of 16 bits."""


def constant_factor(seed: int) -> WildCase:
    """Return a product of up to two axes of matrices, the same for the same seed."""
    growth = Growth(seed)
    draw = growth.draw
    lead = [draw.whole(1, 4) for _ in range(draw.whole(1, 2))]
    rows, inner, columns = (draw.whole(1, 20) for _ in range(3))
    sides = [(*lead, rows, inner), (*lead, inner, columns)]
    held = draw.whole(0, 1)
    value = growth.constant(growth.rng.normal(draw.pick(0.0, 2.0), 0.5, sides[held]))
    given = drawn_input(growth, *sides[1 - held])
    growth.op("MatMul", *((value, given) if held == 0 else (given, value)))
    return growth.case(seed)


def _is_outer(case: WildCase) -> bool:
    """Tell whether a column is multiplied with a constant row of several values."""
    _, factor = case.graph.nodes[0].inputs
    value = case.graph.constants.get(factor)
    return value is not None and value.shape[-2] == 1 < value.shape[-1]


@pytest.mark.parametrize("target", ["vsi:imx8mp", "vsi:s905d3", "vsi:v853"])
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8, Precision.I16], ids=lambda item: item.value)
def test_every_matrix_of_a_constant_is_read(target: str, precision: Precision, vendor: VsiBackend) -> None:
    """Older parts read the first matrices only, along two axes; S905D3 at 16 bits its first values, which is refused.

    A constant of one row beside a column is refused there, too.
    """
    seed, differing, elements = draws.seed_here(), 0, 0
    with kept_judge(target, vendor) as judge:
        for index in np.random.SeedSequence(seed).generate_state(_CASES):
            case = constant_factor(int(index))
            found = judge.judge(case, precision)
            said = f"seed {index}: {found.outcome.value} {found.steps} {found.reason}"
            wide = (target, precision) == ("vsi:s905d3", Precision.I16)
            if wide or (target != "vsi:v853" and _is_outer(case)):
                assert found.outcome is WildOutcome.REFUSED, said
                continue
            assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
            assert found.steps.largest <= 1, said
            differing, elements = differing + found.steps.differing, elements + found.steps.elements
    assert differing <= max(2, _FEW * elements), f"seed {seed}: {differing} of {elements}"
