"""Remove nodes that change nothing: Identity, Dropout, empty reshapes, transposes that cancel, unused results."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir import Graph, Node, TensorType, read_tensors
from dovetail.ir.codes import ONNX_CODES
from dovetail.passes.draft import Draft, merge_origin

_SAME_SHAPE = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand")


@dataclass(frozen=True)
class RemoveNoOps:
    """Remove nodes whose output is their input, and merge a Transpose with the one before it."""

    name: str = "remove-no-ops"

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph without them; names of graph inputs and outputs stay."""
        draft = Draft.of(graph)
        changed = _bypass_all(draft)
        while _merge_transposes(draft):
            _bypass_all(draft)
            changed = True
        return draft.graph() if changed else graph


def _bypass_all(draft: Draft) -> bool:
    changed = False
    for name in [node.name for node in draft.nodes]:
        # An earlier removal may have changed what this node reads.
        node = next(item for item in draft.nodes if item.name == name)
        if _is_no_op(draft, node) and _bypass(draft, node):
            changed = True
    return changed


def _is_no_op(draft: Draft, node: Node) -> bool:
    if node.domain or not node.inputs or not node.inputs[0] or any(node.outputs[1:]):
        return False
    before, after = draft.types[node.inputs[0]], draft.types[node.outputs[0]]
    if before.dtype is not after.dtype or before.quant != after.quant:
        return False
    if node.op == "Identity":
        return True
    if node.op == "Dropout":
        training = draft.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
        given = len(node.inputs) > 2 and bool(node.inputs[2])
        return not given or (training is not None and not training.any())
    if node.op in _SAME_SHAPE:
        return before.static_shape is not None and before.static_shape == after.static_shape
    if node.op == "Transpose":
        order = node.integers("perm")
        return bool(order) and order == tuple(range(len(order)))
    if node.op == "Cast":
        return node.integer("to", 0) == ONNX_CODES[before.dtype]
    return node.op == "Concat" and len(node.inputs) == 1


def _bypass(draft: Draft, node: Node) -> bool:
    """Connect readers of a node's output to its input; tell whether that was possible."""
    source, target = node.inputs[0], node.outputs[0]
    captured = {name for item in draft.nodes for body in item.bodies() for name in body.captures}
    producer = draft.producers().get(source)
    if target in draft.outputs:
        if producer is None or source in draft.outputs or source in captured:
            return False
        _rename(draft, node, source, target)
        absorber = producer.name
        draft.types[target] = _better(draft.types[target], draft.types[source])
    elif target in captured:
        return False
    else:
        readers = draft.consumers().get(target, [])
        _rename(draft, node, target, source)
        absorber = producer.name if producer is not None else readers[0].name if readers else ""
        draft.types[source] = _better(draft.types[source], draft.types[target])
    draft.nodes = [merge_origin(item, node) if item.name == absorber else item for item in draft.nodes]
    return True


def _better(one: TensorType, other: TensorType) -> TensorType:
    return one if one.shape is not None else other


def _rename(draft: Draft, without: Node, old: str, new: str) -> None:
    """Drop a node and rename a tensor in all others."""
    nodes: list[Node] = []
    for node in draft.nodes:
        if node.name == without.name:
            continue
        if old in node.inputs or old in node.outputs:
            inputs = tuple(new if name == old else name for name in node.inputs)
            outputs = tuple(new if name == old else name for name in node.outputs)
            node = replace(node, inputs=inputs, outputs=outputs)
        nodes.append(node)
    draft.nodes = nodes


def _merge_transposes(draft: Draft) -> bool:
    """Let a Transpose of a Transpose read the first one's input; drop the first one when nobody else reads it."""
    changed = False
    producers = draft.producers()
    passed: set[str] = set()
    for index, node in enumerate(draft.nodes):
        before = producers.get(node.inputs[0]) if node.op == "Transpose" and not node.domain else None
        if before is None or before.op != "Transpose" or before.domain:
            continue
        if len({draft.types[name].quant for name in (before.inputs[0], node.inputs[0], node.outputs[0])}) != 1:
            continue
        rank = draft.types[node.inputs[0]].rank or 0
        default = tuple(reversed(range(rank)))
        first, second = before.integers("perm", default), node.integers("perm", default)
        if not rank or len(first) != rank or len(second) != rank:
            continue
        perm = tuple(first[axis] for axis in second)
        merged = merge_origin(replace(node, inputs=before.inputs, attributes={"perm": perm}), before)
        draft.nodes[index] = merged
        producers[node.outputs[0]] = merged
        passed.add(before.outputs[0])
        changed = True
    read = {*draft.consumers(), *draft.outputs}
    draft.nodes = [node for node in draft.nodes if node.outputs[0] not in passed - read]
    return changed


