"""ONNX's numbers for element types: what Cast's `to` attribute and tensors in files hold."""

from __future__ import annotations

from dovetail.ir.dtypes import DType

ONNX_CODES: dict[DType, int] = {
    DType.F32: 1,
    DType.U8: 2,
    DType.I8: 3,
    DType.U16: 4,
    DType.I16: 5,
    DType.I32: 6,
    DType.I64: 7,
    DType.BOOL: 9,
    DType.F16: 10,
    DType.F64: 11,
    DType.U32: 12,
    DType.U64: 13,
    DType.BF16: 16,
}
"""Values of `TensorProto.DataType`."""

DTYPE_OF_CODE: dict[int, DType] = {code: dtype for dtype, code in ONNX_CODES.items()}
