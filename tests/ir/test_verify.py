"""Every broken invariant is named."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from dovetail.errors import GraphError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType

F = TensorType(DType.F32, (2,))


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
        ({"constants": {"c": np.zeros(3, np.float32)}, "types": _typed(c=F)}, "but its type says"),
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
    ],
)
def test_broken_invariants_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        _graph(**changes)
