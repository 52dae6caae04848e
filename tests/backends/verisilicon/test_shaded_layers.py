"""Layers of 16 bits on a part whose array takes bytes alone: a shader adds them up in float32."""

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

_DRAWN = 12


def _layer(seed: int, *, biased: bool) -> WildCase:
    """Return rows times a constant weight, with sums of some 30 bits."""
    rng = np.random.default_rng(seed)
    rows, depth, channels = (int(size) for size in rng.integers((1, 2, 1), (65, 200, 65)))
    constants = {"weight": rng.uniform(-1.0, 1.0, (depth, channels)).astype(np.float32)}
    if biased:
        constants["bias"] = rng.uniform(-1.0, 1.0, channels).astype(np.float32)
    end = float(1.2 * np.sqrt(depth))
    ranges = {"x": Range(-0.999, 0.999), "weight": Range(-1.0, 1.0), "bias": Range(-1.0, 1.0), "y": Range(-end, end)}
    kinds = {"x": TensorType(DType.F32, (rows, depth)), "y": TensorType(DType.F32, (rows, channels))}
    kinds |= {name: TensorType(DType.F32, value.shape) for name, value in constants.items()}
    node = Node("n", "Gemm" if biased else "MatMul", ("x", *constants), ("y",))
    used = {name: ranges[name] for name in kinds}
    return WildCase(Graph("layer", (node,), ("x",), ("y",), kinds, constants), used, seed)


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_layers_that_a_shader_adds_up(biased: bool, vendor: VsiBackend) -> None:
    seed = draws.seed_here()
    with kept_judge("vsi:s905d3", vendor) as judge:
        for drawn in range(seed, seed + _DRAWN):
            found = judge.judge(_layer(drawn, biased=biased), Precision.I16)
            assert found.outcome is WildOutcome.EQUAL, f"seed {drawn}: {found.steps} {found.reason}"
