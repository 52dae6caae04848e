"""Free gates: a product of a tensor with its own gate (SiLU and its like) lets channels be scaled.

`x * sigmoid(x)` ties the scale of x to what the sigmoid expects, so that one scale has to do for channels of very
different ranges. A depthwise convolution by ones between x and the sigmoid changes nothing of the float function, and
takes up any scales: an equalisation that follows gives x and the product such as bring all channels to like ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import PlanError
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.types import TensorType
from dovetail.passes.draft import Draft
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.statistics import Statistics
from dovetail.repair.base import Cause, Exactness, RepairBasis
from dovetail.repair.scales import channel_span
from dovetail.repair.ties import SATURATED, Ties, find_ties
from dovetail.repair.weights import weight_view

_BENT = frozenset({"Exp", "Softplus"})
"""Operators between a tensor and the end of its gate: Mish is x * tanh(softplus(x))."""
_LEAST_BITS = 1.0
"""Bits that channels lose in the mean to the largest beside them, from which on freeing them can pay."""
_MOST_BITS = 8.0
"""Bits that a channel can lose: of one that is smaller still, nothing is left of 8 bits."""


@dataclass(frozen=True, slots=True)
class FreeGates:
    """Put a depthwise convolution by ones before the gates of some tensors.

    A record names the tensors, without numbers.
    """

    kind: str = "free-gates"

    @property
    def exactness(self) -> Exactness:
        """Return the claim."""
        return Exactness.EXACT

    @property
    def heals(self) -> tuple[Cause, ...]:
        """Return what it can do something about, with an equalisation of stored tensors behind it."""
        return (Cause.ACTIVATIONS,)

    def find(self, evidence: RepairBasis) -> RepairRecord | None:
        """Return those of the gates that are asked for that the graph has."""
        found = {name: () for name in evidence.gates if _gate(evidence.graph, name) is not None}
        return RepairRecord(self.kind, found) if found else None

    def carry(self, graph: Graph, calibration: Calibration, record: RepairRecord) -> Calibration:
        """Return the calibration; what the convolutions make is what they read."""
        ranges, means = dict(calibration.ranges.tensors), dict(calibration.ranges.means)
        powers = dict(calibration.statistics.tensors)
        for old, new in _inserted(graph, record)[1].items():
            ranges.update({new: ranges[old]} if old in ranges else {})
            means.update({new: means[old]} if old in means else {})
            powers.update({new: powers[old]} if old in powers else {})
        return replace(
            calibration,
            ranges=replace(calibration.ranges, tensors=ranges, means=means),
            statistics=Statistics(powers),
        )

    def apply(self, graph: Graph, record: RepairRecord) -> Graph:
        """Return the graph with the convolutions; raise PlanError when the record does not fit it."""
        return _inserted(graph, record)[0]


@dataclass(frozen=True, slots=True)
class _Gate:
    """A tensor that is multiplied by its own gate."""

    tensor: str
    chain: tuple[Node, ...]
    """From the node that reads the tensor to the one that makes the other factor."""
    product: str


def find_gates(graph: Graph, statistics: Statistics) -> list[tuple[str, ...]]:
    """Return the tensors whose gates can be freed, those together that are scaled together, with most to gain first."""
    gates = list(_gates(graph))
    if not gates:
        return []
    freed = FreeGates().apply(graph, RepairRecord("free-gates", {gate.tensor: () for gate in gates}))
    ties = find_ties(freed)
    groups: dict[int, list[_Gate]] = {}
    for gate in gates:
        classes = ties.of(gate.product)
        if not ties.pinned[classes].all():
            groups.setdefault(int(ties.components[classes[0]]), []).append(gate)
    lost = {number: _lost_bits(ties, statistics, group) for number, group in groups.items()}
    order = sorted((number for number in groups if lost[number] >= _LEAST_BITS), key=lambda number: -lost[number])
    return [tuple(gate.tensor for gate in groups[number]) for number in order]


def spared_nodes(graph: Graph, tensors: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the nodes that make and multiply tensors whose gates are freed, and the weighted ones that read this."""
    near, readers = set[str](), set[str]()
    for tensor in tensors:
        gate = _gate(graph, tensor)
        if gate is None:
            continue
        near |= {graph.producers[tensor].name, graph.producers[gate.product].name, *(node.name for node in gate.chain)}
        after = graph.consumers.get(gate.product, ())
        readers |= {node.name for node in after if weight_view(graph, node) is not None}
    return frozenset(near), frozenset(readers)


