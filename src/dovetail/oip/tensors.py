"""Tensors in messages: requests and responses of ModelInfer."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.types import TensorType
from dovetail.oip.datatypes import DATATYPES, check_datatype, from_numbers, pack, unpack
from dovetail.oip.messages import Message

_FIELDS = {
    DType.BOOL: "bool_contents",
    DType.I8: "int_contents",
    DType.I16: "int_contents",
    DType.I32: "int_contents",
    DType.I64: "int64_contents",
    DType.U8: "uint_contents",
    DType.U16: "uint_contents",
    DType.U32: "uint_contents",
    DType.U64: "uint64_contents",
    DType.F32: "fp32_contents",
    DType.F64: "fp64_contents",
}
"""Where a message keeps elements as numbers; other types come as raw bytes only."""


def inputs_of(
    request: Message, types: Mapping[str, TensorType], shared: Mapping[int, bytes] | None = None
) -> dict[str, AnyArray]:
    """Return the inputs of a request, raw or as numbers, by name; raise DeviceError for what is not the model's.

    `shared` are the bytes of inputs that are not in the message, by their place in it.
    """
    shared = shared or {}
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs) - len(shared):
        raise DeviceError(f"{len(raw)} raw contents come with {len(request.inputs) - len(shared)} inputs.")
    arrays: dict[str, AnyArray] = {}
    for index, tensor in enumerate(request.inputs):
        kind = input_type(tensor.name, types, arrays)
        check_datatype(tensor.name, kind, tensor.datatype)
        shape = tuple(tensor.shape)
        if index in shared:
            arrays[tensor.name] = unpack(tensor.name, shared[index], kind, shape)
        elif raw:
            arrays[tensor.name] = unpack(tensor.name, raw.pop(0), kind, shape)
        elif kind not in _FIELDS:
            raise DeviceError(f"input '{tensor.name}': {DATATYPES[kind]} comes as raw contents only.")
        else:
            arrays[tensor.name] = from_numbers(tensor.name, getattr(tensor.contents, _FIELDS[kind]), kind, shape)
    return arrays


def input_type(name: str, types: Mapping[str, TensorType], seen: Mapping[str, AnyArray]) -> DType:
    """Return the element type of an input; raise DeviceError for an unknown name, or one that comes twice."""
    if name not in types:
        raise DeviceError(f"input '{name[:80]}' is unknown.", hint=f"The model reads: {', '.join(types)}.")
    if name in seen:
        raise DeviceError(f"input '{name}' comes twice.")
    return types[name].dtype


def add_inputs(request: Message, arrays: Mapping[str, AnyArray], types: Mapping[str, TensorType]) -> None:
    """Put inputs into a request, as raw bytes."""
    for name, array in arrays.items():
        kind = types[name].dtype
        request.inputs.add(name=name, datatype=DATATYPES[kind], shape=array.shape)
        request.raw_input_contents.append(pack(array, kind))


def add_outputs(
    response: Message,
    names: Sequence[str],
    arrays: Mapping[str, AnyArray],
    types: Mapping[str, TensorType],
    elsewhere: Container[str] = (),
) -> None:
    """Put outputs into a response, as raw bytes; those that are elsewhere as none."""
    for name in names:
        kind = types[name].dtype
        response.outputs.add(name=name, datatype=DATATYPES[kind], shape=arrays[name].shape)
        response.raw_output_contents.append(b"" if name in elsewhere else pack(arrays[name], kind))


def outputs_of(response: Message, types: Mapping[str, TensorType]) -> dict[str, AnyArray]:
    """Return the outputs of a response, raw or as numbers, by name.

    Raises DeviceError where they are not as the model declares them.
    """
    raw = list(response.raw_output_contents)
    if raw and len(raw) != len(response.outputs):
        raise DeviceError(f"the server gave {len(raw)} raw contents of {len(response.outputs)} outputs.")
    arrays: dict[str, AnyArray] = {}
    for index, tensor in enumerate(response.outputs):
        kind = types[tensor.name].dtype if tensor.name in types else None
        if kind is None or tensor.datatype != DATATYPES[kind]:
            raise DeviceError(f"the server gave '{tensor.name[:80]}' as {tensor.datatype[:20]}.")
        shape = tuple(tensor.shape)
        if raw:
            arrays[tensor.name] = unpack(tensor.name, raw[index], kind, shape)
        elif kind not in _FIELDS:
            raise DeviceError(f"the server gave '{tensor.name[:80]}', {DATATYPES[kind]}, as numbers.")
        else:
            arrays[tensor.name] = from_numbers(tensor.name, getattr(tensor.contents, _FIELDS[kind]), kind, shape)
    return arrays
