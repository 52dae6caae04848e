"""Translation there and back: order of dimensions, axes, quantisation, bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backends.verisilicon.program import Code, Quant
from dovetail.backends.verisilicon.translate import (
    fraction_bits,
    from_vendor,
    real_form,
    to_vendor,
    vendor_axis,
    vendor_form,
    vendor_order,
    vendor_shape,
)
from dovetail.backends.verisilicon.windows import PlaneWindow, window_of
from dovetail.ir import DType, Quantization, TensorType

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=6).map(tuple)
DTYPES = [DType.U8, DType.I8, DType.I16]


@given(shapes, st.data())
def test_an_axis_names_the_same_size_in_both_orders(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    assert vendor_shape(shape)[vendor_axis(axis, len(shape))] == shape[axis]


@given(shapes, st.data())
def test_a_permutation_gives_the_same_shape_in_both_orders(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    # ovxlib: size of dimension i of the output is the size of dimension perm[i] of the input.
    there = tuple(vendor_shape(shape)[axis] for axis in vendor_order(order))
    assert there == vendor_shape(tuple(shape[axis] for axis in order))


@given(shapes)
def test_the_bytes_of_a_tensor_are_the_same_in_both_orders(shape: tuple[int, ...]) -> None:
    value = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
    fastest_first = np.frombuffer(to_vendor(value, Code.U8), np.uint8).reshape(vendor_shape(shape), order="F")
    assert np.array_equal(fastest_first, value.T)


@given(st.integers(-5, 8))
def test_an_axis_outside_is_refused(axis: int) -> None:
    if not -3 <= axis < 3:
        with pytest.raises(ValueError, match="axis"):
            vendor_axis(axis, 3)


def test_a_window_is_told_columns_first_and_pads_left_right_top_bottom() -> None:
    window = PlaneWindow((5, 6), (7, 8), (9, 10), ((1, 3), (2, 4)))
    assert window.parameters == (6, 5, 8, 7, 2, 4, 1, 3)
    assert window_of(window.parameters, (10, 9)) == window


@st.composite
def quantised(draw: st.DrawFn) -> TensorType:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(shapes)
    scales = st.floats(2.0**-20, 2.0**10, width=32).map(float)
    lowest, highest = dtype.integer_range
    if dtype is DType.I16:
        return TensorType(dtype, shape, Quantization((math.ldexp(1.0, draw(st.integers(-20, 8))),), (0,)))
    if draw(st.booleans()):
        axis = draw(st.integers(0, len(shape) - 1))
        count = shape[axis]
        zeros = tuple(draw(st.lists(st.integers(lowest, highest), min_size=count, max_size=count)))
        found = tuple(draw(st.lists(scales, min_size=count, max_size=count)))
        return TensorType(dtype, shape, Quantization(found, zeros, axis))
    return TensorType(dtype, shape, Quantization((draw(scales),), (draw(st.integers(lowest, highest)),)))


@given(quantised(), st.booleans())
def test_quantisation_survives_the_way_there_and_back(kind: TensorType, fixed_point: bool) -> None:
    form = vendor_form(kind, fixed_point=fixed_point)
    back = real_form(form)
    assert back is not None
    assert kind.quant is not None
    assert (back.scale, back.zero_point) == (kind.quant.scale, kind.quant.zero_point)
    if kind.quant.axis is None:
        assert back.axis is None
    else:
        assert vendor_shape(kind.static_shape or ())[back.axis or 0] == len(kind.quant.scale)
        assert back.axis == len(kind.shape or ()) - 1 - kind.quant.axis


@given(st.floats(2.0**-20, 2.0**20, width=32))
def test_fixed_point_is_found_for_powers_of_two_only(scale: float) -> None:
    bits = fraction_bits(Quantization((scale,), (0,)))
    assert (bits is not None) is (math.frexp(scale)[0] == 0.5)
    if bits is not None:
        assert math.ldexp(1.0, -bits) == scale
    assert fraction_bits(Quantization((scale,), (1,))) is None


def test_sixteen_bits_need_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        vendor_form(TensorType(DType.I16, (2,), Quantization((0.3,), (0,))))
    assert vendor_form(TensorType(DType.I16, (2,), Quantization((0.25,), (0,)))).quant is Quant.FIXED_POINT


CASES = [
    (DType.F32, np.array([1.5, -2.0, np.inf], np.float32)),
    (DType.F16, np.array([1.5, -2.0, 65504], np.float16)),
    (DType.BF16, np.array([1.5, -2.0, 3.0e38], np.float32).view(np.uint32) & np.uint32(0xFFFF0000)),
    (DType.U8, np.array([0, 7, 255], np.uint8)),
    (DType.I8, np.array([-128, 0, 127], np.int8)),
    (DType.I16, np.array([-32768, 0, 32767], np.int16)),
    (DType.I64, np.array([-5, 0, 2**31 - 1], np.int64)),
    (DType.BOOL, np.array([True, False, True])),
]


@pytest.mark.parametrize(("dtype", "value"), CASES, ids=[case[0].value for case in CASES])
def test_values_survive_the_way_there_and_back(dtype: DType, value: np.ndarray) -> None:
    value = value.view(np.float32) if dtype is DType.BF16 else value
    kind = TensorType(dtype, (3,))
    form = vendor_form(kind)
    data = to_vendor(value, form.code)
    assert len(data) == 3 * form.code.size_bytes
    back = from_vendor(data, form.code, kind, (3,))
    assert back.dtype == value.dtype
    assert np.array_equal(back, value)


def test_an_index_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        to_vendor(np.array([2**31], np.int64), Code.I32)