@dataclass(frozen=True)
class RemoveDeadCode:
    """Remove the nodes that no graph output depends on, and the constants that nobody reads."""

    name: str = "remove-dead-code"

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph without them."""
        needed = set(graph.outputs)
        kept: list[Node] = []
        for node in reversed(graph.nodes):
            if any(name in needed for name in node.outputs):
                kept.append(node)
                needed.update(read_tensors(node))
        if len(kept) == len(graph.nodes) and needed.issuperset(graph.constants):
            return graph
        draft = Draft.of(graph)
        draft.nodes = kept[::-1]
        return draft.graph()


@dataclass(frozen=True)
class FoldPad:
    """Fold a Pad with zeros into the `pads` of the Conv behind it."""

    name: str = "fold-pad"

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph without the Pads that only Conv nodes read."""
        draft = Draft.of(graph)
        changed = False
        # Backwards, so that of two Pads in a row the second is gone when the first one is looked at.
        for node in reversed(graph.nodes):
            pads = _zero_padding(graph, node)
            readers = draft.consumers().get(node.outputs[0], []) if pads is not None else []
            if pads is None or node.outputs[0] in graph.outputs or not readers:
                continue
            if not all(_takes_padding(reader, node.outputs[0], len(pads)) for reader in readers):
                continue
            for reader in readers:
                at = next(index for index, item in enumerate(draft.nodes) if item.name == reader.name)
                draft.nodes[at] = merge_origin(_with_padding(draft.nodes[at], node.inputs[0], pads), node)
            draft.nodes = [item for item in draft.nodes if item.name != node.name]
            changed = True
        return draft.graph() if changed else graph


def _zero_padding(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Return what a Pad adds to the spatial axes as ONNX `pads`, or None when it does anything else."""
    rank = graph.types[node.inputs[0]].rank if node.op == "Pad" and not node.domain else None
    if rank is None or rank < 3 or node.text("mode", "constant") != "constant":
        return None
    amounts = graph.constants.get(node.inputs[1])
    extra = [graph.constants.get(name) if name else np.zeros(1) for name in node.inputs[2:3]]
    if amounts is None or any(value is None or np.any(value != 0) for value in extra):
        return None
    if any(graph.types[name].quant is not None for name in (node.inputs[0], node.outputs[0])):
        return None
    axes = list(range(rank))
    if len(node.inputs) > 3 and node.inputs[3]:
        axes_input = graph.constants.get(node.inputs[3])
        if axes_input is None:
            return None
        axes = [int(axis) % rank for axis in axes_input.reshape(-1)]
    half = len(axes)
    if amounts.shape != (2 * half,):
        return None
    before, after = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = int(amounts[index]), int(amounts[half + index])
    if any(before[:2]) or any(after[:2]) or min(before + after) < 0:
        return None
    return (*before[2:], *after[2:])


def _takes_padding(node: Node, tensor: str, count: int) -> bool:
    if node.op != "Conv" or node.domain or node.inputs[0] != tensor or tensor in node.inputs[1:]:
        return False
    mode = node.text("auto_pad", "NOTSET")
    return mode in ("NOTSET", "VALID") and len(node.integers("pads", (0,) * count)) == count


def _with_padding(node: Node, source: str, pads: tuple[int, ...]) -> Node:
    own = node.integers("pads", (0,) * len(pads)) if node.text("auto_pad", "NOTSET") == "NOTSET" else (0,) * len(pads)
    attributes = {key: value for key, value in node.attributes.items() if key != "auto_pad"}
    attributes["pads"] = tuple(one + other for one, other in zip(own, pads, strict=True))
    return replace(node, inputs=(source, *node.inputs[1:]), attributes=attributes)
