"""Accumulators against ONNX Runtime's own integer and float convolutions, over random geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from dovetail.backend.arithmetic import EXACT
from dovetail.backends.npusim.build import build_kernel
from dovetail.backends.npusim.kernel import NodeContext
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType


@dataclass(frozen=True)
class Geometry:
    op: str
    group: int
    each_in: int
    each_out: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    sizes: tuple[int, ...]


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    rank = draw(st.integers(1, 3))

    def each(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    return Geometry(
        draw(st.sampled_from(["Conv", "ConvTranspose"])),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        each(1, 3),
        each(1, 3),
        each(1, 2),
        each(0, 1, 2 * rank),
        each(5, 7),
    )


def run_onnx(g: Geometry, data: AnyArray, weight: AnyArray) -> AnyArray:
    """Return the sums of the operator on float32 values, all of them integers below 2**24."""
    attributes: dict[str, Any] = {"group": g.group, "strides": g.strides, "dilations": g.dilations, "pads": g.pads}
    node = helper.make_node(g.op, ["x", "w"], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xwy"]
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": data.astype(np.float32), "w": weight.astype(np.float32)}
    return np.asarray(session.run(None, feeds)[0])


def simulate(g: Geometry, data: AnyArray, weight: AnyArray, zeros: tuple[int, int], wide: bool) -> AnyArray:
    """Return the stored output with a multiplier of 1 and a type that holds every sum."""
    dtype = DType.I16 if wide else DType.U8
    attributes: dict[str, Any] = {"group": g.group, "strides": g.strides, "dilations": g.dilations, "pads": g.pads}
    node = Node("n", g.op, ("x", "w"), ("y",), attributes)
    types = {
        "x": TensorType(dtype, (None,) * data.ndim, Quantization((1.0,), (zeros[0],))),
        "w": TensorType(dtype, tuple(weight.shape), Quantization((1.0,), (zeros[1],))),
        "y": TensorType(DType.I32, (None,) * data.ndim, Quantization((1.0,), (0,))),
    }
    graph = Graph("g", (node,), ("x",), ("y",), types, {"w": weight.astype(dtype.carrier)})
    kernel = build_kernel(NodeContext(graph, node, EXACT))
    return kernel([data.astype(dtype.carrier), weight.astype(dtype.carrier)])[0]


@settings(max_examples=60, deadline=None)
@given(geometries(), st.integers(0, 2**32 - 1), st.tuples(st.integers(0, 255), st.integers(0, 255)), st.integers(1, 3))
def test_sums_equal_those_of_onnx_runtime(g: Geometry, seed: int, zeros: tuple[int, int], batch: int) -> None:
    generator = np.random.default_rng(seed)
    data = generator.integers(0, 256, (batch, g.group * g.each_in, *g.sizes))
    rows, columns = g.group * g.each_out, g.each_in
    if g.op == "ConvTranspose":
        rows, columns = g.group * g.each_in, g.each_out
    weight = generator.integers(0, 256, (rows, columns, *g.kernel))
    wanted = run_onnx(g, data - zeros[0], weight - zeros[1])
    np.testing.assert_array_equal(simulate(g, data, weight, zeros, wide=False), wanted)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_sums_beyond_float32_are_exact(seed: int) -> None:
    generator = np.random.default_rng(seed)
    g = Geometry("Conv", 1, 3, 2, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), (5, 5))
    data = generator.integers(-(2**15), 2**15, (1, 3, 5, 5))
    weight = generator.integers(-2400, 2401, (2, 3, 3, 3))
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(2, 3))
    wanted = np.einsum("ncyxij,ocij->noyx", windows, weight)
    assert np.abs(wanted).max() > 2**24
    np.testing.assert_array_equal(simulate(g, data, weight, (0, 0), wide=True), wanted)
