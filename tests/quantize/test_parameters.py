"""Scales and zero points: against Acuity's figures, and what must hold for any range."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.errors import QuantizeError
from dovetail.ir import AnyArray, DType, Quantization, dequantize_array, quantize_array
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.quantize import Range
from dovetail.quantize.parameters import (
    bias_scale_floor,
    choose_quantization,
    choose_weight_quantization,
    quantize_bias,
)

U8 = Precision.U8.activation
I8 = Precision.I8.activation
I8_SYMMETRIC = Precision.I8.weight
I8_PER_CHANNEL = Precision.I8PC.weight
I8_FIXED = Precision.I8DFP.activation
I16_FIXED = Precision.I16.activation
I16_SYMMETRIC = Precision.W8A16.activation

_FORMATS = st.sampled_from([U8, I8, I8_SYMMETRIC, I8_FIXED, I16_FIXED, I16_SYMMETRIC])
_VALUES = st.floats(-(2.0**100), 2.0**100, width=32)


def _stored(values: list[float], form: NumberFormat, quant: Quantization) -> list[int]:
    found: list[int] = quantize_array(np.array(values, dtype=np.float64), form.dtype, quant).tolist()
    return found


def test_asymmetric_bytes_as_acuity_prints_them() -> None:
    # '@cat1_2:out0' of a real .quantize file: [0, 643.36] gives scale 2.52299427986145, zero point 0.
    quant = choose_quantization(Range(0.0, 643.363525390625), U8)
    assert quant == Quantization((2.52299427986145,), (0,))


_U8_PRINTED = (
    (-1.1493396759033203, 1.6184040307998657, 0.010853896848857403, 106),
    (-0.27846455574035645, 1.770310401916504, 0.008034411817789078, 35),
    (0.0, 1.0000000591389835, 0.003921568859368563, 0),
    (-0.264818400144577, 0.278833270072937, 0.0021319673396646976, 124),
    (-2.1925923824310303, 2.0079894065856934, 0.016472868621349335, 133),
    (-1.082106590270996, 1.4552809000015259, 0.009950539097189903, 109),
)
_I8_PRINTED = (
    (0.0, 119.0, 0.46666666865348816, -128),
    (0.0, 2.0, 0.007843137718737125, -128),
    (-2.4014430046081543, 2.187176465988159, 0.017994584515690804, 5),
    (-0.27846452593803406, 1.966472864151001, 0.008803675882518291, -96),
)


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero", "form"),
    [*((*row, U8) for row in _U8_PRINTED), *((*row, I8) for row in _I8_PRINTED)],
)
def test_asymmetric_rows_of_files_that_acuity_wrote(
    low: float, high: float, scale: float, zero: int, form: NumberFormat
) -> None:
    quant = choose_quantization(Range(low, high), form)
    assert quant.scale[0] == pytest.approx(scale, rel=1e-6)
    assert quant.zero_point == (zero,)


@pytest.mark.parametrize(
    ("low", "high", "fl"),
    [
        (30.0, 119.0, 8),
        (80.0, 80.0, 8),
        (6.829872063462972e-07, 0.9944868087768555, 15),
        (-0.32661303877830505, 0.32879582047462463, 16),
        (0.5533326864242554, 1.621619701385498, 14),
        (0.3003978431224823, 2.5803022384643555, 13),
    ],
)
def test_fixed_point_rows_of_files_that_acuity_wrote(low: float, high: float, fl: int) -> None:
    assert choose_quantization(Range(low, high), I16_FIXED).scale == (2.0**-fl,)


def test_fixed_point_as_acuity_prints_it() -> None:
    # '@hs_10:out0': [.2531, .8108] gives fl 15.
    assert choose_quantization(Range(0.2531, 0.8108), I16_FIXED).scale == (2.0**-15,)


def test_fixed_point_of_a_power_of_two_saturates_as_acuity_does() -> None:
    # absmax 2.0 gives fl 14, so 2.0 itself becomes 1.99994.
    quant = choose_quantization(Range(-1.0, 2.0), I16_FIXED)
    assert quant.scale == (2.0**-14,)
    (stored,) = _stored([2.0], I16_FIXED, quant)
    assert stored * quant.scale[0] == pytest.approx(1.99994, abs=1e-5)
    assert choose_quantization(Range(-2.0, 0.0), I16_FIXED).scale == (2.0**-14,)


@pytest.mark.parametrize("exponent", [-33, -20, -3, 0, 1, 7, 60])
def test_fixed_point_just_beside_powers_of_two(exponent: int) -> None:
    power = 2.0**exponent
    above = float(np.nextafter(np.float32(power), np.float32(np.inf)))
    below = float(np.nextafter(np.float32(power), np.float32(0)))
    for form, bits in ((I8_FIXED, 7), (I16_FIXED, 15)):
        for value, fl in ((below, bits - exponent), (power, bits - exponent), (above, bits - exponent - 1)):
            assert choose_quantization(Range(0.0, value), form).scale == (2.0**-fl,)


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero"),
    [
        (0.0, 255.0, 1.0, 0),
        (-128.0, 127.0, 1.0, 128),
        (-255.0, 0.0, 1.0, 255),
        (-1.0, 1.0, 2 / 255, 127),  # as TFLite: scale 0.007843137718737125, zero point -1 in int8
        (3.0, 6.0, 6 / 255, 0),
        (-6.0, -3.0, 6 / 255, 255),
    ],
)
def test_asymmetric_by_hand(low: float, high: float, scale: float, zero: int) -> None:
    quant = choose_quantization(Range(low, high), U8)
    assert quant.scale[0] == float(np.float32(scale))
    assert quant.zero_point == (zero,)
    signed = choose_quantization(Range(low, high), I8)
    assert signed.scale == quant.scale
    assert signed.zero_point[0] == zero - 128


def test_symmetric_by_hand() -> None:
    assert choose_quantization(Range(-127.0, 3.0), I8_SYMMETRIC) == Quantization((1.0,), (0,))
    assert choose_quantization(Range(0.0, 32767.0), I16_SYMMETRIC) == Quantization((1.0,), (0,))


@given(_VALUES, _VALUES, _FORMATS)
@example(0.0, 1e-45, U8)
@example(-1e-38, 1e-38, I8)
@example(0.0, float(np.finfo(np.float32).tiny), I16_FIXED)
@example(3e38, 3.4e38, U8)
@example(-3.4e38, 3.4e38, I8)
@example(-3.4e38, 3.4e38, I8_FIXED)
@example(-3.4e38, 3.4e38, I16_SYMMETRIC)
def test_any_range(one: float, other: float, form: NumberFormat) -> None:
    low, high = min(one, other), max(one, other)
    quant = choose_quantization(Range(low, high), form)
    (scale,), (zero,) = quant.scale, quant.zero_point
    lowest, highest = form.dtype.integer_range
    assert scale > 0
    assert math.isfinite(scale)
    assert float(np.float32(scale)) == scale
    assert scale >= float(np.finfo(np.float32).tiny)
    assert lowest <= zero <= highest
    assert zero == 0 or not form.symmetric
    assert _stored([0.0], form, quant) == [zero]
    if form.power_of_two:
        assert math.frexp(scale)[0] == 0.5
    # Nothing in the range is further away than half a step; at the very ends the zero point costs up to half more,
    # and fixed point loses the one value that a full power of two asks for.
    for value in (low, high, (low + high) / 2, low * 0.3):
        if not low <= value <= high:
            continue
        (stored,) = _stored([value], form, quant)
        error = abs((stored - zero) * scale - value)
        ends = 1.001 if stored in (lowest, highest) else 0.5001
        assert error <= scale * ends + abs(value) * 1e-6


@given(_VALUES, _VALUES, _FORMATS)
def test_a_wider_range_never_gets_a_finer_scale(one: float, other: float, form: NumberFormat) -> None:
    assume(one != other)
    inner = choose_quantization(Range(min(one, other) / 2, max(one, other) / 2), form)
    outer = choose_quantization(Range(min(one, other), max(one, other)), form)
    assert outer.scale[0] >= inner.scale[0] or inner.scale == (1.0,)


@pytest.mark.parametrize("form", [U8, I8, I8_SYMMETRIC, I8_FIXED, I16_FIXED, I16_SYMMETRIC])
def test_a_tensor_that_is_always_zero(form: NumberFormat) -> None:
    assert choose_quantization(Range(0.0, 0.0), form) == Quantization((1.0,), (0,))


@pytest.mark.parametrize("value", [5.0, -5.0, 1e-6])
@pytest.mark.parametrize("form", [U8, I8, I8_SYMMETRIC, I8_FIXED, I16_FIXED, I16_SYMMETRIC])
def test_a_tensor_that_is_always_the_same_keeps_its_value(form: NumberFormat, value: float) -> None:
    quant = choose_quantization(Range(value, value), form)
    (stored,) = _stored([value], form, quant)
    real = (stored - quant.zero_point[0]) * quant.scale[0]
    assert real == pytest.approx(value, rel=1 / 64 if form.power_of_two else 1e-6)


@pytest.mark.parametrize("bad", [Range(0, math.inf), Range(-math.inf, 0), Range(math.nan, 1), Range(0, math.nan)])
def test_a_range_that_is_not_finite(bad: Range) -> None:
    with pytest.raises(QuantizeError, match="cannot be quantised"):
        choose_quantization(bad, U8)


_WEIGHTS = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=2, max_dims=4, max_side=4), elements=st.floats(-100, 100, width=32)
)


@given(_WEIGHTS, st.data())
def test_weights_per_channel(weight: AnyArray, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, weight.ndim - 1))
    quant = choose_weight_quantization(weight, I8_PER_CHANNEL, axis)
    assert quant.axis == axis
    assert len(quant.scale) == weight.shape[axis]
    assert quant.zero_point == (0,) * len(quant.scale)
    stored = quantize_array(weight.astype(np.float64), DType.I8, quant)
    error = np.abs(dequantize_array(stored, quant).astype(np.float64) - weight)
    half = quant.scale_array(weight.ndim) / 2
    assert (error <= half * (1 + 1e-5)).all()
    # Every live channel uses its whole scale.
    others = tuple(index for index in range(weight.ndim) if index != axis)
    largest = np.abs(weight.astype(np.float64)).max(axis=others)
    live = largest > 1e-30
    assert (np.abs(stored.astype(int)).max(axis=others)[live] == 127).all()


def test_a_dead_channel_does_not_disturb_the_others() -> None:
    weight = np.array([[1.0, -0.5], [0.0, 0.0]], dtype=np.float32)
    quant = choose_weight_quantization(weight, I8_PER_CHANNEL, 0)
    assert quant.scale == (float(np.float32(1 / 127)), 1.0)
    assert quantize_array(weight, DType.I8, quant).tolist() == [[127, -64], [0, 0]]


def test_weights_of_a_tensor_without_channels_share_one_scale() -> None:
    weight = np.array([[1.0, -0.5], [0.0, 127.0]], dtype=np.float32)
    assert choose_weight_quantization(weight, I8_PER_CHANNEL, -1) == Quantization((1.0,), (0,))
    assert choose_weight_quantization(weight, I8_SYMMETRIC, 0) == Quantization((1.0,), (0,))
    assert choose_weight_quantization(weight, U8, 0).zero_point == (1,)


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=6),
    st.floats(2.0**-40, 2.0**10, width=32),
    st.sampled_from([I8_PER_CHANNEL, I8_SYMMETRIC, U8, I8, I8_FIXED]),
    st.integers(0, 2**16),
)
@example([1e6, 0.0], 2.0**-40, I8_PER_CHANNEL, 0)
@example([-1e6, 1e-3], 2.0**-40, I8_SYMMETRIC, 0)
@example([-1e6, 1e-3], 2.0**-40, U8, 0)
@example([-1e6, 1e-3], 2.0**-40, I8_FIXED, 0)
def test_a_bias_never_saturates(biases: list[float], input_scale: float, form: NumberFormat, seed: int) -> None:
    bias = np.array(biases, dtype=np.float32)
    weight = np.random.default_rng(seed).normal(scale=1e-4, size=(len(bias), 3)).astype(np.float32)
    weight[0] = 0
    quant = choose_weight_quantization(weight, form, 0, bias_scale_floor(bias, input_scale, DType.I32))
    stored, bias_quant = quantize_bias(bias, DType.I32, input_scale, quant)
    assert (np.abs(stored.astype(np.int64)) <= 2**30 + 2**8).all()
    real = stored * np.array(bias_quant.scale)
    np.testing.assert_allclose(real, bias, atol=max(bias_quant.scale) / 2 * 1.001, rtol=1e-6)


def test_the_scale_of_a_bias_is_input_times_weight() -> None:
    weight = Quantization((0.25, 0.5), (0, 0), 0)
    stored, quant = quantize_bias(np.array([1.0, -3.0], np.float32), DType.I32, 0.125, weight)
    assert quant == Quantization((0.03125, 0.0625), (0, 0), 0)
    assert stored.tolist() == [32, -48]
    assert stored.dtype == np.int32
    one = Quantization((0.25,), (0,))
    stored, quant = quantize_bias(np.array([1.0, -3.0], np.float32), DType.I64, 2.0**-15, one)
    assert (quant.scale, quant.axis, stored.dtype) == ((2.0**-17,), None, np.dtype(np.int64))


def test_a_weight_with_one_output_channel_has_a_bias_that_agrees() -> None:
    weight = Quantization((0.25,), (0,), 0)
    _, quant = quantize_bias(np.array([1.0], np.float32), DType.I32, 0.5, weight)
    assert quant.scale == (0.125,)


def test_one_scale_for_weights_below_one_uses_them_whole() -> None:
    quant = choose_weight_quantization(np.array([[0.1, 0.255]], np.float32), U8, 0)
    assert (quant.scale, quant.zero_point) == ((pytest.approx(0.001),), (0,))
    assert choose_weight_quantization(np.array([[-0.255, -0.1]], np.float32), U8, 0).zero_point == (255,)
    assert choose_weight_quantization(np.zeros((0, 3), np.float32), I8_SYMMETRIC, 0) == Quantization((1.0,), (0,))


def test_one_scale_for_weights_leaves_room_for_the_largest_bias() -> None:
    weight = np.array([[127.0], [1.0]], np.float32)
    for floors, scale in (([0.5, 0.25], 1.0), ([1.0, 0.5], 1.0), ([0.5, 3.0], 3.0)):
        quant = choose_weight_quantization(weight, I8_SYMMETRIC, 0, np.array(floors))
        assert quant == Quantization((scale,), (0,))
    assert choose_weight_quantization(weight, I8_SYMMETRIC, 0, np.array([])).scale == (1.0,)
    # Zero points follow: -127 is stored as 0, or as near as the lowest integers are.
    assert choose_weight_quantization(-weight, U8, 0, np.array([3.0])) == Quantization((3.0,), (42,))
    assert choose_weight_quantization(-weight, I8, 0, np.array([3.0])) == Quantization((3.0,), (-86,))
    assert choose_weight_quantization(weight, U8, 0, np.array([3.0])) == Quantization((3.0,), (0,))
    assert choose_weight_quantization(-weight, U8, 0, np.array([0.25])).scale == (float(np.float32(127 / 255)),)
    assert choose_weight_quantization(weight, I8_FIXED, 0, np.array([3.0])) == Quantization((4.0,), (0,))
    assert choose_weight_quantization(weight, I8_FIXED, 0, np.array([1.0])).scale == (1.0,)


def test_scales_per_channel_leave_room_for_each_bias() -> None:
    weight = np.array([[127.0, -254.0], [0.0, 0.0], [0.0, 0.0], [1e-45, 0.0]], np.float32)
    assert choose_weight_quantization(weight, I8_PER_CHANNEL, 0) == Quantization((2.0, 1.0, 1.0, TINY), (0,) * 4, 0)
    floors = np.array([3.0, 0.25, 0.0, 0.0])
    assert choose_weight_quantization(weight, I8_PER_CHANNEL, 0, floors).scale == (3.0, 0.25, 1.0, TINY)
    assert choose_weight_quantization(weight, I8_PER_CHANNEL, 1).scale == (1.0, 2.0)
    assert choose_weight_quantization(weight, I8_PER_CHANNEL, 2).axis is None
    assert choose_weight_quantization(np.zeros((2, 0), np.float32), I8_PER_CHANNEL, 0).scale == (1.0, 1.0)


TINY = float(np.finfo(np.float32).tiny)


def test_a_bias_keeps_a_factor_of_two_below_its_largest_value() -> None:
    biases = np.array([-(2.0**30), 2.0**20], np.float32)
    assert bias_scale_floor(biases, 0.5, DType.I32).tolist() == [2.0, 2.0**-9]
    assert bias_scale_floor(biases, 0.5, DType.I64).tolist() == [2.0**-15, 2.0**-25]


@given(st.floats(1e-3, 1e3), st.integers(-45, 0), st.integers(0, 2**16))
def test_a_bias_of_16_bits_fits_into_48_bits(largest: float, exponent: int, seed: int) -> None:
    """An input that hardly moves beside a large bias: the array of six parts has no more bits than that."""
    rng = np.random.default_rng(seed)
    bias, weight = rng.uniform(-largest, largest, 3), rng.normal(size=(3, 4)).astype(np.float32)
    floor = bias_scale_floor(bias, 2.0**exponent, DType.I64)
    quant = choose_weight_quantization(weight, Precision.I16.weight, 0, floor)
    stored, _ = quantize_bias(bias, DType.I64, 2.0**exponent, quant)
    assert (np.abs(stored) <= 2**46).all()


@pytest.mark.parametrize(
    ("value", "dtype", "stored"),
    [
        (0.5, DType.I32, 0),  # ties to even
        (1.5, DType.I32, 2),
        (1e20, DType.I32, 2**31 - 1),
        (-1e20, DType.I32, -(2**31 - 1)),
        (1e30, DType.I64, 2**62),
        (-1e30, DType.I64, -(2**62)),
    ],
)
def test_a_bias_is_rounded_and_saturates(value: float, dtype: DType, stored: int) -> None:
    found, _ = quantize_bias(np.array([value]), dtype, 1.0, Quantization((1.0,), (0,)))
    assert found.tolist() == [stored]


@pytest.mark.parametrize(("largest", "exponent"), [(2.0**-42, 48), (2.0**-41, 48), (2.0**-40, 47), (1e-300, 48)])
def test_fixed_point_has_no_more_than_48_places(largest: float, exponent: int) -> None:
    assert choose_quantization(Range(0.0, largest), I8_FIXED).scale == (2.0**-exponent,)


@pytest.mark.parametrize(("largest", "exponent"), [(2.0**132, 125), (2.0**133, 126), (2.0**134, 126), (1e300, 126)])
def test_fixed_point_shifts_up_no_more_than_126_places(largest: float, exponent: int) -> None:
    assert choose_quantization(Range(-largest, 0.0), I8_FIXED).scale == (2.0**exponent,)


def test_a_scale_is_never_below_what_float32_holds() -> None:
    for form in (U8, I8_SYMMETRIC):
        assert choose_quantization(Range(0.0, 1e-45), form).scale == (TINY,)


@pytest.mark.parametrize("left", [0.0, 1e-45, 1e-40, 1.2e-38, 1e-30])
def test_a_dead_channel_has_a_bias_at_the_product_of_its_scales(left: float) -> None:
    """Weights below the normal floats, as decay leaves them: `s_x * s_w` has to be what the bias is stored at."""
    weight = np.array([[0.5, -1.0], [left, -left]], np.float32)
    bias, input_scale = np.array([0.25, left], np.float32), 0.003
    quant = choose_weight_quantization(weight, Precision.I8PC.weight, 0, bias_scale_floor(bias, input_scale, DType.I32))
    _, stored = quantize_bias(bias, DType.I32, input_scale, quant)
    products = np.float32(input_scale) * np.array(quant.scale, np.float32)
    np.testing.assert_allclose(stored.scale, products, rtol=1e-6)
    assert (products >= np.finfo(np.float32).tiny).all()
