"""Element types and precisions, against numpy, ONNX and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from dovetail.ir import DType
from dovetail.ir.codes import DTYPE_OF_CODE, ONNX_CODES
from dovetail.ir.dtypes import round_to_bf16
from dovetail.ir.precision import NumberFormat, Precision

ONNX_NAMES = {
    DType.F64: "DOUBLE",
    DType.F32: "FLOAT",
    DType.F16: "FLOAT16",
    DType.BF16: "BFLOAT16",
    DType.I8: "INT8",
    DType.U8: "UINT8",
    DType.I16: "INT16",
    DType.U16: "UINT16",
    DType.I32: "INT32",
    DType.U32: "UINT32",
    DType.I64: "INT64",
    DType.U64: "UINT64",
    DType.BOOL: "BOOL",
}


@pytest.mark.parametrize("dtype", list(DType))
def test_codes_are_onnxs(dtype: DType) -> None:
    assert ONNX_CODES[dtype] == getattr(TensorProto, ONNX_NAMES[dtype])
    assert DTYPE_OF_CODE[ONNX_CODES[dtype]] is dtype


@pytest.mark.parametrize("dtype", list(DType))
def test_facts_of_an_element_type_follow_from_its_name(dtype: DType) -> None:
    name = dtype.value
    bits = 8 if dtype is DType.BOOL else int(name.lstrip("bfiu"))
    assert dtype.size_bytes == bits // 8
    assert dtype.is_float == (name[0] == "f" or name == "bf16")
    assert dtype.is_integer == (name[0] in "iu")
    if dtype.is_integer:
        assert dtype.integer_range == (
            (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
    else:
        with pytest.raises(KeyError):
            _ = dtype.integer_range


@pytest.mark.parametrize("dtype", list(DType))
def test_a_numpy_type_has_one_element_type_and_bfloat16_is_carried_by_float32(dtype: DType) -> None:
    assert DType.of(dtype.carrier) is (DType.F32 if dtype is DType.BF16 else dtype)


def test_texts_are_no_elements() -> None:
    with pytest.raises(KeyError):
        DType.of(np.dtype("U3"))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20))
def test_rounding_to_bfloat16_is_that_of_ml_dtypes(bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    rounded = round_to_bf16(values)
    assert rounded.dtype == np.float32
    np.testing.assert_array_equal(rounded, wanted)


@pytest.mark.parametrize(
    ("bits", "rounded"),
    [
        (0x3F800000, 0x3F800000),
        (0x3F807FFF, 0x3F800000),
        (0x3F808000, 0x3F800000),  # halfway, to even
        (0x3F808001, 0x3F810000),
        (0x3F818000, 0x3F820000),  # halfway, to even
        (0xBF818000, 0xBF820000),
        (0x3F83FFFF, 0x3F840000),
        (0x7F7FFFFF, 0x7F800000),  # past the largest
        (0x7F800000, 0x7F800000),
        (0x00008001, 0x00010000),
    ],
)
def test_ties_go_to_even(bits: int, rounded: int) -> None:
    found = round_to_bf16(np.array([bits], np.uint32).view(np.float32))
    assert found.view(np.uint32).tolist() == [rounded]


def test_bfloat16_of_other_types_and_shapes() -> None:
    assert round_to_bf16(np.array(1.0)).shape == ()
    assert np.isnan(round_to_bf16(np.array([[np.nan]]))).all()


FORMATS = {
    "fp32": ("f32", "f32", 32, DType.F32),
    "fp16": ("f16", "f16", 16, DType.F16),
    "bf16": ("bf16", "bf16", 16, DType.BF16),
    "u8": ("u8", "u8", 8, DType.I32),
    "i8": ("i8", "i8sym", 8, DType.I32),
    "i8pc": ("i8", "i8sympc", 8, DType.I32),
    "i8dfp": ("i8dfp", "i8dfp", 8, DType.I32),
    "i16": ("i16dfp", "i16dfp", 16, DType.I64),
    "w8a16": ("i16sym", "i8sympc", 16, DType.I64),
}
"""Keys of activations and weights, bits of an activation, and the type of a bias."""


@pytest.mark.parametrize("precision", list(Precision))
def test_a_precision_is_two_formats_and_a_bias(precision: Precision) -> None:
    activation, weight, bits, bias = FORMATS[precision.value]
    assert (precision.activation.key, precision.weight.key) == (activation, weight)
    assert (precision.bits, precision.bias) == (bits, bias)
    assert precision.is_quantized == precision.activation.dtype.is_integer


@pytest.mark.parametrize("precision", list(Precision))
def test_a_key_says_how_reals_are_stored(precision: Precision) -> None:
    for form in (precision.activation, precision.weight):
        assert form.key.startswith(form.dtype.value)
        assert form.power_of_two == ("dfp" in form.key)
        assert (form.symmetric and not form.power_of_two) == ("sym" in form.key)
        assert form.per_channel == form.key.endswith("pc")


def test_formats_are_plain_unless_said_otherwise() -> None:
    assert NumberFormat(DType.I8) == NumberFormat(DType.I8, symmetric=False, per_channel=False, power_of_two=False)
    assert NumberFormat(DType.I8).key == "i8"
    assert NumberFormat(DType.F16, symmetric=True, per_channel=True).key == "f16"
