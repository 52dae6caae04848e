"""What a target makes of the formats that a quantised file asks, node by node.

Each node is asked for as the file has it. What is refused is tried with the same values in the target's own form, then
on the nearest grid that the target has with at least as many bits, and goes to the CPU only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from dovetail.backend.target import Target, TargetVerdict
from dovetail.compare.judgement import JudgedNode, NodeOutcome
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.plan.placement import Placement
from dovetail.quantize.adapt import PlacedNode, is_conversion
from dovetail.quantize.formats import NodeFormats, formats_of
from dovetail.quantize.restate import Change, NodeForm, RestatedNode, restate

_BYTES = {DType.U8: Precision.U8, DType.I8: Precision.I8}


@dataclass(frozen=True, slots=True)
class HonourRequest:
    """On which target, beside which CPU, and whether that CPU takes what the file leaves in float."""

    target: Target
    host: Target
    float_on_host: bool = False


def honour_graph(graph: Graph, request: HonourRequest) -> tuple[JudgedNode, ...]:
    """Return what the target makes of every node of a quantised graph; conversions follow their neighbours."""
    asked = {node.name: formats_of(graph, node) for node in graph.nodes if not is_conversion(graph, node)}
    judge = _NodeJudge(graph, request, _byte_of(asked.values()))
    return tuple(judge.judge(node, asked[node.name]) for node in graph.nodes if node.name in asked)


class _NodeJudge:
    """Ask a target about the nodes of one graph."""

    def __init__(self, graph: Graph, request: HonourRequest, byte: DType | None) -> None:
        self._graph = graph
        self._request = request
        self._byte = byte

    def judge(self, node: Node, asked: NodeFormats) -> JudgedNode:
        """Return what becomes of a node."""
        wanted = asked.nearest
        if self._request.float_on_host and not wanted.is_quantized and asked.makes:
            return self._on_host(node, asked, NodeOutcome.HONOURED, "float runs on the CPU, as was asked")
        refused = "signed and unsigned bytes meet in the graph"
        if self._is_of_one_byte(asked):
            trial = self._as_asked(node, asked)
            if trial.verdict.supported and trial.change is Change.NONE:
                return _taken(node, asked, trial, NodeOutcome.HONOURED)
            refused = trial.verdict.reason
        other = self._restated(node, asked)
        if other is None:
            return self._on_host(node, asked, NodeOutcome.CPU, refused)
        equal = other.change <= Change.RESTATED
        found = _taken(node, asked, other, NodeOutcome.RESTATED if equal else NodeOutcome.CHANGED)
        return replace(found, reason="; ".join(filter(None, (refused, *other.notes))))

    def _as_asked(self, node: Node, asked: NodeFormats) -> _Trial:
        """Return the verdict on a node as the file has it; a bias in float is at the scale of its accumulator."""
        wanted = asked.nearest
        if asked.quantized and asked.bias is not None and not asked.bias.quantized and asked.weight is not None:
            data = NumberFormat(asked.quantized[0].dtype)
            weight = NumberFormat(asked.weight.dtype, per_channel=asked.per_channel)
            trial = self._asked_in(node, NodeForm(data, weight, wanted.bias, wanted))
            if trial is not None:
                return trial
        return _Trial(self._request.target.verdict(self._graph, node, wanted), None)

    def _is_of_one_byte(self, asked: NodeFormats) -> bool:
        bytes_ = {item.dtype for item in asked.quantized if item.dtype in _BYTES}
        return self._byte is None or bytes_ <= {self._byte}

    def _on_host(self, node: Node, asked: NodeFormats, outcome: NodeOutcome, reason: str) -> JudgedNode:
        host, wanted = self._request.host, asked.nearest
        verdict = host.verdict(self._graph, node, Precision.FP32)
        if not verdict.supported:
            told = f"{reason}; {host.name}: {verdict.reason}"
            return JudgedNode(node.name, node.op, node.origin, asked, NodeOutcome.REFUSED, reason=told)
        placed = PlacedNode(Placement(host.name, wanted if wanted in host.precisions else Precision.FP32))
        return JudgedNode(node.name, node.op, node.origin, asked, outcome, placed, asked, verdict.engine, reason)

    def _restated(self, node: Node, asked: NodeFormats) -> _Trial | None:
        """Return the node in the first other formats that the target takes, those of equal values first."""
        if not asked.quantized:
            return None
        bytes_only = max(item.dtype.size_bytes for item in asked.quantized) == 1
        equal = [trial for form in self._equal_forms(asked) if (trial := self._tried(node, form))] if bytes_only else []
        nearest = (trial for form in self._nearest_forms(asked) if (trial := self._tried(node, form)))
        kept = next((trial for trial in equal if trial.change <= Change.RESTATED), None)
        return kept or next(chain(equal, nearest), None)

    def _tried(self, node: Node, form: NodeForm) -> _Trial | None:
        """Return a node in other formats where the target takes it so."""
        trial = self._asked_in(node, form)
        return trial if trial is not None and trial.verdict.supported else None

    def _asked_in(self, node: Node, form: NodeForm) -> _Trial | None:
        restated = restate(self._graph, node, form)
        if restated is None:
            return None
        return _Trial(self._request.target.verdict(restated.alone(), node, form.precision), restated)

    def _equal_forms(self, asked: NodeFormats) -> Iterator[NodeForm]:
        """Yield formats of single bytes, the graph's own sign first, with the scales of the weight as they are."""
        own = [item.dtype for item in asked.quantized if item.dtype in _BYTES]
        for dtype in dict.fromkeys((*((self._byte,) if self._byte else ()), *own, *_BYTES)):
            activation = NumberFormat(dtype)
            if asked.per_channel:
                yield NodeForm(activation, Precision.I8PC.weight, DType.I32, Precision.I8PC)
            else:
                yield NodeForm(activation, activation, DType.I32, _BYTES[dtype])

    def _nearest_forms(self, asked: NodeFormats) -> Iterator[NodeForm]:
        """Yield the target's precisions of at least as many bits, the fewest first, then those with as many scales."""
        bits = 8 * max(item.dtype.size_bytes for item in asked.quantized)
        able = [item for item in self._request.target.precisions if item.is_quantized and item.bits >= bits]
        key = {item: (item.bits, item.weight.per_channel is not asked.per_channel) for item in able}
        yield from (NodeForm.of(item) for item in sorted(able, key=lambda item: key[item]))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A verdict on a node, as it is in the graph or restated."""

    verdict: TargetVerdict
    restated: RestatedNode | None

    @property
    def change(self) -> Change:
        """Return what becomes of the node's values."""
        return Change.NONE if self.restated is None else self.restated.change

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is stated otherwise."""
        return () if self.restated is None else self.restated.notes


def _taken(node: Node, asked: NodeFormats, trial: _Trial, outcome: NodeOutcome) -> JudgedNode:
    """Return a node that the target takes."""
    placed = PlacedNode(Placement(trial.verdict.target, trial.verdict.precision), trial.restated)
    given = asked if trial.restated is None else formats_of(trial.restated.alone(), node)
    reason = "; ".join(trial.notes)
    return JudgedNode(node.name, node.op, node.origin, asked, outcome, placed, given, trial.verdict.engine, reason)


def _byte_of(formats: Iterable[NodeFormats]) -> DType | None:
    """Return the byte that all activations get, the commoner one, where signed and unsigned meet in a node; else None.

    Toolchains keep one kind: each place where both meet would need a conversion.
    """
    seen: Counter[DType] = Counter()
    meet = False
    for asked in formats:
        bytes_ = {item.dtype for item in asked.quantized if item.dtype in _BYTES}
        seen.update(bytes_)
        meet = meet or len(bytes_) > 1
    return seen.most_common(1)[0][0] if meet else None
