"""Transpositions of six axes, with more elements than the vendor's kernel counts."""

from __future__ import annotations

import itertools
import math

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.lowering.turning import merged
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import WildOutcome

from .conftest import kept_judge

_CASES, _AXES = 8, 6
_LEAST, _MOST = 66_000, 160_000


def turned(seed: int) -> WildCase:
    """Return a transposition of six axes of more than 65,536 elements."""
    rng = np.random.default_rng(seed)
    sizes: tuple[int, ...] = ()
    while not _LEAST < math.prod(sizes) < _MOST:
        sizes = tuple(int(size) for size in np.exp(rng.uniform(0, np.log(60), _AXES)))
    order = tuple(int(axis) for axis in rng.permutation(_AXES))
    node = Node("turn", "Transpose", ("x",), ("y",), {"perm": order})
    types = {
        "x": TensorType(DType.F32, sizes),
        "y": TensorType(DType.F32, tuple(sizes[axis] for axis in order)),
    }
    graph = Graph("turned", (node,), ("x",), ("y",), types)
    return WildCase(graph, {"x": Range(-1.0, 1.0), "y": Range(-1.0, 1.0)}, seed)


@pytest.mark.sdk
@pytest.mark.parametrize(
    ("target", "precision"),
    [
        ("vsi:v853", Precision.U8),
        ("vsi:v853", Precision.I16),
        ("vsi:a311d", Precision.U8),
        ("vsi:imx8mp", Precision.I8PC),
    ],
)
def test_six_axes_are_turned_right(target: str, precision: Precision, vendor: VsiBackend) -> None:
    with kept_judge(target, vendor) as simulator:
        for seed in np.random.SeedSequence(draws.seed_here()).generate_state(_CASES):
            found = simulator.judge(turned(int(seed)), precision)
            assert found.outcome is WildOutcome.EQUAL, f"seed {seed}: {found.outcome.value} {found.steps}"


def test_merged_axes_are_turned_as_all_are() -> None:
    rng = np.random.default_rng(draws.seed_here())
    for _ in range(300):
        count = int(rng.integers(1, _AXES + 1))
        sizes = [int(size) for size in rng.choice([1, 2, 3, 4], count)]
        order = [int(axis) for axis in rng.permutation(count)]
        values = np.arange(math.prod(sizes)).reshape(sizes)
        fewer, turn = merged(sizes, order)
        assert len(fewer) == len(turn) <= count
        # No two are left that stay beside each other, and none has one element.
        assert all(after != before + 1 for before, after in itertools.pairwise(turn))
        assert 1 not in fewer
        expected = values.transpose(order).ravel()
        np.testing.assert_array_equal(values.reshape(fewer).transpose(turn).ravel(), expected)
