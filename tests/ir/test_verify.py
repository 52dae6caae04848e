"""Every broken invariant is named."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from dovetail.errors import GraphError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType

F = TensorType(DType.F32, (2,))
INF = float("inf")
BODY = Graph("b", (Node("i", "Abs", ("t",), ("r",)),), (), ("r",), {"t": F, "r": F}, captures=("t",))


def _graph(**changes: object) -> Graph:
    fields: dict[str, object] = {
        "name": "g",
        "nodes": (Node("n", "Relu", ("x",), ("y",)),),
        "inputs": ("x",),
        "outputs": ("y",),
        "types": {"x": F, "y": F},
    }
    return Graph(**(fields | changes))  # type: ignore[arg-type]


def _typed(**types: TensorType) -> Mapping[str, TensorType]:
    return {"x": F, "y": F} | types


def test_the_plain_graph_is_valid() -> None:
    assert _graph().outputs == ("y",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": ("z",)}, "computed by no node"),
        ({"types": {"x": F}}, "has no type"),
        ({"inputs": ("x", "x")}, "defined twice"),
        ({"inputs": ("",)}, "empty name"),
        ({"nodes": (Node("n", "Relu", ("w",), ("y",)),)}, "reads 'w' which nothing before it defines"),
        ({"nodes": (Node("n", "Relu", ("x",), ("",)),), "outputs": ("x",)}, "has no output"),
        ({"nodes": (Node("n", "Relu", ("x",), ("y",)), Node("n", "Relu", ("y",), ("y2",)))}, "two nodes are called"),
        ({"nodes": (Node("a", "Relu", ("y",), ("z",)), Node("b", "Relu", ("x",), ("y",)))}, "nothing before it"),
        ({"constants": {"x": np.zeros(2, np.float32)}}, "both an input and a constant"),
        (
            {"constants": {"c": np.zeros(3, np.float32)}, "types": _typed(c=F)},
            r"holds float32\[3\] but its type says f32\[2\]",
        ),
        ({"types": _typed(x=TensorType(DType.F32, (-1,)))}, "dimension of -1"),
        ({"types": _typed(x=TensorType(DType.F32, (1,) * 17))}, "17 dimensions"),
        ({"types": _typed(y=TensorType(DType.F32, (2,), Quantization((1.0,), (0,))))}, "quantised but stores f32"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((0.0,), (0,))))}, "not a positive number"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((float("nan"),), (0,))))}, "not a positive"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0,), (200,))))}, "outside -128..127"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0, 1.0), (0, 0))))}, "no channel axis"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0,), (0, 0))))}, "1 scales and 2 zero points"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0,) * 3, (0,) * 3, 0)))}, "3 scales for 2"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0,) * 2, (0,) * 2, 1)))}, "outside its rank"),
        ({"types": _typed(y=TensorType(DType.I32, (2,), Quantization((1.0,), (1,))))}, "wide accumulator"),
        ({"types": _typed(y=TensorType(DType.I64, (2,), Quantization((1.0,), (1,))))}, "wide accumulator"),
        (
            {"types": _typed(y=TensorType(DType.F32, (2**31,)))},
            "a dimension of 2147483648; allowed are 0 to 2147483647",
        ),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((), ())))}, "0 scales and 0 zero points"),
        ({"types": _typed(y=TensorType(DType.BOOL, (2,), Quantization((1.0,), (0,))))}, "quantised but stores bool"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((-1.0,), (0,))))}, "not a positive number"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((INF,), (0,))))}, "not a positive number"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0, 0.0), (0, 0), 0)))}, "not a positive number"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0,), (-129,))))}, "outside -128..127"),
        ({"types": _typed(y=TensorType(DType.U8, (2,), Quantization((1.0,) * 2, (0, 256), 0)))}, "outside 0..255"),
        ({"types": _typed(y=TensorType(DType.U8, (2,), Quantization((1.0,) * 2, (-1, 0), 0)))}, "outside 0..255"),
        ({"types": _typed(y=TensorType(DType.I8, None, Quantization((1.0,), (0,), 0)))}, "channel axis 0 outside"),
        ({"types": _typed(y=TensorType(DType.I8, (2,), Quantization((1.0,) * 2, (0,) * 2, -1)))}, "channel axis -1"),
        ({"nodes": (Node("", "Relu", ("x",), ("y",)),)}, "two nodes are called ''"),
        ({"nodes": (Node("n", "Split", ("x",), ("y", "y")),)}, r"defined twice, the second time by node 'n' \(Split\)"),
        ({"nodes": (Node("n", "Relu", ("x",), ("x",)),), "outputs": ("x",)}, "tensor 'x' is defined twice"),
        (
            {"constants": {"c": np.zeros(2, np.float64)}, "types": _typed(c=F)},
            r"holds float64\[2\] but its type says f32",
        ),
        ({"constants": {"c": np.zeros((), np.float32)}, "types": _typed(c=F)}, "but its type says"),
        ({"captures": ("x",)}, "tensor 'x' is defined twice, the second time by graph input"),
        ({"nodes": (Node("n", "If", ("x",), ("y",), {"then_branch": BODY}),)}, "reads 't' which nothing before it"),
    ],
)
def test_broken_invariants_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        _graph(**changes)
    assert "graph 'g'" in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        TensorType(DType.F32, (1,) * 16),
        TensorType(DType.F32, (2**31 - 1,)),
        TensorType(DType.F32, (0,)),
        TensorType(DType.F32, None),
        TensorType(DType.I8, (2,), Quantization((1e-30,), (-128,))),
        TensorType(DType.I8, (2,), Quantization((1e30,), (127,))),
        TensorType(DType.I8, ("n", 2), Quantization((1.0,) * 3, (0,) * 3, 0)),
        TensorType(DType.I8, (3, 2), Quantization((1.0,) * 2, (0,) * 2, 1)),
        TensorType(DType.I32, (2,), Quantization((1.0,), (0,))),
        TensorType(DType.I16, (2,), Quantization((1.0,), (5,))),
    ],
)
def test_types_at_their_limits_are_valid(kind: TensorType) -> None:
    assert _graph(types=_typed(y=kind)).types["y"] == kind


def test_a_body_may_read_what_is_there() -> None:
    nodes = (Node("a", "Relu", ("x",), ("t",)), Node("n", "If", ("x",), ("y",), {"then_branch": BODY}))
    assert _graph(nodes=nodes, types=_typed(t=F)).nodes == nodes
