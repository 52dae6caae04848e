"""What ONNX Runtime's quantiser can do to a model, and the model that it can do it to.

Source: `onnxruntime/quantization/operators` and `qdq_quantizer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from google.protobuf.message import DecodeError
from onnx import ModelProto

from dovetail.formats.binding import Binding, Together, bind_sources
from dovetail.formats.entries import EntryFormat
from dovetail.formats.format import WriteRequest, Written
from dovetail.formats.onnxruntime.constants import computed_constant, with_own_constants
from dovetail.formats.own_model import write_own
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import CLAMPS
from dovetail.plan.plan import Plan

BASE, WIDE, EXCLUDED = "8-bit", "16-bit", "excluded"
"""Texts of the words."""
_OPSET = 13
"""The first in which weights have a scale for each channel; the quantiser leaves older operators alone."""


@dataclass(frozen=True)
class QuantiserFormat(EntryFormat):
    """The arguments, with the model that they are for where the user's file is not as its nodes were planned."""

    def write(self, request: WriteRequest) -> Written:
        """Return the arguments; raise InexpressiblePlan where they cannot say what the plan says."""
        why = "" if request.model is None else unlike(request.model, request.graph, request.plan)
        graph, shared = with_own_constants(request)
        why = why or shared
        if not why:
            return EntryFormat.write(self, request)
        note = f"the arguments are for the model beside them, not for the one given: {why}"
        return write_own(partial(EntryFormat.write, self), request, note, graph)


def unlike(content: bytes, graph: Graph, plan: Plan) -> str:
    """Return why a file is not the network that was planned, node by node; an empty text where it is."""
    if plan.repairs:
        return "the plan has repairs"
    try:
        model = ModelProto.FromString(content)
    except DecodeError:
        return ""
    opset = next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 0)
    if opset < _OPSET:
        return f"that has opset {opset}, and the quantiser takes {_OPSET} and later as they are"
    names = {node.name for node in model.graph.node if node.name}
    lost = next((node for node in graph.nodes if not names.issuperset(node.origin)), None)
    if lost is not None:
        return f"{lost.label} has no name there"
    folded = next((node for node in graph.nodes if len(node.origin) > 1), None)
    if folded is not None:
        return f"{folded.label} is {len(folded.origin)} nodes there"
    computed = computed_constant(model, graph, plan)
    return f"constant '{computed}' is computed there" if computed else ""


def bind_quantiser(graph: Graph) -> Binding:
    """Bind the nodes of the source file, with what the quantiser cannot tell apart or does not take."""
    binding = bind_sources(graph)
    alone = {node.name for node in graph.nodes if _is_left(graph, node)}
    lacks = {item: frozenset((BASE, WIDE)) for item, nodes in binding.nodes_of.items() if not alone.isdisjoint(nodes)}
    return replace(binding, lacks=lacks, together=tuple(_together(graph)))


def _together(graph: Graph) -> Iterator[Together]:
    """Yield nodes that are left in float together: a tensor is stored as bytes for all that read it, or for none."""
    for tensor in (*graph.inputs, *graph.producers):
        producer = graph.producers.get(tensor)
        source = "" if producer is None else producer.name
        readers = dict.fromkeys(reader.name for reader in graph.consumers.get(tensor, ()))
        # What leaves the network is rounded with what reads it.
        nodes = (source, *readers) if source and tensor in graph.outputs else tuple(readers)
        if graph.types[tensor].holds_reals and len(nodes) > 1:
            yield Together(EXCLUDED, nodes, f"the quantiser rounds tensor '{tensor}' for all that read it", source)
    for node in graph.nodes:
        host = graph.producers.get(node.inputs[0]) if _is_clamp(node) else None
        if host is not None:
            reason = f"the quantiser leaves {node.label} in float behind a node in float"
            yield Together(EXCLUDED, (host.name, node.name), reason, host.name)


def _is_left(graph: Graph, node: Node) -> bool:
    """Tell whether a clamp reads an input of the network that nothing before it has stored as bytes."""
    if not _is_clamp(node) or node.inputs[0] not in graph.inputs:
        return False
    readers = graph.consumers[node.inputs[0]]
    return all(_is_clamp(reader) for reader in readers[: readers.index(node)])


def _is_clamp(node: Node) -> bool:
    return not node.domain and node.op in CLAMPS
