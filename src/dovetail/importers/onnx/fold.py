"""Fold what is constant: Constant nodes, nodes of constant inputs, static shape arithmetic, decided branches."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto

from dovetail.errors import LoadError
from dovetail.importers.onnx.branches import inline_decided
from dovetail.importers.onnx.evaluate import evaluate_nodes
from dovetail.importers.onnx.infer import infer_types
from dovetail.importers.onnx.reader import OnnxSource, bodies_of, node_label
from dovetail.importers.onnx.shapes import constant_of, filled_shape, known_values, reshape_target
from dovetail.importers.onnx.structure import free_names
from dovetail.importers.onnx.tensors import Stored, read_tensor, write_tensor
from dovetail.ir import DType, TensorType

_ROUNDS = 8
_KEPT = frozenset(
    {
        "DequantizeLinear",  # a quantised constant keeps its type
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Dropout",
        "If",
        "Loop",
        "Scan",
    }
)


def fold_constants(source: OnnxSource) -> dict[str, TensorType]:
    """Fold in place until nothing changes; return the types of the remaining tensors. Raises LoadError."""
    _take_constant_nodes(source.graph, source.constants, source.where)
    dead = _dead_nodes(source)
    types = infer_types(source)
    for _ in range(_ROUNDS):
        changed = _fold_shapes(source, types)
        changed |= _fold_nodes(source, source.graph, source.constants, types)
        changed |= inline_decided(source)
        if not changed:
            break
        types = infer_types(source)
    # What only fed folded nodes goes with them; what was dead in the file stays for a pass to remove.
    gone = _dead_nodes(source) - dead
    if gone:
        _replace_nodes(source.graph, [node for node in source.graph.node if node.name not in gone])
    return types


def _dead_nodes(source: OnnxSource) -> set[str]:
    """Return the names of the nodes that no graph output depends on."""
    needed = {value.name for value in source.graph.output}
    dead: set[str] = set()
    for node in reversed(source.graph.node):
        if any(name in needed for name in node.output):
            needed.update(free_names(node))
        else:
            dead.add(node.name)
    return dead


def _take_constant_nodes(graph: GraphProto, constants: dict[str, Stored], where: str) -> None:
    """Turn Constant nodes into constants, in bodies too."""
    kept: list[NodeProto] = []
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain:
            constants[node.output[0]] = _constant_value(node, where)
            continue
        for body in bodies_of(node):
            found: dict[str, Stored] = {}
            _take_constant_nodes(body, found, where)
            body.initializer.extend(write_tensor(name, stored) for name, stored in found.items())
        kept.append(node)
    if len(kept) != len(graph.node):
        _replace_nodes(graph, kept)


def _replace_nodes(graph: GraphProto, nodes: list[NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)


def _constant_value(node: NodeProto, where: str) -> Stored:
    attribute = node.attribute[0] if len(node.attribute) == 1 else AttributeProto()
    if attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
        return read_tensor(attribute.t, None, f"constant '{node.output[0]}'")
    if attribute.name == "value_int":
        return Stored(DType.I64, np.array(attribute.i, dtype=np.int64))
    if attribute.name == "value_ints":
        return Stored(DType.I64, np.array(attribute.ints, dtype=np.int64))
    if attribute.name == "value_float":
        return Stored(DType.F32, np.array(attribute.f, dtype=np.float32))
    if attribute.name == "value_floats":
        return Stored(DType.F32, np.array(attribute.floats, dtype=np.float32))
    raise LoadError(
        f"{where}: {node_label(node)} holds '{attribute.name}', which Dovetail does not represent.",
        source_node=node.name,
    )


def _fold_shapes(source: OnnxSource, types: Mapping[str, TensorType]) -> bool:
    graph = source.graph
    known = known_values(graph, types, source.constants)
    kept: list[NodeProto] = []
    changed = False
    for node in graph.node:
        name = node.output[0]
        if len(node.output) == 1 and name in known and name in types and name not in source.constants:
            stored = constant_of(known[name], types[name].dtype)
            if stored is not None:
                source.constants[name] = stored
                changed = True
                continue
        if node.op_type == "Reshape" and not node.domain and node.input[1] not in source.constants:
            changed |= _settle_reshape(source, node, types)
        if node.op_type in ("Expand", "ConstantOfShape") and not node.domain:
            hint = filled_shape(node, known, types)
            if hint is not None and hint != types.get(name):
                source.hints[name] = hint
                changed = True
        if node.op_type == "Range" and not node.domain:
            _settle_range(source, node)
        kept.append(node)
    if len(kept) != len(graph.node):
        _replace_nodes(graph, kept)
    return changed


def _settle_reshape(source: OnnxSource, node: NodeProto, types: Mapping[str, TensorType]) -> bool:
    known = known_values(source.graph, types, source.constants)
    value = known.get(node.input[1])
    if value is None or any(item.name == "allowzero" and item.i for item in node.attribute):
        return False
    target = reshape_target(value, types.get(node.input[0]))
    if target is None:
        return False
    name = f"{node.output[0]}/shape"
    source.constants[name] = Stored(DType.I64, target)
    node.input[1] = name
    return True


def _settle_range(source: OnnxSource, node: NodeProto) -> None:
    """Make scalars of Range's constant inputs; a list of one is overlooked by ONNX Runtime until its shape is known."""
    for index, name in enumerate(node.input):
        stored = source.constants.get(name)
        if stored is not None and stored.array.size == 1 and stored.array.ndim:
            node.input[index] = f"{name}/scalar"
            source.constants[node.input[index]] = Stored(stored.dtype, stored.array.reshape(()))


