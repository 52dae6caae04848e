"""Lowering without the vendor library: what is emitted, and what is refused before the library would be called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backends.verisilicon.blob import program_from_bytes, program_to_bytes
from dovetail.backends.verisilicon.lowering.table import LOWERINGS, lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.program import Route, TensorRole
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.cases import CASES, quantized

from .conftest import check_one_line, target_named

PART = part_of(target_named("vsi:v853"))
STEP = Quantization((0.05,), (3,))
SQUARE = TensorType(DType.U8, (1, 4, 8, 8), STEP)


def convolution(**changes: object) -> Graph:
    """Return a good u8 convolution with some attributes or types changed."""
    weight_shape = changes.pop("weight", (6, 4, 3, 3))
    made = changes.pop("made", (1, 6, 8, 8))
    bias_scale = changes.pop("bias_scale", float(np.float32(np.float32(0.05) * np.float32(0.02))))
    assert isinstance(weight_shape, tuple)
    assert isinstance(made, tuple)
    assert isinstance(bias_scale, float)
    kinds = {
        "x": SQUARE,
        "w": TensorType(DType.U8, weight_shape, Quantization((0.02,), (128,))),
        "b": TensorType(DType.I32, (weight_shape[0],), Quantization((bias_scale,), (0,))),
        "y": TensorType(DType.U8, made, STEP),
    }
    constants: dict[str, AnyArray] = {
        "w": np.zeros(weight_shape, np.uint8),
        "b": np.zeros(weight_shape[0], np.int32),
    }
    attributes = {"pads": (1, 1, 1, 1), **changes}
    node = Node("n", "Conv", ("x", "w", "b"), ("y",), attributes)
    return Graph("g", (node,), ("x",), ("y",), kinds, constants)


def one(op: str, made: TensorType, **attributes: object) -> Graph:
    return Graph("g", (Node("n", op, ("x",), ("y",), attributes),), ("x",), ("y",), {"x": SQUARE, "y": made})


WRONG = [
    (convolution(weight=(6, 5, 3, 3)), "reads 5 of 4 channels"),
    (convolution(made=(1, 6, 7, 8)), "where [1, 6, 8, 8] follows"),
    (convolution(made=(1, 5, 8, 8)), "where [1, 6, 8, 8] follows"),
    (convolution(dilations=(0, 1)), "dilations [0, 1]"),
    (convolution(strides=(0, 1)), "strides [0, 1]"),
    (convolution(pads=(-1, 1, 1, 1)), "a pad is negative"),
    (convolution(pads=(3, 3, 3, 3)), "a pad is as wide as its kernel"),
    (convolution(group=3), "3 groups of 4 -> 6"),
    (convolution(weight=(6, 4, 31, 31), pads=(15, 15, 15, 15)), "kernel 31x31 > 15"),
    (convolution(bias_scale=0.3), "not at the scale of input times weight"),
    (one("Transpose", SQUARE, perm=(0, 0, 1, 2)), "not an order of 4 axes"),
    (one("Softmax", SQUARE, axis=4), "axis 4 of a tensor with 4 dimensions"),
    (one("MaxPool", SQUARE, kernel_shape=(9, 9)), "larger than its input"),
    (one("MaxPool", SQUARE, kernel_shape=(2, 2)), "where [1, 4, 7, 7] follows"),
    (one("Relu", replace(SQUARE, shape=(1, 4, 8, 9))), "where [1, 4, 8, 8] follows"),
    (one("Sigmoid", TensorType(DType.F32, (1, 4, 8, 8))), "it mixes"),
    (one("Erf", TensorType(DType.I16, (1, 4, 8, 8), Quantization((0.5,), (0,)))), "it mixes"),
    (one("Reshape", replace(SQUARE, shape=(1, 5))), "another number of elements"),
    (one("Concat", SQUARE, axis=9), "axis 9"),
    (one("DepthToSpace", SQUARE, blocksize=3), "blocksize=3"),
    (one("NonZero", SQUARE), "no lowering of ONNX::NonZero"),
    (one("Relu", TensorType(DType.U8, ("H", 4, 8, 8), STEP)), "does not have the batch"),
]


def test_a_batch_may_have_another_name_at_every_edge() -> None:
    """tf2onnx calls it unk__0 at the input and unk__126 at the output."""
    types = {name: replace(SQUARE, shape=(f"unk__{index}", 4, 8, 8)) for index, name in enumerate("xay")}
    nodes = (Node("a", "Relu", ("x",), ("a",)), Node("b", "Abs", ("a",), ("y",)))
    program = lower_graph(Graph("g", nodes, ("x",), ("y",), types), PART)
    assert program.batched
    assert {tensor.shape for tensor in program.tensors} == {(8, 8, 4, 1)}


@pytest.mark.parametrize(("graph", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_wrong_graphs_are_refused_with_the_reason(graph: Graph, reason: str) -> None:
    with pytest.raises(CompileError) as caught:
        lower_graph(graph, PART)
    assert reason in caught.value.message
    assert "\n" not in str(caught.value)


def test_many_operators_are_lowered() -> None:
    assert len(LOWERINGS) >= 95


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8PC, Precision.I8DFP, Precision.I16, Precision.FP32])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_is_lowered_or_refused(case: object, precision: Precision) -> None:
    graph = quantized(case, precision).graph  # type: ignore[arg-type]
    try:
        program = lower_graph(graph, PART)
    except CompileError as error:
        check_one_line(error)
        return
    assert [name for name, _ in program.inputs] == list(graph.inputs)
    assert [name for name, _ in program.outputs] == list(graph.outputs)
    assert program_from_bytes(program_to_bytes(program)) == program
    for operator in program.operators:
        for tensor in operator.outputs:
            assert program.tensors[tensor].role is not TensorRole.CONSTANT


def test_int8_transpose_does_not_requantise() -> None:
    quant = Quantization((0.05,), (-20,))
    kinds = {
        "x": TensorType(DType.I8, (1, 4, 8, 8), Quantization((0.05,), (3,))),
        "y": TensorType(DType.I8, (1, 8, 8, 4), quant),
    }
    node = Node("n", "Transpose", ("x",), ("y",), {"perm": (0, 2, 3, 1)})
    program = lower_graph(Graph("g", (node,), ("x",), ("y",), kinds), PART)
    assert [operator.kind for operator in program.operators] == ["transpose", "data_convert"]
    moved = program.operators[0]
    assert program.tensors[moved.inputs[0]].form == program.tensors[moved.outputs[0]].form


def test_signed_bytes_stay_in_memory_before_custom_kernels() -> None:
    kind = TensorType(DType.I8, (1, 4, 8, 8), Quantization((0.05,), (3,)))
    nodes = (Node("r", "Relu", ("x",), ("z",)), Node("m", "Max", ("z", "x"), ("y",)))
    program = lower_graph(Graph("g", nodes, ("x",), ("y",), {"x": kind, "z": kind, "y": kind}), PART)
    inner = [tensor.role for tensor in program.tensors]
    assert TensorRole.INNER not in inner
    unsigned = replace(kind, dtype=DType.U8)
    program = lower_graph(Graph("g", nodes, ("x",), ("y",), {"x": unsigned, "z": unsigned, "y": unsigned}), PART)
    assert TensorRole.INNER in [tensor.role for tensor in program.tensors]


@settings(deadline=None)
@given(st.data())
def test_damaged_programs_are_refused(data: st.DataObject) -> None:
    payload = bytearray(program_to_bytes(lower_graph(convolution(), PART)))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(payload), bytes(payload[:at])):
        try:
            program_from_bytes(damaged)
        except DeviceError as error:
            check_one_line(error)


def test_a_depthwise_convolution_of_16_bits_always_has_a_bias() -> None:
    # The vendor's 3x3 kernel for it without a bias gives garbage.
    kinds = {
        "x": TensorType(DType.I16, (1, 4, 8, 8), Quantization((2.0**-13,), (0,))),
        "w": TensorType(DType.I16, (4, 1, 3, 3), Quantization((2.0**-15,), (0,))),
        "y": TensorType(DType.I16, (1, 4, 6, 6), Quantization((2.0**-12,), (0,))),
    }
    node = Node("n", "Conv", ("x", "w"), ("y",), {"group": 4})
    graph = Graph("g", (node,), ("x",), ("y",), kinds, {"w": np.ones((4, 1, 3, 3), np.int16)})
    program = lower_graph(graph, part_of(target_named("vsi:s905d3")))
    (operator,) = program.operators
    held = program.tensors[operator.inputs[2]]
    assert held.shape == (4,)
    assert held.data is not None
    assert not any(held.data)
    assert held.form.fl == 28


def _gated(dtype: DType, scale: float, *shape: int) -> Graph:
    kind = TensorType(dtype, shape, Quantization((scale,), (0,)))
    nodes = (Node("s", "Sigmoid", ("x",), ("g",)), Node("m", "Mul", ("g", "x"), ("y",)))
    return Graph("gate", nodes, ("x",), ("y",), dict.fromkeys("xgy", kind))


@pytest.mark.parametrize(("dtype", "joined"), [(DType.U8, True), (DType.I16, True), (DType.I8, False)])
def test_a_gate_of_its_own_input_is_one_table_but_of_affine_signed_bytes(dtype: DType, joined: bool) -> None:
    scale = 2.0**-6 if dtype is DType.I16 else 0.03
    program = lower_graph(_gated(dtype, scale, 1, 2, 3, 4), part_of(target_named("vsi:v853")))
    assert program.operators[1].joins == ((0,) if joined else ())


def test_a_function_of_a_single_value_is_left_to_a_shader() -> None:
    routes = [
        lower_graph(_gated(DType.U8, 0.03, *shape), part_of(target_named("vsi:v853"))).operators[0].route
        for shape in ((3, 1, 1, 1), (1, 1), (1, 1, 1, 2), (130,))
    ]
    assert routes == [Route.SHADER, Route.SHADER, Route.PROCESSOR, Route.PROCESSOR]