def _lost_bits(ties: Ties, statistics: Statistics, gates: Sequence[_Gate]) -> float:
    """Return the bits that channels lose to the largest beside them, in the mean over a group of products."""
    means = [0.0]
    for gate in gates:
        span = channel_span(statistics, gate.product, ties.counts)
        peaks = np.zeros(1) if span is None else np.maximum(-span[0], span[1])
        live = peaks[peaks > 0]
        if live.size:
            means.append(float(np.minimum(np.log2(live.max() / live), _MOST_BITS).mean()))
    return max(means)


def _gates(graph: Graph) -> Iterator[_Gate]:
    captured = {name for node in graph.nodes for body in node.bodies() for name in body.captures}
    for node in graph.nodes:
        tensor = node.outputs[0] if node.outputs else ""
        if weight_view(graph, node) is None or tensor in captured or tensor in graph.outputs:
            continue
        gate = _gate(graph, tensor)
        if gate is not None:
            yield gate


def _gate(graph: Graph, tensor: str) -> _Gate | None:
    """Return the gate of a tensor that is read by it and by the product alone; None where there is none."""
    kind, readers = graph.types.get(tensor), graph.consumers.get(tensor, ())
    if kind is None or kind.shape is None or len(kind.shape) not in (3, 4) or not isinstance(kind.shape[1], int):
        return None
    products = [node for node in readers if node.op == "Mul" and not node.domain and tensor in node.inputs]
    firsts = [node for node in readers if node not in products]
    if len(readers) != 2 or len(products) != 1 or not kind.dtype.is_float or kind.quant is not None:
        return None
    first, product = firsts[0], products[0]
    chain = [first]
    while chain[-1].op in _BENT and not chain[-1].domain and len(graph.consumers.get(chain[-1].outputs[0], ())) == 1:
        chain.append(graph.consumers[chain[-1].outputs[0]][0])
    end = chain[-1]
    factor = next((name for name in product.inputs if name != tensor), tensor)
    ends = end.op in SATURATED and end.op != "Softmax" and not end.domain and end.outputs[0] == factor
    alone = first.inputs.count(tensor) == 1 and product.inputs.count(tensor) == 1
    whole = graph.types[product.outputs[0]].shape == kind.shape
    return _Gate(tensor, tuple(chain), product.outputs[0]) if ends and alone and whole else None


def _inserted(graph: Graph, record: RepairRecord) -> tuple[Graph, dict[str, str]]:
    """Return the graph with the convolutions of a record, and what they make by what they read."""
    draft, made = Draft.of(graph), dict[str, str]()
    for tensor in record.channels:
        gate = _gate(graph, tensor)
        if gate is None:
            raise PlanError(f"a repair frees the gate of '{tensor}', which has none.", hint="Repair this model.")
        kind, first = graph.types[tensor], gate.chain[0]
        assert kind.shape is not None
        channels = kind.shape[1]
        assert isinstance(channels, int)
        label = draft.node_name(f"{first.name}/scale")
        weight, made[tensor] = draft.fresh(f"{label}/weight"), draft.fresh(f"{tensor}/scaled")
        ones = np.ones((channels, 1, *(1 for _ in kind.shape[2:])), kind.dtype.carrier)
        draft.constants[weight], draft.types[weight] = ones, TensorType(kind.dtype, ones.shape)
        draft.types[made[tensor]] = kind
        attributes = {"group": channels, "kernel_shape": ones.shape[2:]}
        draft.nodes.append(Node(label, "Conv", (tensor, weight), (made[tensor],), attributes, origin=first.origin))
        place = next(index for index, node in enumerate(draft.nodes) if node.name == first.name)
        inputs = tuple(made[tensor] if name == tensor else name for name in first.inputs)
        draft.nodes[place] = replace(first, inputs=inputs)
    return draft.graph(), made