def _fold_nodes(
    source: OnnxSource, graph: GraphProto, constants: Mapping[str, Stored], types: Mapping[str, TensorType]
) -> bool:
    """Evaluate the nodes of the main graph whose inputs are all constant."""
    chosen: list[NodeProto] = []
    known = set(constants)
    for node in graph.node:
        if _foldable(node, known, types, source):
            chosen.append(node)
            known.update(node.output)
    if not chosen:
        return False
    values = evaluate_nodes(chosen, source.constants, types)
    if not values:
        return False
    source.constants.update(values)
    _replace_nodes(graph, [node for node in graph.node if not all(name in values for name in node.output if name)])
    return True


def _foldable(node: NodeProto, known: set[str], types: Mapping[str, TensorType], source: OnnxSource) -> bool:
    if node.domain or node.op_type in _KEPT or any(bodies_of(node)):
        return False
    if not all(name in known for name in node.input if name) or not all(name in types for name in node.output if name):
        return False
    if node.op_type in ("Div", "Mod") and not types[node.output[0]].dtype.is_float:
        return _divides(node, source)
    sizes = [_bytes(types[name]) for name in node.output if name]
    read = sum(source.constants[name].array.nbytes for name in node.input if name in source.constants)
    return all(size is not None for size in sizes) and (
        sum(size for size in sizes if size is not None) <= read + source.options.max_fold_bytes
    )


def _divides(node: NodeProto, source: OnnxSource) -> bool:
    """Tell whether an integer division is ready; raise LoadError where it traps, as ONNX Runtime ends the process."""
    pair = [source.constants.get(name) for name in node.input]
    if len(pair) != 2 or pair[0] is None or pair[1] is None:
        return False
    dividend, divisor = pair[0].array, pair[1].array
    overflows = (
        pair[0].dtype.is_integer and (divisor == -1).any() and (dividend == pair[0].dtype.integer_range[0]).any()
    )
    if (divisor == 0).any() or overflows:
        raise LoadError(
            f"{source.where}: {node_label(node)} divides integers by zero or overflows.", source_node=node.name
        )
    return True


def _bytes(kind: TensorType) -> int | None:
    """Return an upper bound of a tensor's bytes; None when its size is unknown."""
    shape = kind.static_shape
    return None if shape is None else math.prod(shape) * kind.dtype.carrier.itemsize
