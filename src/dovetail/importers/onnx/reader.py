"""Read an ONNX file: parse it, take the constants out, and check its structure before any native code sees it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from dovetail.errors import LoadError
from dovetail.importers.onnx.names import check_names
from dovetail.importers.onnx.tensors import Stored, element_type, read_tensor, write_tensor
from dovetail.importers.options import LoadOptions
from dovetail.ir import AnyArray, DType, TensorType

SMALL_ELEMENTS = 256
"""Constants up to this many elements stay visible to shape inference; larger ones become typed inputs there."""

MAX_NESTING = 8
MAX_NODES = 200_000


@dataclass(slots=True)
class OnnxSource:
    """A model while it is being read: the file's message without constants, and the constants.

    `origins` names the nodes of the file that a node stands for, where that is not its own name. `hints` are types
    found by following shape arithmetic, which ONNX's inference is not asked to do.
    """

    model: ModelProto
    constants: dict[str, Stored]
    options: LoadOptions
    where: str
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hints: dict[str, TensorType] = field(default_factory=dict)

    @property
    def graph(self) -> GraphProto:
        """Return the main graph."""
        return self.model.graph


def node_label(node: NodeProto) -> str:
    """Return the form that messages use: node 'name' (Op)."""
    return f"node '{node.name or next(iter(node.output), '')}' ({node.op_type})"


def bodies_of(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and every body inside it."""
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from all_graphs(body)


def read_source(source: Path | bytes | ModelProto, options: LoadOptions) -> OnnxSource:
    """Parse a model and take its constants out; raise LoadError when it is damaged or too large."""
    folder: Path | None = None
    where = "model"
    if isinstance(source, Path):
        folder, where = source.parent, str(source)
        source = _read_bytes(source, options.max_file_bytes)
    if isinstance(source, bytes):
        if len(source) > options.max_file_bytes:
            raise LoadError(f"{where}: {len(source)} bytes; at most {options.max_file_bytes} are read.")
        source = _parse(source, where)
    else:
        source = _parse(source.SerializeToString(), where)
    if not source.HasField("graph") or not source.opset_import:
        raise LoadError(f"{where}: not an ONNX model: it has no graph or no operator set.")
    check_names(source, where)
    constants = _take_constants(source.graph, folder, where)
    return OnnxSource(source, constants, options, where)


def _read_bytes(path: Path, limit: int) -> bytes:
    try:
        size = path.stat().st_size
        if size > limit:
            raise LoadError(f"{path}: {size} bytes; at most {limit} are read.", hint="Use external data for weights.")
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}.", hint="Check the path.") from error


def _parse(data: bytes, where: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's own error type has no typed import
        raise LoadError(f"{where}: damaged, or not an ONNX file.", hint="Copy or export the model again.") from error
    return model


def _take_constants(graph: GraphProto, folder: Path | None, where: str, depth: int = 0) -> dict[str, Stored]:
    """Return the main graph's initialisers and remove them; those of bodies are rewritten in place with raw data."""
    if depth > MAX_NESTING:
        raise LoadError(f"{where}: control-flow bodies are nested more than {MAX_NESTING} deep.")
    if graph.sparse_initializer:
        raise LoadError(f"{where}: graph '{graph.name}' has sparse constants, which Dovetail does not represent.")
    constants: dict[str, Stored] = {}
    for tensor in graph.initializer:
        if not tensor.name or tensor.name in constants:
            raise LoadError(f"{where}: two constants are called '{tensor.name}'.")
        constants[tensor.name] = read_tensor(tensor, folder, f"constant '{tensor.name}'")
    del graph.initializer[:]
    # Up to IR version 3 every initialiser is listed as an input too; it is a default that nobody overrides.
    _keep_inputs(graph, constants)
    del graph.value_info[:]
    del graph.quantization_annotation[:]
    if len(graph.node) > MAX_NODES:
        raise LoadError(f"{where}: {len(graph.node)} nodes; at most {MAX_NODES} are read.")
    for node in graph.node:
        _read_node(node, folder, where, depth)
    if depth:
        graph.initializer.extend(write_tensor(name, stored) for name, stored in constants.items())
    return constants


def _keep_inputs(graph: GraphProto, constants: dict[str, Stored]) -> None:
    kept = [value for value in graph.input if value.name not in constants]
    if len(kept) != len(graph.input):
        del graph.input[:]
        graph.input.extend(kept)


def _read_node(node: NodeProto, folder: Path | None, where: str, depth: int) -> None:
    if not node.op_type or not any(node.output):
        raise LoadError(f"{where}: {node_label(node)} has no operator or no output.", source_node=node.name)
    if node.domain == "ai.onnx":
        node.domain = ""
    for attribute in node.attribute:
        label = f"attribute '{attribute.name}' of {node_label(node)}"
        if attribute.type == AttributeProto.GRAPH:
            if attribute.g.initializer or attribute.g.node or attribute.g.output:
                _take_constants(attribute.g, folder, where, depth + 1)
        elif attribute.type == AttributeProto.TENSOR:
            attribute.t.CopyFrom(write_tensor(attribute.t.name, read_tensor(attribute.t, folder, label)))
        elif attribute.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO, AttributeProto.GRAPHS):
            kind = AttributeProto.AttributeType.Name(attribute.type).lower()
            raise LoadError(f"{label} is a {kind}, which Dovetail does not represent.", source_node=node.name)
        elif attribute.type == AttributeProto.TENSORS:
            raise LoadError(f"{label} is a list of tensors, which Dovetail does not represent.", source_node=node.name)


