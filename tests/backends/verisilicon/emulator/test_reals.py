"""Operators on floats, lowered and emulated, against ONNX Runtime's float32 kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.testing.agreement import load_on

GENERATOR = np.random.default_rng(5)
IMAGE = GENERATOR.normal(size=(2, 6, 9, 7)) * 2.0
CHANNELS = [GENERATOR.uniform(0.5, 2.0, 6), GENERATOR.normal(size=6)]
V853 = next(target for target in VSI_PROFILES if target.name == "vsi:v853")


def run_onnx(op: str, inputs: list[AnyArray], attributes: dict[str, Any]) -> AnyArray:
    names = [f"i{index}" if value.size else "" for index, value in enumerate(inputs)]
    node = helper.make_node(op, names, ["y"], **attributes)
    types = {np.dtype(np.int64): TensorProto.INT64}
    values = [
        helper.make_tensor_value_info(name, types.get(value.dtype, TensorProto.FLOAT), None)
        for name, value in zip(names, inputs, strict=True)
        if name
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", values, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {n: v for n, v in zip(names, inputs, strict=True) if n})[0])


def check(op: str, inputs: list[AnyArray], attributes: dict[str, Any], *, fixed: int = 1) -> None:
    """Compare; inputs from number `fixed` on are constants."""
    given = [value.astype(np.float32) if value.dtype.kind == "f" else value for value in inputs]
    wanted = run_onnx(op, given, attributes)
    names = [f"i{index}" if value.size else "" for index, value in enumerate(given)]
    kinds = {np.dtype(np.float32): DType.F32, np.dtype(np.int64): DType.I64}
    pairs = [(name, value) for name, value in zip(names, given, strict=True) if name]
    types = {name: TensorType(kinds[value.dtype], tuple(value.shape)) for name, value in pairs}
    types["y"] = TensorType(kinds[wanted.dtype], tuple(wanted.shape))
    constants = {name: value for name, value in pairs if int(name[1:]) >= fixed}
    node = Node("n", op, tuple(names), ("y",), attributes)
    graph = Graph("g", (node,), tuple(name for name, _ in pairs if name not in constants), ("y",), types, constants)
    feeds = {name: value for name, value in pairs if name not in constants}
    found = load_on(simulator, graph, V853, CompileOptions()).run(feeds)["y"]
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


UNARY = ["Atan", "Celu", "Cos", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu"]
MORE = ["Abs", "Ceil", "Exp", "Floor", "Neg", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Tanh"]


@pytest.mark.parametrize("op", [*UNARY, *MORE, "Softplus", "Softsign", "Tan"])
def test_functions(op: str) -> None:
    check(op, [np.linspace(-1.4, 1.5, 500)], {})


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Gelu", {"approximate": "tanh"}),
        ("Elu", {"alpha": 0.3}),
        ("Celu", {"alpha": 2.0}),
        ("HardSigmoid", {"alpha": 0.4, "beta": 0.1}),
        ("LeakyRelu", {"alpha": 0.3}),
    ],
)
def test_functions_with_attributes(op: str, attributes: dict[str, Any]) -> None:
    check(op, [np.linspace(-3.0, 3.0, 500)], attributes)


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [("Acosh", 1, 9), ("Atanh", -0.9, 0.9), ("Log", 0.1, 5), ("Sqrt", 0.1, 5), ("Reciprocal", 0.1, 5)],
)
def test_domains(op: str, low: float, high: float) -> None:
    check(op, [np.linspace(low, high, 100)], {})


AXES = np.array([2, 3])


@pytest.mark.parametrize(
    ("op", "more", "attributes"),
    [
        ("InstanceNormalization", CHANNELS, {"epsilon": 1e-3}),
        ("GroupNormalization", [np.tile([0.7, 1.3], 3), np.tile([0.1, -0.2], 3)], {"num_groups": 3}),
        ("LayerNormalization", [GENERATOR.uniform(0.5, 2, 7), GENERATOR.normal(size=7)], {"axis": -1}),
        ("BatchNormalization", [*CHANNELS, CHANNELS[1], CHANNELS[0]], {}),
        ("LRN", [], {"size": 3, "alpha": 0.1, "bias": 1.5}),
        ("LRN", [], {"size": 5, "beta": 0.5}),
        ("LpNormalization", [], {"axis": 1}),
        ("Softmax", [], {"axis": 1}),
        ("LogSoftmax", [], {}),
        ("GlobalAveragePool", [], {}),
        ("GlobalMaxPool", [], {}),
        ("ReduceMean", [AXES], {"keepdims": 0}),
        ("ReduceSum", [AXES], {}),
        ("ReduceMax", [AXES], {}),
        ("ReduceMin", [AXES], {}),
        ("ReduceProd", [AXES], {}),
        ("ReduceL2", [AXES], {}),
        ("CumSum", [np.array(1)], {"exclusive": 1, "reverse": 1}),
        ("DepthToSpace", [], {"blocksize": 1}),
        ("Pad", [np.array([0, 1, 2, 0, 0, 0, 1, 3]), np.array(1.5)], {}),
        ("Pad", [np.array([0, 1, 2, 0, 0, 0, 1, 3])], {"mode": "reflect"}),
        ("Slice", [np.array([8, 0]), np.array([-100, 7]), np.array([2, 3]), np.array([-2, 3])], {}),
        ("Tile", [np.array([1, 2, 1, 3])], {}),
        ("Gather", [np.array([[3, 0], [-1, 5]])], {"axis": 1}),
        ("PRelu", [GENERATOR.uniform(0, 1, (6, 1, 1))], {}),
        ("Pow", [np.array(2.0)], {}),
        ("Clip", [np.array(-0.5), np.array(0.75)], {}),
        ("MaxPool", [], {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 1, 1, 1), "ceil_mode": 1}),
        ("AveragePool", [], {"kernel_shape": (2, 3)}),
        ("AveragePool", [], {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        (
            "AveragePool",
            [],
            {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 0, 1, 1), "count_include_pad": 1},
        ),
        ("AveragePool", [], {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1}),
        ("AveragePool", [], {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 1, 1, 1), "ceil_mode": 1}),
        ("AveragePool", [], {"kernel_shape": (3, 3), "strides": (2, 2), "auto_pad": "SAME_UPPER"}),
        ("AveragePool", [], {"kernel_shape": (4, 2), "strides": (1, 3), "auto_pad": "SAME_LOWER"}),
        ("AveragePool", [], {"kernel_shape": (3, 3), "auto_pad": "VALID"}),
        ("Conv", [GENERATOR.normal(size=(4, 3, 3, 2)), GENERATOR.normal(size=4)], {"group": 2, "pads": (1, 0, 1, 1)}),
        ("ConvTranspose", [GENERATOR.normal(size=(6, 4, 3, 2)), GENERATOR.normal(size=4)], {"strides": (2, 1)}),
        ("MatMul", [GENERATOR.normal(size=(7, 5))], {}),
    ],
)
def test_operators(op: str, more: list[AnyArray], attributes: dict[str, Any]) -> None:
    check(op, [IMAGE, *more], attributes)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_two_operands_are_broadcast(op: str) -> None:
    check(op, [IMAGE, np.abs(IMAGE[:1, :, :1]) + 0.5], {}, fixed=2)


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("sizes", [(2, 6, 18, 14), (2, 6, 27, 7), (2, 6, 5, 4)])
def test_linear_resize(mode: str, sizes: tuple[int, ...]) -> None:
    none = np.empty(0)
    check("Resize", [IMAGE, none, none, np.array(sizes)], {"mode": "linear", "coordinate_transformation_mode": mode})
