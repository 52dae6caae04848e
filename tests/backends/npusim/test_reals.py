"""Float64 operators against ONNX Runtime's float32 kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from dovetail.backends.npusim.reals import real_operator
from dovetail.ir import AnyArray, Node

GENERATOR = np.random.default_rng(5)
IMAGE = GENERATOR.normal(size=(2, 6, 9, 7)) * 2.0
CHANNELS = [GENERATOR.uniform(0.5, 2.0, 6), GENERATOR.normal(size=6)]


def run_onnx(op: str, inputs: list[AnyArray], attributes: dict[str, Any]) -> AnyArray:
    names = [f"i{index}" if value.size else "" for index, value in enumerate(inputs)]
    node = helper.make_node(op, names, ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names if name]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", values, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {name: value.astype(np.float32) for name, value in zip(names, inputs, strict=True) if name}
    return np.asarray(session.run(None, feeds)[0])


def check(op: str, inputs: list[AnyArray], attributes: dict[str, Any]) -> None:
    node = Node("n", op, tuple(f"i{index}" for index in range(len(inputs))), ("y",), attributes)
    operator = real_operator(node)
    assert operator is not None
    (found,) = operator([value if value.size else None for value in inputs])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, run_onnx(op, inputs, attributes), rtol=2e-5, atol=2e-5)


UNARY = ["Atan", "Celu", "Cos", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu", "Shrink"]


@pytest.mark.parametrize("op", [*UNARY, "Sinh", "Softplus", "Softsign", "Tan", "ThresholdedRelu", "Cosh", "Asinh"])
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
        ("Shrink", {"lambd": 0.7, "bias": 0.2}),
    ],
)
def test_functions_with_attributes(op: str, attributes: dict[str, Any]) -> None:
    check(op, [np.linspace(-3.0, 3.0, 500)], attributes)


def test_domains() -> None:
    for op, low, high in (("Acos", -1, 1), ("Asin", -1, 1), ("Acosh", 1, 9), ("Atanh", -0.9, 0.9)):
        check(op, [np.linspace(low, high, 100)], {})


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("InstanceNormalization", {"epsilon": 1e-3}),
        ("GroupNormalization", {"num_groups": 3}),
        ("LRN", {"size": 3, "alpha": 0.1, "bias": 1.5}),
        ("LRN", {"size": 5, "beta": 0.5}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
        ("MeanVarianceNormalization", {}),
        ("AveragePool", {"kernel_shape": (2, 3)}),
        ("AveragePool", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("AveragePool", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 0, 1, 1), "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 1, 1, 1), "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": (2, 2), "dilations": (2, 3)}),
        ("AveragePool", {"kernel_shape": (3, 3), "strides": (2, 2), "auto_pad": "SAME_UPPER"}),
        ("AveragePool", {"kernel_shape": (4, 2), "strides": (1, 3), "auto_pad": "SAME_LOWER"}),
        ("AveragePool", {"kernel_shape": (3, 3), "auto_pad": "VALID"}),
    ],
)
def test_operators(op: str, attributes: dict[str, Any]) -> None:
    more = CHANNELS if op in ("InstanceNormalization", "GroupNormalization") else []
    check(op, [IMAGE, *more], attributes)


def test_several_operands() -> None:
    check("PRelu", [IMAGE, GENERATOR.uniform(0, 1, (6, 1, 1))], {})
    check("Mean", [IMAGE, IMAGE[:1], IMAGE[:, :1]], {})


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 1.5, 3), (1, 1, 0.5, 0.6)])
def test_linear_resize(mode: str, scales: tuple[float, ...]) -> None:
    none = np.empty(0)
    check("Resize", [IMAGE, none, np.array(scales)], {"mode": "linear", "coordinate_transformation_mode": mode})
