"""Make a Graph of what an importer has built: types inferred, constants folded, quantised types left as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, shape_inference

from dovetail.errors import GraphError, LoadError
from dovetail.importers.onnx.evaluate import evaluate_nodes
from dovetail.importers.onnx.infer import types_of
from dovetail.importers.onnx.tensors import Stored, write_tensor
from dovetail.importers.options import LoadOptions
from dovetail.ir import OPSET, DType, Graph, Node, TensorType, prune
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.node import Body, without_facts
from dovetail.passes.draft import Draft

_SMALL_ELEMENTS = 256
_ROUNDS = 8
_BOUNDARIES = ("QuantizeLinear", "DequantizeLinear")


def assemble(draft: Draft, where: str, options: LoadOptions) -> Graph:
    """Return the Graph of a draft; raise LoadError where its types contradict its operators.

    Shapes that ONNX infers win over those that the draft declares.
    """
    for _ in range(_ROUNDS):
        inferred = infer_types(draft, where)
        _settle(draft, inferred, where)
        if not _fold(draft, inferred, options):
            break
    try:
        return prune(draft.graph())
    except GraphError as error:
        raise LoadError(f"{where}: {error.message}") from error


def to_proto(node: Node) -> NodeProto:
    """Return a node without bodies for ONNX's own code; numbers keep their kind."""
    proto = helper.make_node(node.op, node.inputs, node.outputs, node.name)
    for name, value in without_facts(node.attributes).items():
        plain = list(value) if isinstance(value, tuple) else value
        proto.attribute.append(helper.make_attribute(name, plain))
    return proto


def _is_plain(node: Node) -> bool:
    return not node.domain and not any(isinstance(value, Body) for value in node.attributes.values())


def infer_types(draft: Draft, where: str) -> dict[str, TensorType]:
    """Return the types that ONNX infers, with float32 in the place of quantised tensors."""
    model = _model(draft)
    try:
        inferred = shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)
    except Exception as error:
        detail = " ".join(str(error).split())[:300]
        raise LoadError(f"{where}: shapes cannot be inferred: {detail}") from error
    return types_of([*inferred.graph.value_info, *inferred.graph.output])


def _model(draft: Draft) -> ModelProto:
    nodes: list[NodeProto] = []
    opaque: list[str] = []
    for node in draft.nodes:
        if node.op in _BOUNDARIES or node.domain:
            nodes.append(helper.make_node("Identity", node.inputs, node.outputs, node.name))
        elif _is_plain(node):
            nodes.append(to_proto(node))
        else:
            opaque += [name for name in node.outputs if name]
    small: list[TensorProto] = []
    given = [*draft.inputs, *draft.captures, *opaque]
    for name, value in draft.constants.items():
        kind = draft.types[name]
        if kind.quant is None and value.size <= _SMALL_ELEMENTS:
            small.append(write_tensor(name, Stored(kind.dtype, value)))
        else:
            given.append(name)
    inputs = [_declared(name, draft.types[name]) for name in dict.fromkeys(given)]
    graph = helper.make_graph(nodes, draft.name or "main", inputs, [], small)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", OPSET)])


def _declared(name: str, kind: TensorType) -> ValueInfoProto:
    code = ONNX_CODES[DType.F32 if kind.quant is not None else kind.dtype]
    return helper.make_tensor_value_info(name, code, kind.shape)


def _settle(draft: Draft, inferred: Mapping[str, TensorType], where: str) -> None:
    """Take over inferred shapes; raise LoadError where the element type of a plain tensor is another one."""
    producers = draft.producers()
    for name, inferred_type in inferred.items():
        kind = draft.types.get(name)
        if kind is None or name in draft.constants:
            continue
        if kind.quant is None and kind.dtype is not inferred_type.dtype and not _converts(producers.get(name), draft):
            node = producers.get(name)
            label = node.label if node is not None else f"tensor '{name}'"
            raise LoadError(
                f"{where}: {label} gives {inferred_type.dtype.value}, but the file declares {kind.dtype.value}.",
                source_node=label,
            )
        if inferred_type.shape is not None and inferred_type.shape != kind.shape:
            merged = _merged(inferred_type, kind)
            draft.types[name] = replace(kind, shape=merged.shape)


def _converts(node: Node | None, draft: Draft) -> bool:
    """Tell whether a node reads quantised tensors: inference saw floats there."""
    return node is None or any(draft.types[name].quant is not None for name in node.inputs if name)


def _merged(inferred: TensorType, declared: TensorType) -> TensorType:
    """Return the inferred shape, with the declared sizes where inference has no number."""
    assert inferred.shape is not None
    if declared.shape is None or len(declared.shape) != len(inferred.shape):
        return inferred
    pairs = zip(inferred.shape, declared.shape, strict=True)
    return replace(inferred, shape=tuple(new if isinstance(new, int) else old for new, old in pairs))


def _fold(draft: Draft, inferred: Mapping[str, TensorType], options: LoadOptions) -> bool:
    """Evaluate the nodes whose inputs are all constant; tell whether there were any."""
    known = set(draft.constants)
    chosen: list[Node] = []
    for node in draft.nodes:
        if _foldable(node, draft, known, inferred, options):
            chosen.append(node)
            known.update(node.outputs)
    if not chosen:
        return False
    stored = {name: Stored(draft.types[name].dtype, value) for name, value in draft.constants.items()}
    types = {name: draft.types[name] for node in chosen for name in node.outputs if name}
    values = evaluate_nodes([to_proto(node) for node in chosen], stored, types)
    done = {node.name for node in chosen if all(name in values for name in node.outputs if name)}
    for name, value in values.items():
        draft.constants[name] = value.array
        draft.types[name] = replace(draft.types[name], shape=tuple(value.array.shape))
    draft.nodes = [node for node in draft.nodes if node.name not in done]
    for name in values:
        if any(name in node.outputs for node in draft.nodes):
            del draft.constants[name]
    return bool(done)


def _foldable(
    node: Node, draft: Draft, known: set[str], inferred: Mapping[str, TensorType], options: LoadOptions
) -> bool:
    if not _is_plain(node) or node.op in _BOUNDARIES or any(name in draft.outputs for name in node.outputs):
        return False
    names = [name for name in (*node.inputs, *node.outputs) if name]
    if not all(name in known for name in node.inputs if name) or any(draft.types[name].quant for name in names):
        return False
    if node.op in ("Div", "Mod") and not draft.types[node.outputs[0]].dtype.is_float:
        # ONNX Runtime ends the process where an integer division traps.
        divisor = draft.constants.get(node.inputs[1])
        if divisor is None or (divisor == 0).any() or (divisor == -1).any():
            return False
    size_bytes = 0
    for name in node.outputs:
        shape = inferred[name].static_shape if name in inferred else None
        if name and shape is None:
            return False
        size_bytes += math.prod(shape or ()) * draft.types[name].dtype.carrier.itemsize if name else 0
    read = sum(draft.constants[name].nbytes for name in node.inputs if name in draft.constants)
    return size_bytes <= read + options.max_fold_bytes