def check_interface(source: OnnxSource) -> None:
    """Raise LoadError unless every graph input is a tensor of a known type; apply the shapes that were asked for."""
    graph, shapes = source.graph, dict(source.options.shapes)
    for value in graph.input:
        tensor_of(value, f"{source.where}: input '{value.name}'")
        shape = value.type.tensor_type.shape
        wanted = shapes.pop(value.name, None)
        if wanted is not None:
            _fix_shape(value, wanted, source.where)
        elif value.type.tensor_type.HasField("shape"):
            for index, dim in enumerate(shape.dim):
                if dim.dim_value < 0 or not dim.WhichOneof("value"):
                    dim.dim_param = f"{value.name}_dim{index}"
    if shapes:
        names = ", ".join(f"'{value.name}'" for value in graph.input)
        raise LoadError(f"{source.where}: a shape is given for '{next(iter(shapes))}'; the inputs are {names}.")
    for value in graph.output:
        if value.HasField("type"):
            tensor_of(value, f"{source.where}: output '{value.name}'")
    for name, number in source.options.values.items():
        _fix_value(source, name, number)


def _fix_value(source: OnnxSource, name: str, number: float) -> None:
    """Make an input of one number a constant."""
    value = next((item for item in source.graph.input if item.name == name), None)
    if value is None:
        names = ", ".join(f"'{item.name}'" for item in source.graph.input)
        raise LoadError(f"{source.where}: a value is given for '{name}'; the inputs are {names}.")
    tensor = value.type.tensor_type
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    if not tensor.HasField("shape") or any(size != 1 for size in shape):
        have = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
        raise LoadError(
            f"{source.where}: input '{name}' has shape {have}: a value is for an input of one number.",
            hint="Give its shape where that is open.",
            option="shape",
        )
    dtype = element_type(tensor.elem_type, f"{source.where}: input '{name}'")
    array = _number(number, dtype, shape)
    if array is None:
        raise LoadError(f"{source.where}: input '{name}' is of type {dtype.value}, which does not hold {number:g}.")
    source.constants[name] = Stored(dtype, array)
    kept = [item for item in source.graph.input if item.name != name]
    del source.graph.input[:]
    source.graph.input.extend(kept)


def _number(number: float, dtype: DType, shape: tuple[int, ...]) -> AnyArray | None:
    """Return a number as an array of a type, or None where the type does not hold it."""
    if dtype is DType.BF16 or not math.isfinite(number):
        return None
    limits = np.finfo(dtype.carrier) if dtype.is_float else np.iinfo(dtype.carrier) if dtype.is_integer else None
    low, high = (0, 1) if limits is None else (float(limits.min), float(limits.max))
    if not low <= number <= high or (not dtype.is_float and number != int(number)):
        return None
    return np.full(shape, number).astype(dtype.carrier)


def tensor_of(value: ValueInfoProto, where: str) -> TypeProto.Tensor:
    """Return the tensor type of an input or output; raise LoadError when it is no tensor."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        name = (kind or "value without a type").removesuffix("_type").replace("_", " ")
        raise LoadError(f"{where} is a {name}; Dovetail represents tensors only.")
    element_type(value.type.tensor_type.elem_type, where)
    return value.type.tensor_type


def _fix_shape(value: ValueInfoProto, shape: tuple[int, ...], where: str) -> None:
    tensor = value.type.tensor_type
    dims = list(tensor.shape.dim)
    clash = tensor.HasField("shape") and (
        len(dims) != len(shape)
        or any(dim.dim_value > 0 and dim.dim_value != size for dim, size in zip(dims, shape, strict=False))
    )
    if clash or any(size < 1 for size in shape):
        have = [dim.dim_param or dim.dim_value for dim in dims]
        raise LoadError(f"{where}: input '{value.name}' has shape {have}; it cannot be {list(shape)}.")
    tensor.ClearField("shape")
    for size in shape:
        tensor.shape.dim.add(dim_value=size)
    if not shape:
        tensor.shape.SetInParent()
