"""Bias correction: which biases take up what rounding the weights shifts; the quantiser does it, plan by plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.passes.draft import Draft
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.correction import CORRECTED
from dovetail.quantize.statistics import Statistics
from dovetail.repair.base import Cause, Exactness, RepairBasis
from dovetail.repair.weights import store_weights, weight_view


@dataclass(frozen=True, slots=True)
class CorrectBiases:
    """Let the quantiser correct biases for what rounding the weights shifts on average.

    A record names the tensors whose biases are corrected; applying it gives a zero bias where there is none.
    """

    kind: str = "bias-correction"

    @property
    def exactness(self) -> Exactness:
        """Return the claim."""
        return Exactness.QUANTISED

    @property
    def heals(self) -> tuple[Cause, ...]:
        """Return what it can do something about."""
        return (Cause.WEIGHTS,)

    def find(self, evidence: RepairBasis) -> RepairRecord | None:
        """Return the outputs of the nodes that read a tensor whose means are known."""
        nodes = [node for node in evidence.graph.nodes if _mean(evidence.graph, evidence.statistics, node) is not None]
        return RepairRecord(self.kind, {node.outputs[0]: () for node in nodes}) if nodes else None

    def carry(self, graph: Graph, calibration: Calibration, record: RepairRecord) -> Calibration:
        """Return the calibration with the mean of every input channel that a correction needs."""
        means: dict[str, tuple[float, ...]] = {}
        for node in graph.nodes:
            mean = _mean(graph, calibration.statistics, node) if node.outputs[0] in record.channels else None
            if mean is not None:
                means[node.inputs[0]] = mean
        return replace(calibration, ranges=replace(calibration.ranges, means=means))

    def apply(self, graph: Graph, record: RepairRecord) -> Graph:
        """Return the graph with a bias for every node that is corrected."""
        draft = Draft.of(graph)
        for node in graph.nodes:
            view = weight_view(graph, node) if node.outputs[0] in record.channels else None
            if view is not None and view.bias is None:
                store_weights(draft, replace(view, bias=np.zeros(view.outputs)))
        return draft.graph()


def _mean(graph: Graph, statistics: Statistics, node: Node) -> tuple[float, ...] | None:
    view = weight_view(graph, node) if node.op in CORRECTED else None
    if view is None or (view.bias is None and node.number("beta", 1.0) != 1.0):
        return None
    for power in statistics.tensors.get(node.inputs[0], ()):
        if power.axis == 1 and len(power.mean) == view.inputs:
            return tuple(power.mean.tolist())
    return None
