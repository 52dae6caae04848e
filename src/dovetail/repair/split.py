"""Split nodes by the ranges of their weights: two parts, each with a scale of its own, joined again without a copy.

Output channels are put in the order of their ranges where everything that reads them can follow; else they are cut
where they are. The parts store what they make as the whole did, so that joining them moves and rescales nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.errors import PlanError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import joins_parts
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.statistics import Statistics
from dovetail.repair.base import Cause, Exactness, RepairBasis
from dovetail.repair.order import Reordering, find_reordering, is_depthwise
from dovetail.repair.parts import SplitGraph, split_node, stored_by
from dovetail.repair.weights import WeightView, weight_view

_MOST_BITS = 8.0
"""Bits that a channel can lose: of weights that are smaller still, nothing is left of 8 bits."""


@dataclass(frozen=True, slots=True)
class SplitRanges:
    """Split weighted nodes that would be raised for their own weights.

    A record has the part of every output channel, 0 or 1, by what a node makes. Nodes are split in the order of the
    graph; channels are counted in the order that they have by then.
    """

    kind: str = "split-ranges"

    @property
    def exactness(self) -> Exactness:
        """Return the claim."""
        return Exactness.EXACT

    @property
    def heals(self) -> tuple[Cause, ...]:
        """Return what it can do something about."""
        return (Cause.WEIGHTS,)

    def find(self, evidence: RepairBasis) -> RepairRecord | None:
        """Return the parts of the nodes to spare whose own weights are most of their noise."""
        graph, channels, settled = evidence.graph, dict[str, tuple[int, ...]](), set[str]()
        for name in () if evidence.per_channel else _candidates(evidence):
            view = weight_view(graph, graph.producers[name])
            assert view is not None
            reordering = find_reordering(graph, name)
            follows = set() if reordering is None else {stretch.tensor for stretch in reordering.stretches}
            peaks = np.abs(view.values).max(axis=(2, 3)).reshape(-1)
            free = reordering is not None and not follows & settled
            order = np.argsort(peaks, kind="stable") if free else np.arange(len(peaks))
            cut = _cut(peaks[order])
            if cut is None:
                continue
            parts = np.empty(len(peaks), np.int64)
            parts[order] = np.arange(len(peaks)) >= cut
            channels[name] = tuple(parts.tolist())
            settled |= follows
            graph = _Site.of(graph, name, channels[name]).split().graph
        return RepairRecord(self.kind, channels) if channels else None

    def carry(self, graph: Graph, calibration: Calibration, record: RepairRecord) -> Calibration:
        """Return the calibration in the new order, with every part stored as the whole was."""
        for site in _sites(graph, record):
            if site.reordering is not None:
                calibration = site.reordering.carry(calibration, site.order)
            calibration = site.split().carry(calibration)
        return calibration

    def apply(self, graph: Graph, record: RepairRecord) -> Graph:
        """Return the graph with split nodes; raise PlanError when the record does not fit it."""
        for site in _sites(graph, record):
            graph = site.split().graph
        return graph


@dataclass(frozen=True, slots=True)
class _Site:
    """A node to split in a graph in which the nodes before it are split."""

    graph: Graph
    node: Node
    order: AnyArray
    """The order in which the channels of every part lie together."""
    reordering: Reordering | None
    """None where they do as it is."""
    first: int
    """Channels of the first part."""

    @classmethod
    def of(cls, graph: Graph, tensor: str, parts: tuple[int, ...]) -> _Site:
        """Return where a record splits a graph."""
        node = graph.producers.get(tensor)
        view = None if node is None else weight_view(graph, node)
        if node is None or view is None or view.outputs != len(parts) or set(parts) != {0, 1}:
            raise PlanError(f"a repair parts the channels of '{tensor}', which has others.", hint="Repair this model.")
        order = np.argsort(np.asarray(parts), kind="stable")
        moves = bool((order != np.arange(len(order))).any())
        reordering = find_reordering(graph, tensor) if moves else None
        if moves and reordering is None:
            raise PlanError(f"a repair reorders '{tensor}', whose order others need.", hint="Repair this model.")
        return cls(graph, node, order, reordering, parts.count(0))

    def split(self) -> SplitGraph:
        """Return the graph with the node in parts."""
        graph = self.graph if self.reordering is None else self.reordering.apply(self.graph, self.order)
        return split_node(graph, graph.node(self.node.name), self.first)


def _sites(graph: Graph, record: RepairRecord) -> Iterator[_Site]:
    """Yield the sites of a record one after the other, each in the graph that the ones before it leave."""
    unknown = record.channels.keys() - graph.producers.keys()
    if unknown:
        raise PlanError(f"a repair parts '{min(unknown)}', which nothing makes.", hint="Repair this model.")
    for tensor in [name for node in graph.nodes for name in node.outputs if name in record.channels]:
        site = _Site.of(graph, tensor, record.channels[tensor])
        yield site
        graph = site.split().graph


def find_splits(evidence: RepairBasis) -> list[str]:
    """Return the weighted nodes that a split makes better, of those that may be split: with most to gain first.

    The gain is the noise power that goes, over the power of what the node makes, in the mean over its channels.
    """
    graph, gains = evidence.graph, dict[str, float]()
    for name in () if evidence.per_channel else _candidates(evidence):
        view = weight_view(graph, graph.producers[name])
        assert view is not None
        made = _figures(evidence.statistics, stored_by(graph, view.node).outputs[0])
        peaks = np.abs(view.values).max(axis=(2, 3)).reshape(-1)
        peaks = peaks if find_reordering(graph, name) is None else np.sort(peaks)
        cut = _cut(peaks)
        if cut is None or made is None or not made[0].sum() > 0:
            continue
        left = np.repeat([peaks[:cut].max(), peaks[cut:].max()], [cut, len(peaks) - cut]) / peaks.max()
        noise = _weight_noise(evidence.statistics, view)
        gains[view.node.name] = noise * float(1 - np.square(left).mean()) / float(made[0].mean())
    return sorted(gains, key=lambda name: -gains[name])


def _candidates(evidence: RepairBasis) -> list[str]:
    """Return what the nodes make that are to be spared and lose most by their own weights."""
    graph, made = evidence.graph, list[str]()
    for node in graph.nodes:
        view = weight_view(graph, node) if node.name in evidence.raised else None
        if view is None or (len(view.values) > 1 and not (is_depthwise(view) and node.op == "Conv")):
            continue
        if not _is_part(graph, node) and _weights_lead(graph, evidence.statistics, view):
            made.append(node.outputs[0])
    return made


def _is_part(graph: Graph, node: Node) -> bool:
    """Tell whether a node is a part already."""
    readers = graph.consumers.get(stored_by(graph, node).outputs[0], ())
    return any(joins_parts(graph, reader) for reader in readers)


def _weights_lead(graph: Graph, statistics: Statistics, view: WeightView) -> bool:
    """Tell whether the noise in a node's channels is, in the mean of them, mostly that of rounding its weights.

    Beside it there is that of rounding its input and its output. Steps are in proportion to ranges, and noise to the
    square of steps.
    """
    read, made = (_figures(statistics, name) for name in (view.node.inputs[0], stored_by(graph, view.node).outputs[0]))
    if read is None or made is None or len(read[0]) != view.inputs:
        return False
    read_span = read[1]
    weights = _weight_noise(statistics, view)
    others = read_span**2 * np.square(view.values).sum(axis=(2, 3)) + made[1] ** 2
    return weights > 0 and float((weights / (weights + others)).mean()) > 0.5


def _weight_noise(statistics: Statistics, view: WeightView) -> float:
    """Return the noise power of every channel by its weights, where the noise of a step of 255 is 1."""
    read = _figures(statistics, view.node.inputs[0])
    groups, _, _, taps = view.values.shape
    return 0.0 if read is None else _span(view.values) ** 2 * float(read[0].sum()) / groups * taps


def _figures(statistics: Statistics, tensor: str) -> tuple[AnyArray, float] | None:
    """Return the mean square of every channel of a tensor and the span of all its values."""
    for power in statistics.tensors.get(tensor, ()):
        if power.axis == 1:
            return power.mean_square, _span(np.concatenate([power.low, power.high]))
    return None


def _span(values: AnyArray) -> float:
    return float(max(values.max(), 0.0) - min(values.min(), 0.0))


def _cut(peaks: AnyArray) -> int | None:
    """Return where to cut channels with such ranges so that they lose fewest bits to the largest beside them.

    None where that gives no part half the range of the other: it would win less than a bit.
    """
    count = len(peaks)
    before = np.maximum.accumulate(peaks)
    after = np.maximum.accumulate(peaks[::-1])[::-1]
    lost = [_lost_bits(peaks[:cut], before[cut - 1]) + _lost_bits(peaks[cut:], after[cut]) for cut in range(1, count)]
    if not lost:
        return None
    cut = 1 + int(np.argmin(lost))
    low, high = sorted((float(before[cut - 1]), float(after[cut])))
    return cut if 0 < 2 * low <= high else None


def _lost_bits(peaks: AnyArray, largest: float) -> float:
    """Return the bits that channels lose where the largest sets the scale; what is 0 loses none."""
    live = peaks[peaks > 0]
    return float(np.minimum(np.log2(largest / live), _MOST_BITS).sum()) if live.size else 0.0
