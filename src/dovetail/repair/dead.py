"""Dead channels: what a Relu always cuts off still widens the ranges of weights; zero takes no range."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import PlanError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.passes.draft import Draft
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.statistics import Statistics
from dovetail.repair.base import Cause, Exactness, RepairBasis
from dovetail.repair.weights import WeightView, store_weights, weight_view

_CUTS = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class ZeroDeadChannels:
    """Set to zero the weights of channels that are 0 on every sample, and those that read them.

    A record lists the dead channels by tensor: what a weighted node makes, or reads.
    """

    kind: str = "dead-channels"

    @property
    def exactness(self) -> Exactness:
        """Return the claim."""
        return Exactness.ON_DATA

    @property
    def heals(self) -> tuple[Cause, ...]:
        """Return what it can do something about."""
        return (Cause.WEIGHTS,)

    def find(self, evidence: RepairBasis) -> RepairRecord | None:
        """Return the dead channels whose weights are not zero yet."""
        graph, channels = evidence.graph, dict[str, tuple[int, ...]]()
        for node in graph.nodes:
            view = weight_view(graph, node)
            if view is None:
                continue
            rows = _dead(evidence.statistics, _after_cut(graph, node.outputs[0]), view.outputs)
            columns = _dead(evidence.statistics, node.inputs[0], view.inputs)
            bias = np.zeros(view.outputs) if view.bias is None else view.bias
            live_rows = np.abs(view.values).max(axis=(2, 3)).reshape(-1) + np.abs(bias) > 0
            live_columns = np.abs(view.values).max(axis=(1, 3)).reshape(-1) > 0
            if (rows & live_rows).any():
                channels[node.outputs[0]] = tuple(np.flatnonzero(rows).tolist())
            if (columns & live_columns).any():
                channels[node.inputs[0]] = tuple(np.flatnonzero(columns).tolist())
        return RepairRecord(self.kind, channels) if channels else None

    def carry(self, graph: Graph, calibration: Calibration, record: RepairRecord) -> Calibration:
        """Return the calibration as it is: what is 0 stays 0."""
        return calibration

    def apply(self, graph: Graph, record: RepairRecord) -> Graph:
        """Return the graph with zeros for weights; raise PlanError when the record does not fit it."""
        draft = Draft.of(graph)
        for node in graph.nodes:
            made, read = (record.channels.get(name) for name in (node.outputs[0], *node.inputs[:1]))
            view = weight_view(graph, node) if made or read else None
            if view is not None:
                store_weights(draft, _zeroed(view, made or (), read or ()))
        return draft.graph()


def _after_cut(graph: Graph, tensor: str) -> str:
    """Return what is left of a tensor after the clamps that alone read it."""
    while True:
        readers = graph.consumers.get(tensor, ())
        if len(readers) != 1 or readers[0].op not in _CUTS or readers[0].domain or tensor in graph.outputs:
            return tensor
        tensor = readers[0].outputs[0]


def _dead(statistics: Statistics, tensor: str, count: int) -> AnyArray:
    for power in statistics.tensors.get(tensor, ()):
        if power.axis == 1 and len(power.low) == count:
            dead: AnyArray = (power.low == 0) & (power.high == 0)
            return dead
    return np.zeros(count, bool)


def _zeroed(view: WeightView, made: tuple[int, ...], read: tuple[int, ...]) -> WeightView:
    if max(made, default=0) >= view.outputs or max(read, default=0) >= view.inputs or min((*made, *read)) < 0:
        raise PlanError(f"a repair of {view.node.label} names channels that it lacks.", hint="Repair this model.")
    groups, outputs, inputs, _ = view.values.shape
    rows, columns = np.ones(view.outputs), np.ones(view.inputs)
    rows[list(made)], columns[list(read)] = 0.0, 0.0
    values = view.values * rows.reshape(groups, outputs, 1, 1) * columns.reshape(groups, 1, inputs, 1)
    return replace(view, values=values, bias=None if view.bias is None else view.bias * rows)
