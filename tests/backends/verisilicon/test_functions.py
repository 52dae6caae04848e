"""Functions that shaders compute, or that the stream processor has tables of, on all values under drawn scales."""

from __future__ import annotations

from collections.abc import Iterator

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome

from .conftest import kept_judge

pytestmark = [pytest.mark.sdk, pytest.mark.slow]

_SHAPE = (1, 8, 16, 16)
_DRAWN = 3
_LOOSE = {"Acosh": 2e-3, "Atanh": 2e-3}
"""Share of values of 16 bits that may differ by a step, where neighbours are one apart; 2e-4 of all are."""
_DOMAINS = {"Acosh": (1.0, 1e3), "Atanh": (0.3, 0.99), "Cos": (0.3, 3e4), "Sin": (0.3, 3e4), "Tan": (0.3, 3e4)}


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:rk1808", "vsi:a733"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _function(op: str, seed: int) -> WildCase:
    rng = np.random.default_rng(seed)
    size = float(np.exp(rng.uniform(*np.log(_DOMAINS[op]))))
    low = 0.0 if op == "Acosh" else -size * float(rng.uniform(0.0, 0.9))
    with np.errstate(all="ignore"):
        made = {"Acosh": np.arccosh, "Atanh": np.arctanh}.get(op, getattr(np, op.lower(), None))
        assert made is not None
        found = np.clip(np.nan_to_num(made(np.linspace(low, size, 999))), -50.0, 50.0)
    ranges = {"x": Range(low, size), "y": Range(min(float(found.min()), 0.0), max(float(found.max()), 0.1))}
    kinds = {name: TensorType(DType.F32, _SHAPE) for name in ("x", "y")}
    return WildCase(Graph("function", (Node("n", op, ("x",), ("y",)),), ("x",), ("y",), kinds, {}), ranges, seed)


@pytest.mark.parametrize(
    ("op", "precision"),
    # What is no number in a table of bytes, as of Acosh below 1, ends the simulator of the stream processor.
    [
        *((op, precision) for op in ("Cos", "Sin", "Tan") for precision in (Precision.U8, Precision.I8)),
        *((op, Precision.I16) for op in ("Acosh", "Atanh", "Cos", "Sin")),
    ],
    ids=lambda found: getattr(found, "value", found),
)
def test_functions_under_drawn_scales(op: str, precision: Precision, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for drawn in range(seed, seed + _DRAWN):
        found = judge.judge(_function(op, drawn), precision)
        if op in _LOOSE and precision is Precision.I16:
            assert found.steps.differing <= _LOOSE[op] * found.steps.elements, f"seed {drawn}: {found.steps}"
            assert found.steps.largest <= 1, f"seed {drawn}: {found.steps}"
        else:
            assert found.outcome is WildOutcome.EQUAL, f"seed {drawn}: {found.steps} {found.reason}"
