"""Pieces of ONNX messages: tensors, types and attributes."""

from __future__ import annotations

from functools import cache

import numpy as np
from onnx import AttributeProto, TensorProto, ValueInfoProto, defs

from dovetail.errors import GraphError
from dovetail.ir import OPSET, AnyArray, DType, Node, TensorType
from dovetail.ir.codes import ONNX_CODES

_INT, _INTS = AttributeProto.INT, AttributeProto.INTS
_FLOAT, _FLOATS = AttributeProto.FLOAT, AttributeProto.FLOATS
_STRINGS = AttributeProto.STRINGS


def tensor_proto(name: str, array: AnyArray, dtype: DType | None = None) -> TensorProto:
    """Return an array as an ONNX tensor with raw data; `dtype` tells bf16, which numpy carries as float32."""
    kind = dtype or DType.of(array.dtype)
    if kind is DType.BF16:
        raw = (np.ascontiguousarray(array).view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
    else:
        raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return TensorProto(name=name, data_type=ONNX_CODES[kind], dims=array.shape, raw_data=raw)


def value_info(name: str, kind: TensorType) -> ValueInfoProto:
    """Return the declaration of a graph input or output."""
    value = ValueInfoProto(name=name)
    tensor = value.type.tensor_type
    tensor.elem_type = ONNX_CODES[kind.dtype]
    if kind.shape is not None:
        tensor.shape.SetInParent()
        for dim in kind.shape:
            added = tensor.shape.dim.add()
            if isinstance(dim, int):
                added.dim_value = dim
            elif dim is not None:
                added.dim_param = dim
    return value


@cache
def _attribute_kinds(op: str) -> dict[str, int]:
    if not defs.has(op, OPSET, ""):
        return {}
    schema = defs.get_schema(op, OPSET, "")
    return {
        name: AttributeProto.AttributeType.Value(str(attribute.type).removeprefix("AttrType."))
        for name, attribute in schema.attributes.items()
    }


def attribute_proto(node: Node, name: str, value: object) -> AttributeProto:
    """Return an attribute that is not a graph; raise GraphError when ONNX has no form for it."""
    kind = _attribute_kinds(node.op).get(name) if not node.domain else None
    if isinstance(value, np.ndarray):
        tensor = tensor_proto("", value)
        return AttributeProto(name=name, type=AttributeProto.TENSOR, t=tensor)
    if isinstance(value, bool | int) and kind != _FLOAT:
        return AttributeProto(name=name, type=_INT, i=int(value))
    if isinstance(value, int | float):
        return AttributeProto(name=name, type=_FLOAT, f=float(value))
    if isinstance(value, str):
        return AttributeProto(name=name, type=AttributeProto.STRING, s=value.encode())
    if isinstance(value, tuple):
        return _list_attribute(name, value, kind)
    raise GraphError(f"{node.label}: attribute {name} is a {type(value).__name__}, which ONNX cannot hold")


def _list_attribute(name: str, value: tuple[object, ...], kind: int | None) -> AttributeProto:
    if all(isinstance(item, str) for item in value) and (value or kind == _STRINGS):
        texts = [item.encode() for item in value if isinstance(item, str)]
        return AttributeProto(name=name, type=_STRINGS, strings=texts)
    numbers = [item for item in value if isinstance(item, int | float)]
    if kind == _FLOATS or any(isinstance(item, float) for item in numbers):
        return AttributeProto(name=name, type=_FLOATS, floats=[float(item) for item in numbers])
    return AttributeProto(name=name, type=_INTS, ints=[int(item) for item in numbers])
