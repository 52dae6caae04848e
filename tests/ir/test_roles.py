"""What inputs are for, operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.defs
import pytest

from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.roles import (
    CLAMP_HOSTS,
    CLAMPS,
    CONTROL_FLOW,
    PASS_THROUGH,
    SHAPE_ONLY,
    Role,
    WeightLayout,
    input_roles,
    is_pass_through,
    weight_layout,
)

D, W, B, C = Role.DATA, Role.WEIGHT, Role.BIAS, Role.CONTROL
REAL = TensorType(DType.F32, (2, 2))


def _node(op: str, count: int, *, domain: str = "", constants: str = "", **attributes: object) -> tuple[Graph, Node]:
    """Return a node that reads `a`, `b`, ...; those named in `constants` are constants of 2 x 2."""
    names = tuple("abcdefgh"[:count])
    node = Node("n", op, names, ("y",), attributes, domain)
    values = {name: np.ones((2, 2), np.float32) for name in constants}
    inputs = tuple(name for name in names if name not in values)
    graph = Graph("g", (node,), inputs, ("y",), dict.fromkeys((*names, "y"), REAL), values)
    return graph, node


CONTROLS = {
    "Resize": ("roi", "scales", "sizes"),
    "Upsample": ("scales",),
    "Clip": ("min", "max"),
    "Dropout": ("ratio", "training_mode"),
    "OneHot": ("depth",),
    "BatchNormalization": ("scale", "B", "input_mean", "input_var"),
    "InstanceNormalization": ("scale", "B"),
    "LayerNormalization": ("Scale", "B"),
    "GroupNormalization": ("scale", "bias"),
    "Pad": ("pads", "constant_value", "axes"),
    "Pow": ("Y",),
    "PRelu": (),
    "QuantizeLinear": ("y_scale", "y_zero_point"),
    "DequantizeLinear": ("x_scale", "x_zero_point"),
    "LSTM": ("W", "R", "B", "sequence_lens", "P"),
    "GRU": ("W", "R", "B", "sequence_lens"),
    "RNN": ("W", "R", "B", "sequence_lens"),
    "RoiAlign": ("rois", "batch_indices"),
    "MaxRoiPool": ("rois",),
    "CumSum": ("axis",),
}
"""Inputs that are never quantised, by the names that ONNX gives them."""


@pytest.mark.parametrize("op", CONTROLS)
def test_controls_are_these_inputs_of_onnx(op: str) -> None:
    version = 9 if op == "Upsample" else 21
    names = [item.name for item in onnx.defs.get_schema(op, version, "").inputs]
    graph, node = _node(op, len(names))
    roles = dict(zip(names, input_roles(graph, node), strict=True))
    assert {name for name, role in roles.items() if role is C} == set(CONTROLS[op])
    assert set(CONTROLS[op]) <= set(names)


@pytest.mark.parametrize("op", sorted(SHAPE_ONLY))
def test_what_reads_no_element_takes_any_format(op: str) -> None:
    graph, node = _node(op, 1)
    assert input_roles(graph, node) == (C,)


def test_weights_and_biases_are_constants() -> None:
    assert input_roles(*_node("Conv", 3, constants="bc")) == (D, W, B)
    assert input_roles(*_node("Conv", 2, constants="b")) == (D, W)
    assert input_roles(*_node("Conv", 3, constants="b")) == (D, W, D)
    assert input_roles(*_node("Conv", 3, constants="c")) == (D, D, D)
    assert input_roles(*_node("MatMul", 2, constants="b")) == (D, W)
    assert input_roles(*_node("MatMul", 2, constants="a")) == (D, D)
    assert input_roles(*_node("Add", 2, constants="b")) == (D, D)
    assert input_roles(*_node("Conv", 3, domain="my.own", constants="bc")) == (D, D, D)


def test_what_is_omitted_or_no_real_is_control() -> None:
    names = {"x": REAL, "i": TensorType(DType.I64, (2,)), "y": REAL}
    node = Node("n", "Gather", ("x", "", "i"), ("y",))
    assert input_roles(Graph("g", (node,), ("x", "i"), ("y",), names), node) == (D, C, C)


@pytest.mark.parametrize(
    ("op", "attributes", "layout"),
    [
        ("Conv", {}, WeightLayout(1, 2, 0)),
        ("Conv", {"group": 2}, WeightLayout(1, 2, 0)),
        ("ConvTranspose", {}, WeightLayout(1, 2, 1)),
        ("ConvTranspose", {"group": 1}, WeightLayout(1, 2, 1)),
        ("ConvTranspose", {"group": 2}, WeightLayout(1, 2, -1)),
        ("Gemm", {}, WeightLayout(1, 2, 1)),
        ("Gemm", {"transB": 0}, WeightLayout(1, 2, 1)),
        ("Gemm", {"transB": 1}, WeightLayout(1, 2, 0)),
        ("MatMul", {}, WeightLayout(1, None, 1)),
        ("Add", {}, None),
    ],
)
def test_output_channels_lie_on_an_axis_of_the_weight(
    op: str, attributes: dict[str, Any], layout: WeightLayout | None
) -> None:
    assert weight_layout(*_node(op, 2, constants="b", **attributes)) == layout


def test_a_weight_is_a_constant_that_is_there() -> None:
    assert weight_layout(*_node("Conv", 0)) is None
    assert weight_layout(*_node("Conv", 1)) is None
    assert weight_layout(*_node("Conv", 2)) is None
    assert weight_layout(*_node("Conv", 2, domain="my.own", constants="b")) is None


@pytest.mark.parametrize(("rank", "axis"), [(1, -1), (2, 1), (3, 2)])
def test_columns_of_a_product_are_its_last_axis_and_a_vector_has_none(rank: int, axis: int) -> None:
    shape = (2,) * rank
    node = Node("n", "MatMul", ("a", "b"), ("y",))
    types = {"a": REAL, "b": TensorType(DType.F32, shape), "y": REAL}
    graph = Graph("g", (node,), ("a",), ("y",), types, {"b": np.ones(shape, np.float32)})
    assert weight_layout(graph, node) == WeightLayout(1, None, axis)


@pytest.mark.parametrize("op", sorted(PASS_THROUGH))
def test_movers_hold_only_values_of_their_first_input(op: str) -> None:
    assert is_pass_through(*_node(op, 1))
    assert not is_pass_through(*_node(op, 1, domain="my.own"))
    assert not is_pass_through(*_node(op, 2, constants="a"))


@pytest.mark.parametrize("op", ["Relu", "Add", "AveragePool", "Concat", "Shape", "ReduceSum"])
def test_what_computes_is_no_mover(op: str) -> None:
    assert not is_pass_through(*_node(op, 1))


def test_what_moves_no_reals_is_no_mover() -> None:
    kind = TensorType(DType.I64, (2,))
    for inputs in (("a",), ("",), ()):
        node = Node("n", "Reshape", inputs, ("y",))
        graph = Graph("g", (node,), ("a",), ("y",), {"a": kind, "y": kind})
        assert not is_pass_through(graph, node)


@pytest.mark.parametrize(
    ("mode", "inputs", "value", "moves"),
    [
        ("constant", ("x", "p"), None, True),
        ("constant", ("x", "p", ""), None, True),
        ("constant", ("x", "p", "v"), 0.0, True),
        ("constant", ("x", "p", "v"), 0.5, False),
        ("constant", ("x", "p", "v"), None, False),  # computed
        ("reflect", ("x", "p", "v"), 0.5, True),
    ],
)
def test_padding_moves_values_where_it_adds_zeros_or_repeats(
    mode: str, inputs: tuple[str, ...], value: float | None, moves: bool
) -> None:
    node = Node("n", "Pad", inputs, ("y",), {"mode": mode})
    types = {"x": REAL, "p": TensorType(DType.I64, (4,)), "v": TensorType(DType.F32, ()), "y": REAL}
    constants = {} if value is None else {"v": np.array(value, np.float32)}
    free = tuple(name for name in ("x", "p", "v") if name not in constants)
    assert is_pass_through(Graph("g", (node,), free, ("y",), types, constants), node) is moves
    plain = Node("n", "Pad", inputs, ("y",))
    graph = Graph("g", (plain,), free, ("y",), types, constants)
    assert is_pass_through(graph, plain) is (moves and mode == "constant")


def test_resizing_moves_values_where_it_repeats() -> None:
    assert is_pass_through(*_node("Resize", 1))
    assert is_pass_through(*_node("Resize", 1, mode="nearest"))
    assert not is_pass_through(*_node("Resize", 1, mode="linear"))


def test_sets_of_operators_are_onnxs() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert known >= PASS_THROUGH | CLAMPS | CLAMP_HOSTS | CONTROL_FLOW | SHAPE_ONLY
    assert not PASS_THROUGH & (CLAMPS | CLAMP_HOSTS)
