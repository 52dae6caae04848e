"""Operators whose kernels end somewhere, over ranges from 1e-6 to 1e6: responses, products, sums, extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

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

_CASES = 6
_FEW = 0.01
"""Share of elements that may be a step off: ties, as of what A733 negates behind a convolution (3 in 1,000)."""
_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8DFP, Precision.I16)


def _case(op: str, shape: tuple[int, ...], span: Range, made: Range, **attributes: object) -> WildCase:
    kinds = {"x": TensorType(DType.F32, shape), "y": TensorType(DType.F32, shape)}
    graph = Graph(op, (Node("n", op, ("x",), ("y",), attributes),), ("x",), ("y",), kinds, {})
    return WildCase(graph, {"x": span, "y": made}, 0)


def _response(rng: np.random.Generator) -> WildCase:
    most, alpha = 10.0 ** rng.uniform(-4, 5.5), 10.0 ** rng.uniform(-4, -0.5)
    size, beta = int(rng.choice((1, 3, 5))), float(rng.choice((0.5, 0.75, 1.0)))
    at = np.linspace(0.0, most, 999)
    made = (at * (1.0 + alpha / size * at * at) ** -beta).max()
    least = rng.choice((0.0, -0.4))
    shape = (int(rng.choice((1, 2))), int(rng.integers(3, 20)), int(rng.integers(2, 9)), int(rng.integers(2, 9)))
    spans = Range(least * most, most), Range(least * made, float(made))
    return _case("LRN", shape, *spans, alpha=alpha, beta=beta, bias=1.0, size=size)


def _reduced(op: str) -> Callable[[np.random.Generator], WildCase]:
    def draw(rng: np.random.Generator) -> WildCase:
        most = 10.0 ** rng.uniform(-5, 5) if op == "ReduceSum" else 10.0 ** rng.uniform(-3, 0)
        shape = (int(rng.integers(1, 4)), int(rng.integers(2, 9)), int(rng.integers(2, 9)), int(rng.integers(2, 5)))
        axes = (1, 3) if op == "ReduceSum" else (3,)
        count = math.prod(shape[axis] for axis in axes)
        made = most * count if op == "ReduceSum" else most**count
        low = 0.1 if op == "ReduceProd" else -1.0
        span, made_span = Range(low * most, most), Range(low * made if op == "ReduceSum" else 0.0, made)
        case = _case(op, shape, span, made_span, keepdims=1)
        kept = tuple(1 if axis in axes else side for axis, side in enumerate(shape))
        types = {**case.graph.types, "y": TensorType(DType.F32, kept), "a": TensorType(DType.I64, (len(axes),))}
        node = replace(case.graph.nodes[0], inputs=("x", "a"))
        graph = replace(case.graph, nodes=(node,), types=types, constants={"a": np.array(axes)})
        return replace(case, graph=graph)

    return draw


def _negated(rng: np.random.Generator) -> WildCase:
    most, channels = 10.0 ** rng.uniform(-6, 6), int(rng.integers(2, 9))
    shape = (1, channels, int(rng.integers(3, 9)), int(rng.integers(3, 9)))
    weights = rng.normal(0, 0.4, (channels, channels, 1, 1)).astype(np.float32)
    kinds = {name: TensorType(DType.F32, shape) for name in "xcy"}
    nodes = (
        Node("c", "Conv", ("x", "w"), ("c",), {"kernel_shape": (1, 1)}),
        Node("n", "Neg", ("c",), ("y",)),
    )
    graph = Graph(
        "negated", nodes, ("x",), ("y",), {**kinds, "w": TensorType(DType.F32, weights.shape)}, {"w": weights}
    )
    span = Range(-2.0 * most, 2.0 * most)
    return WildCase(graph, {"x": Range(-most, most), "c": span, "y": span}, 0)


def _itself(rng: np.random.Generator) -> WildCase:
    shape, most = (1, 3, int(rng.integers(2, 9)), int(rng.integers(2, 9))), 10.0 ** rng.uniform(-6, 5)
    flat = (1, math.prod(shape))
    kinds = {"x": TensorType(DType.F32, shape), "r": TensorType(DType.F32, flat), "y": TensorType(DType.F32, flat)}
    nodes = (
        Node("r", "Flatten", ("x",), ("r",)),
        Node("n", str(rng.choice(("Min", "Max"))), ("r", "r"), ("y",)),
    )
    span = Range(-most, 0.7 * most)
    return WildCase(Graph("itself", nodes, ("x",), ("y",), kinds, {}), dict.fromkeys("xry", span), 0)


def _extreme(rng: np.random.Generator) -> WildCase:
    shape, most = (1, 3, int(rng.integers(2, 9)), int(rng.integers(2, 9))), 10.0 ** rng.uniform(-4, 2)
    far = most * 2.0 ** rng.uniform(0, 26)
    kinds = {name: TensorType(DType.F32, shape) for name in "xzy"}
    graph = Graph(
        "extreme", (Node("n", str(rng.choice(("Min", "Max"))), ("x", "z"), ("y",)),), ("x", "z"), ("y",), kinds
    )
    span = Range(-0.3 * most, most)
    return WildCase(graph, {"x": span, "z": Range(float(rng.choice((-0.5, 0.2))) * far, far), "y": span}, 0)


_DRAWN = {
    "extreme": _extreme,
    "response": _response,
    "sum": _reduced("ReduceSum"),
    "product": _reduced("ReduceProd"),
    "negated": _negated,
    "itself": _itself,
}


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp", "vsi:a733"])
@pytest.mark.parametrize("kind", _DRAWN)
def test_ranges_of_any_size_are_computed_as_the_simulator_does(kind: str, target: str, vendor: VsiBackend) -> None:
    seed = draws.seed_here()
    rng, differing, elements = np.random.default_rng(seed), 0, 0
    with kept_judge(target, vendor) as judge:
        for index in range(_CASES):
            case, precision = replace(_DRAWN[kind](rng), seed=seed + index), _PRECISIONS[index % len(_PRECISIONS)]
            found = judge.judge(case, precision)
            assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS, WildOutcome.REFUSED), found.reason
            assert found.steps.largest <= 1, f"seed {seed} {index} {precision.value}: {found.steps} {case.ranges}"
            differing, elements = differing + sum(found.steps.counts[1:]), elements + sum(found.steps.counts)
    assert differing <= max(1, _FEW * elements), f"seed {seed}: {differing} of {elements}"
