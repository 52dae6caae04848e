"""Types of tensors and what quantisation makes of values."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Quantization, TensorType, dequantize_array, quantize_array


def test_shapes() -> None:
    unknown, empty = TensorType(DType.F32, None), TensorType(DType.F32, ())
    assert (unknown.rank, unknown.static_shape, unknown.size_bytes()) == (None, None, None)
    assert (empty.rank, empty.static_shape, empty.size_bytes()) == (0, (), 4)
    named = TensorType(DType.I16, ("n", 3, 2))
    assert (named.rank, named.static_shape) == (3, None)
    assert (named.size_bytes(), named.size_bytes(5)) == (12, 60)
    loose = TensorType(DType.I16, (2, None))
    assert (loose.rank, loose.static_shape, loose.size_bytes(3)) == (2, None, None)
    assert TensorType(DType.BF16, (4, 5)).size_bytes() == 40
    assert TensorType(DType.F32, (4, 5)).static_shape == (4, 5)


def test_reals_are_floats_and_quantised_integers() -> None:
    assert TensorType(DType.F16, (1,)).holds_reals
    assert not TensorType(DType.I8, (1,)).holds_reals
    assert not TensorType(DType.BOOL, (1,)).holds_reals
    assert TensorType(DType.I8, (1,), Quantization((1.0,), (0,))).holds_reals


def test_scales_spread_over_their_axis() -> None:
    one, channels = Quantization((0.5,), (3,)), Quantization((0.5, 0.25), (1, -1), 1)
    assert not one.per_channel
    assert channels.per_channel
    assert Quantization((0.5, 0.25), (1, -1), 0).per_channel
    assert one.scale_array(3).shape == one.zero_point_array(3).shape == ()
    assert (one.scale_array(3).item(), one.zero_point_array(3).item()) == (0.5, 3)
    assert channels.scale_array(3).shape == channels.zero_point_array(3).shape == (1, 2, 1)
    assert channels.scale_array(2).tolist() == [[0.5, 0.25]]
    assert channels.zero_point_array(2).tolist() == [[1, -1]]
    assert (channels.scale_array(2).dtype, channels.zero_point_array(2).dtype) == (np.float64, np.int64)


def test_values_are_rounded_to_even_and_cut_off() -> None:
    real = np.array([0.25, 0.75, -0.25, 1000.0, -1000.0, 0.2], np.float32)
    assert quantize_array(real, DType.I8, Quantization((0.5,), (1,))).tolist() == [1, 3, 1, 127, -128, 1]
    assert quantize_array(real, DType.U8, Quantization((0.5,), (0,))).tolist() == [0, 2, 0, 255, 0, 0]


def test_channels_have_scales_of_their_own() -> None:
    quant = Quantization((0.5, 2.0), (0, 10), 0)
    stored = quantize_array(np.array([[1.0, 2.0], [4.0, -6.0]]), DType.I8, quant)
    assert stored.tolist() == [[2, 4], [12, 7]]
    assert stored.dtype == np.int8
    real = dequantize_array(stored, quant)
    assert real.tolist() == [[1.0, 2.0], [4.0, -6.0]]
    assert real.dtype == np.float32


def test_float32_is_divided_in_float32() -> None:
    # 0.1 and 0.2 in float32: 0.2f / 0.1f is 2 in both; 0.7f / 0.2f is 3.5 in float32 only, and rounds up to even.
    scale = float(np.float32(0.2))
    value = np.array([0.7], np.float32)
    assert quantize_array(value, DType.I8, Quantization((scale,), (0,))).tolist() == [4]
    assert quantize_array(value.astype(np.float64), DType.I8, Quantization((scale,), (0,))).tolist() == [3]


@pytest.mark.parametrize("dtype", [DType.U8, DType.I16, DType.I32])
def test_the_ends_of_a_type_come_back(dtype: DType) -> None:
    lowest, highest = dtype.integer_range
    stored = np.array([lowest, highest], dtype.carrier)
    quant = Quantization((0.5,), (0,))
    assert quantize_array(stored.astype(np.float64) / 2, dtype, quant).tolist() == [lowest, highest]
