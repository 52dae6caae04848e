"""Remainders of bytes, which depend on the last bit of what is divided."""

from __future__ import annotations

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_SHAPE = (1, 8, 32, 32)


def _remainder(seed: int) -> WildCase:
    """Return a remainder of what is up to a thousand times as large as what it is divided by."""
    rng = np.random.default_rng(seed)
    large, small = float(np.exp(rng.uniform(0.0, 5.0))), float(np.exp(rng.uniform(-3.0, 0.0)))
    share = max(float(rng.uniform(-0.5, 1.0)), 0.0)
    kinds = {name: TensorType(DType.F32, _SHAPE) for name in ("x", "by", "y")}
    ranges = {"x": Range(-large * share, large), "by": Range(0.0, small), "y": Range(-small * bool(share), small)}
    node = Node("n", "Mod", ("x", "by"), ("y",), {"fmod": 1})
    return WildCase(Graph("remainder", (node,), ("x", "by"), ("y",), kinds, {}), ranges, seed)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8], ids=lambda found: found.value)
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d"])
def test_remainders_of_bytes(target: str, precision: Precision, vendor: VsiBackend) -> None:
    seed = draws.seed_here()
    with kept_judge(target, vendor) as judge:
        for drawn in range(seed, seed + 3):
            found = judge.judge(_remainder(drawn), precision)
            assert found.outcome is WildOutcome.EQUAL, f"seed {drawn}: {found.steps} {found.reason}"
