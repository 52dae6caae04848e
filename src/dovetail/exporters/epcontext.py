"""A compiled model as one ONNX file that ONNX Runtime runs: vendors' blobs in EPContext nodes, the rest as operators.

Border tensors keep their names; everything inside a partition gets the partition's number in front.
"""

from __future__ import annotations

import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper

from dovetail.backend.registry import backend
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.errors import CompileError
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.types import TensorType

_CONTEXT = "EPContext"
_COMPATIBILITY = "ep_compatibility_info."


def to_epcontext(bundle: Bundle) -> ModelProto:
    """Return the compiled model as ONNX; raise CompileError when a partition's blob is of another form."""
    model = ModelProto(producer_name="dovetail")
    model.graph.name = bundle.name
    model.graph.input.extend(_value(name, kind) for name, kind in bundle.inputs.items())
    model.graph.output.extend(_value(name, kind) for name, kind in bundle.outputs.items())
    borders = {name: part.tensors[name] for part in bundle.partitions for name in part.outputs}
    # Nothing infers what an EPContext node makes: its type has to be stated.
    model.graph.value_info.extend(_value(name, kind) for name, kind in borders.items() if name not in bundle.outputs)
    versions: dict[str, int] = {}
    facts: dict[str, str] = {}
    for index, part in enumerate(bundle.partitions):
        piece = _model_of(part, index)
        model.ir_version = max(model.ir_version, piece.ir_version)
        for item in piece.opset_import:
            if versions.setdefault(item.domain, item.version) != item.version:
                raise CompileError(
                    f"partition {index}: operators '{item.domain or 'ai.onnx'}' of version {item.version} beside "
                    f"version {versions[item.domain]}.",
                    partition=index,
                )
        facts.update({entry.key: entry.value for entry in piece.metadata_props if entry.key.startswith(_COMPATIBILITY)})
        _add(model.graph, piece.graph, part, f"p{index}/")
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in versions.items())
    helper.set_model_props(model, facts)
    return model


def context_sources(model: ModelProto) -> tuple[str, ...]:
    """Return the providers that the EPContext nodes of a model were compiled by."""
    sources = [
        attribute.s.decode()
        for node in model.graph.node
        if node.op_type == _CONTEXT
        for attribute in node.attribute
        if attribute.name == "source"
    ]
    return tuple(dict.fromkeys(sources))


def _model_of(part: CompiledPartition, index: int) -> ModelProto:
    onnx_of = backend(part.backend).abilities().onnx_of
    data = None if onnx_of is None else onnx_of(part.blob)
    if data is None:
        raise CompileError(
            f"partition {index} ({part.target}): a blob of format '{part.blob.format}' has no place in an ONNX file.",
            partition=index,
            hint="Place it on a target of ort, qnn, openvino or cpu.",
        )
    return onnx.load_model_from_string(data)


def _value(name: str, kind: TensorType) -> onnx.ValueInfoProto:
    shape = None if kind.shape is None else list(kind.shape)
    return helper.make_tensor_value_info(name, ONNX_CODES[kind.dtype], shape)


def _add(graph: GraphProto, piece: GraphProto, part: CompiledPartition, prefix: str) -> None:
    """Append a partition's nodes and constants, its inner names with a prefix."""
    borders = {*part.inputs, *part.outputs}
    names = {name: name if name in borders else prefix + name for name in _names(piece)}
    for constant in piece.initializer:
        copy = TensorProto()
        copy.CopyFrom(constant)
        copy.name = names.get(copy.name, copy.name)
        graph.initializer.append(copy)
    _rename(piece, names, prefix)
    graph.node.extend(piece.node)


def _names(piece: GraphProto) -> set[str]:
    made = {name for node in piece.node for name in node.output if name}
    return made | {constant.name for constant in piece.initializer} | {value.name for value in piece.input}


def _rename(piece: GraphProto, names: dict[str, str], prefix: str) -> None:
    """Rename what nodes read and write, and what the bodies of control flow capture."""
    for node in piece.node:
        node.name = prefix + node.name
        for edges in (node.input, node.output):
            for index, name in enumerate(edges):
                edges[index] = names.get(name, name)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                inner = {**names, **{name: name for name in _names(body)}}
                _rename(body, inner, "")
