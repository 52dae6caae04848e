"""Nodes of a quantised graph in other formats: what stays equal, what becomes another grid, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.types import dequantize_array
from dovetail.quantize.formats import formats_of
from dovetail.quantize.restate import Change, NodeForm, change_between, restate, restated_type

_SIGNED_SHIFT = 128


def _kind(dtype: DType, zero: int, shape: tuple[int, ...] = (1, 4), scale: float = 0.5) -> TensorType:
    return TensorType(dtype, shape, Quantization((scale,), (zero,)))


def _gemm(data: TensorType, weight: TensorType, bias: TensorType, made: TensorType) -> Graph:
    rng = np.random.default_rng(1)

    def draw(kind: TensorType) -> AnyArray:
        shape = kind.static_shape or ()
        if kind.dtype.is_float:
            return rng.normal(size=shape).astype(kind.dtype.carrier)
        low, high = kind.dtype.integer_range if kind.dtype.size_bytes == 1 else (-900, 900)
        return rng.integers(low, high, shape, endpoint=True).astype(kind.dtype.carrier)

    node = Node("fc", "Gemm", ("x", "w", "b"), ("y",), {"transB": 1})
    types = {"x": data, "w": weight, "b": bias, "y": made}
    return Graph("g", (node,), ("x",), ("y",), types, {"w": draw(weight), "b": draw(bias)})


_BIAS = TensorType(DType.I32, (3,), Quantization((0.15,), (0,)))
_BYTES = NodeForm(NumberFormat(DType.U8), NumberFormat(DType.U8), DType.I32, Precision.U8)


def test_signed_weights_beside_unsigned_data_are_the_same_values() -> None:
    graph = _gemm(_kind(DType.U8, 3), _kind(DType.I8, 0, (3, 4), 0.3), _BIAS, _kind(DType.U8, 7, (1, 3)))
    found = restate(graph, graph.nodes[0], _BYTES)
    assert found is not None
    assert found.change is Change.RESTATED
    stored = found.constants["w"]
    assert (stored.kind.dtype, stored.kind.quant) == (DType.U8, Quantization((0.3,), (_SIGNED_SHIFT,)))
    before = graph.types["w"].quant
    assert before is not None
    assert stored.kind.quant is not None
    np.testing.assert_array_equal(
        dequantize_array(stored.value, stored.kind.quant), dequantize_array(graph.constants["w"], before)
    )
    assert found.constants["b"].name == "b"
    assert found.notes == ("weight: i8 symmetric is u8 symmetric",)
    assert formats_of(found.alone(), found.node).text == "u8 asymmetric; weight u8 symmetric"


def test_a_float_bias_is_rounded_to_the_steps_of_its_accumulator() -> None:
    bias = TensorType(DType.F32, (3,))
    graph = _gemm(_kind(DType.U8, 3), _kind(DType.U8, 9, (3, 4), 0.25), bias, _kind(DType.U8, 7, (1, 3)))
    found = restate(graph, graph.nodes[0], _BYTES)
    assert found is not None
    assert found.change is Change.NONE
    assert found.notes == ("bias: f32 rounded to the steps of its accumulator",)
    stored = found.constants["b"]
    assert stored.kind.quant == Quantization((0.125,), (0,))
    np.testing.assert_array_equal(stored.value, np.rint(graph.constants["b"].astype(np.float64) / 0.125))


def test_sixteen_bits_of_any_scale_become_a_power_of_two_that_holds_all_of_them() -> None:
    graph = _gemm(
        _kind(DType.I16, 5, scale=0.003),
        _kind(DType.I8, 0, (3, 4), 0.01),
        TensorType(DType.I32, (3,), Quantization((3e-5,), (0,))),
        _kind(DType.I16, 0, (1, 3), 0.007),
    )
    found = restate(graph, graph.nodes[0], NodeForm.of(Precision.I16))
    assert found is not None
    assert found.change is Change.REQUANTIZED
    for name in ("x", "y"):
        quant, wide = found.types[name].quant, graph.types[name].quant
        assert quant is not None
        assert wide is not None
        assert np.log2(quant.scale[0]) % 1 == 0
        assert quant.zero_point == (0,)
        assert 32767 * wide.scale[0] <= 32768 * quant.scale[0] < 4 * 32768 * wide.scale[0]
    assert found.types["b"].dtype is DType.I64


def test_scales_along_another_axis_than_the_channels_are_not_kept() -> None:
    along_inputs = TensorType(DType.I8, (3, 4), Quantization((0.1, 0.2, 0.3, 0.4), (0,) * 4, 1))
    graph = _gemm(_kind(DType.I8, 3), along_inputs, _BIAS, _kind(DType.I8, 7, (1, 3)))
    found = restate(graph, graph.nodes[0], NodeForm.of(Precision.I8PC))
    assert found is not None
    assert found.change is Change.REQUANTIZED
    quant = found.types["w"].quant
    assert quant is not None
    assert (quant.axis, len(quant.scale)) == (0, 3)


def test_what_reads_a_computed_float_is_not_restated() -> None:
    types = {"x": TensorType(DType.F32, (1, 4)), "a": _kind(DType.U8, 0), "y": _kind(DType.U8, 0)}
    node = Node("sum", "Add", ("x", "a"), ("y",))
    graph = Graph("g", (node,), ("x", "a"), ("y",), types)
    assert restate(graph, node, _BYTES) is None


def test_a_float_constant_gets_a_grid_of_its_own() -> None:
    types = {"x": _kind(DType.U8, 0), "a": TensorType(DType.F32, (1, 4)), "y": _kind(DType.U8, 0)}
    node = Node("sum", "Add", ("x", "a"), ("y",))
    graph = Graph("g", (node,), ("x",), ("y",), types, {"a": np.array([[0, 1, 2, 51]], np.float32)})
    found = restate(graph, node, _BYTES)
    assert found is not None
    assert found.change is Change.REQUANTIZED
    np.testing.assert_array_equal(found.constants["a"].value, [[0, 5, 10, 255]])


@given(st.sampled_from([DType.U8, DType.I8]), st.sampled_from([DType.U8, DType.I8]), st.data())
def test_bytes_of_the_other_sign_stand_for_the_same_reals(one: DType, other: DType, data: st.DataObject) -> None:
    low, high = one.integer_range
    old = _kind(one, data.draw(st.integers(low, high)), (256,))
    new = restated_type(old, NumberFormat(other))
    assert new.dtype is other
    assert change_between(old, new) is (Change.NONE if one is other else Change.RESTATED)
    assert old.quant is not None
    assert new.quant is not None
    every = np.arange(low, high + 1).astype(one.carrier)
    lowest, highest = other.integer_range
    there = np.arange(lowest, highest + 1).astype(other.carrier)
    np.testing.assert_array_equal(dequantize_array(every, old.quant), dequantize_array(there, new.quant))


@pytest.mark.parametrize(
    ("new", "change"),
    [
        (_kind(DType.I16, 0), Change.RESTATED),
        (_kind(DType.I16, 32700), Change.REQUANTIZED),
        (_kind(DType.I8, 1), Change.REQUANTIZED),
        (_kind(DType.I8, 0, scale=0.25), Change.REQUANTIZED),
        (TensorType(DType.F32, (1, 4)), Change.REQUANTIZED),
    ],
)
def test_values_are_kept_where_the_steps_are_and_all_integers_fit(new: TensorType, change: Change) -> None:
    assert change_between(_kind(DType.I8, 0), new) is change
