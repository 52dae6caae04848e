"""What a file asks of a node, in words and as the nearest precision."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize.formats import StoredFormat, formats_of

_U8 = TensorType(DType.U8, (1, 4), Quantization((0.3,), (3,)))
_I8 = TensorType(DType.I8, (1, 4), Quantization((0.3,), (0,)))
_F32 = TensorType(DType.F32, (1, 4))


def _weight(dtype: DType, channels: int = 1, zero: int = 0, scale: float = 0.3) -> TensorType:
    axis = 0 if channels > 1 else None
    return TensorType(dtype, (3, 4), Quantization((scale,) * channels, (zero,) * channels, axis))


def _wide(scale: float) -> TensorType:
    return TensorType(DType.I16, (1, 4), Quantization((scale,), (0,)))


@pytest.mark.parametrize(
    ("data", "weight", "precision", "text"),
    [
        (_U8, _weight(DType.U8, zero=7), Precision.U8, "u8 asymmetric; weight u8 asymmetric"),
        (_U8, _weight(DType.I8), Precision.U8, "u8 asymmetric; weight i8 symmetric"),
        (_I8, _weight(DType.I8), Precision.I8, "i8 symmetric; weight i8 symmetric"),
        (_U8, _weight(DType.I8, 3), Precision.I8PC, "u8 asymmetric; weight i8 symmetric per channel"),
        (_I8, _weight(DType.I8, 3), Precision.I8PC, "i8 symmetric; weight i8 symmetric per channel"),
        (_wide(0.25), _weight(DType.I16, scale=0.5), Precision.I16, "i16 2^n; weight i16 2^n"),
        (_wide(0.3), _weight(DType.I8, 3), Precision.W8A16, "i16 symmetric; weight i8 symmetric per channel"),
        (_F32, _F32, Precision.FP32, "f32; weight f32"),
        (TensorType(DType.F16, (1, 4)), TensorType(DType.F16, (3, 4)), Precision.FP16, "f16; weight f16"),
    ],
)
def test_what_a_product_asks(data: TensorType, weight: TensorType, precision: Precision, text: str) -> None:
    made = TensorType(data.dtype, (1, 3), data.quant)
    node = Node("fc", "Gemm", ("x", "w"), ("y",), {"transB": 1})
    types = {"x": data, "w": TensorType(weight.dtype, (3, 4), weight.quant), "y": made}
    constants = {"w": np.zeros((3, 4), weight.dtype.carrier)}
    asked = formats_of(Graph("g", (node,), ("x",), ("y",), types, constants), node)
    assert (asked.nearest, asked.text) == (precision, text)
    assert asked.per_channel is (weight.quant is not None and weight.quant.per_channel)


def test_data_of_two_types_are_both_named() -> None:
    node = Node("sum", "Add", ("x", "z"), ("y",))
    asked = formats_of(Graph("g", (node,), ("x", "z"), ("y",), {"x": _U8, "z": _I8, "y": _U8}), node)
    assert asked.text == "u8 asymmetric, i8 symmetric"
    assert asked.nearest is Precision.U8


def test_the_middle_of_unsigned_bytes_is_symmetric() -> None:
    middle = TensorType(DType.U8, (1,), Quantization((0.3, 0.5), (128, 128), 0))
    assert StoredFormat.of(middle) == StoredFormat(DType.U8, True, True, True, False, (128, 128))
    assert not StoredFormat.of(_U8).symmetric
    assert StoredFormat.of(_F32) == StoredFormat(DType.F32)
