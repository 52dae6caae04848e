"""Pieces of ONNX models made from nodes and arrays; needs the onnx package."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from dovetail.errors import CompileError
from dovetail.ir import OPSET, AnyArray, DType, Node, Shape
from dovetail.ir.node import Body

IR_VERSION = 10
"""The ONNX file version that goes with opset 21."""

ELEMENT_TYPES: dict[DType, int] = {
    DType.F64: TensorProto.DOUBLE,
    DType.F32: TensorProto.FLOAT,
    DType.F16: TensorProto.FLOAT16,
    DType.BF16: TensorProto.BFLOAT16,
    DType.I8: TensorProto.INT8,
    DType.U8: TensorProto.UINT8,
    DType.I16: TensorProto.INT16,
    DType.U16: TensorProto.UINT16,
    DType.I32: TensorProto.INT32,
    DType.U32: TensorProto.UINT32,
    DType.I64: TensorProto.INT64,
    DType.U64: TensorProto.UINT64,
    DType.BOOL: TensorProto.BOOL,
}


def tensor_proto(name: str, array: AnyArray, raw: bytes | None = None) -> TensorProto:
    """Return a constant; `raw` are its little-endian bytes where they are at hand."""
    proto = TensorProto()
    proto.name = name
    proto.data_type = ELEMENT_TYPES[DType.of(array.dtype)]
    proto.dims.extend(array.shape)
    proto.raw_data = (
        np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes() if raw is None else raw
    )
    return proto


def attribute_protos(node: Node) -> Iterable[AttributeProto]:
    """Yield the attributes of a node; raise CompileError for bodies of control flow."""
    for name, value in node.attributes.items():
        if isinstance(value, Body):
            raise CompileError(f"{node.label}: control flow does not run here.", hint="Place it on cpu.")
        if isinstance(value, np.ndarray):
            yield helper.make_attribute(name, tensor_proto("", value))
        elif isinstance(value, tuple) and not value:
            yield helper.make_attribute(name, (), attr_type=AttributeProto.INTS)
        else:
            yield helper.make_attribute(name, value)


def value_info(name: str, dtype: DType, shape: Shape | None) -> onnx.ValueInfoProto:
    """Return a typed name; symbolic sizes keep their names."""
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[dtype], None if shape is None else list(shape))


def model_bytes(graph: onnx.GraphProto) -> bytes:
    """Return a whole model as bytes."""
    model = onnx.ModelProto()
    model.ir_version = IR_VERSION
    model.producer_name = "dovetail"
    model.opset_import.append(helper.make_opsetid("", OPSET))
    model.graph.CopyFrom(graph)
    data: bytes = model.SerializeToString()
    return data
