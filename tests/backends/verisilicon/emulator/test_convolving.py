"""Accumulators against ONNX Runtime's own integer and float convolutions, over random geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from dovetail.backends.verisilicon.emulator.convolving import convolution, transposed_convolution
from dovetail.backends.verisilicon.emulator.storing import centred
from dovetail.backends.verisilicon.lowering.refusals import LoweringRefusal
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.views import ProgramView
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType

V853 = part_of(next(profile for profile in VSI_PROFILES if profile.name == "vsi:v853"))


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
    transposed = draw(st.booleans())
    rank = 2 if transposed else draw(st.integers(1, 2))

    def each(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    kernel = each(1, 3)
    # The vendor's compiler takes pads that are narrower than the kernel.
    pads = tuple(draw(st.integers(0, min(1, size - 1))) for size in (*kernel, *kernel))
    return Geometry(
        "ConvTranspose" if transposed else "Conv",
        1 if transposed else draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        kernel,
        each(1, 3),
        (1,) * rank if transposed else each(1, 2),
        pads,
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


def emulate(g: Geometry, data: AnyArray, weight: AnyArray, zeros: tuple[int, int], shape: tuple[int, ...]) -> AnyArray:
    """Return the accumulators of a lowered convolution."""
    dtype = DType.I16 if weight.max() > 255 else DType.U8
    attributes: dict[str, Any] = {"group": g.group, "strides": g.strides, "dilations": g.dilations, "pads": g.pads}
    node = Node("n", g.op, ("x", "w"), ("y",), attributes)
    types = {
        "x": TensorType(dtype, data.shape, Quantization((1.0,), (zeros[0],))),
        "w": TensorType(dtype, tuple(weight.shape), Quantization((1.0,), (zeros[1],))),
        "y": TensorType(dtype, shape, Quantization((1.0,), (0,))),
    }
    graph = Graph("g", (node,), ("x",), ("y",), types, {"w": weight.astype(dtype.carrier)})
    view = ProgramView(lower_graph(graph, V853))
    (item,) = (item for item in view.operators if item.operator.kind.endswith(("conv2d", "deconv2d")))
    total = (transposed_convolution if item.operator.kind == "deconv2d" else convolution)(item, 1)
    batch = centred(data.astype(dtype.carrier).reshape(item.shape()), item.kind(), total.working)
    return total.sums(batch).reshape(shape)


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
    try:
        found = emulate(g, data, weight, zeros, wanted.shape)
    except LoweringRefusal:
        reject()  # Some with steps between elements and between places: the vendor makes garbage of them.
    np.testing.assert_array_equal(found, wanted)


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
    np.testing.assert_array_equal(emulate(g, data, weight, (0, 0), wanted.shape), wanted)
