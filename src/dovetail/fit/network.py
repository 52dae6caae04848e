"""Gather what a report draws of a network under the plan of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dovetail.backend.profiles.hosts import find_host
from dovetail.backend.registry import find_target
from dovetail.cost import PlanCost, UnitCost, load_cost_table, make_cost_model
from dovetail.errors import CostError, DovetailError
from dovetail.fit.promise import plan_units
from dovetail.fit.request import PriceRequest
from dovetail.ir import Graph
from dovetail.ir.macs import node_macs
from dovetail.ir.text import print_type
from dovetail.partition.partitioned import PartitionedGraph
from dovetail.plan import Plan, Unit
from dovetail.plan.placement import HOST
from dovetail.plan.units import Units
from dovetail.quantize import Calibration
from dovetail.report.network import DrawnNetwork, NetworkBorder, NetworkPart, NetworkPoint, NetworkUnit
from dovetail.search import TuneRequest, TuneResult
from dovetail.search.policy import SearchPolicy
from dovetail.search.prior import UnitPrior, rank_units
from dovetail.search.space import make_space

_CHANNELS = 32


def describe_network(
    asked: TuneRequest, result: TuneResult, parts: PartitionedGraph, price: PriceRequest
) -> DrawnNetwork:
    """Return the network under the plan of a search; `parts` is the plan's graph in partitions."""
    healed = result.repaired
    graph = asked.graph if healed is None else healed.graph
    calibration = asked.calibration if healed is None else healed.calibration
    plan = result.plan
    units = plan_units(graph, plan)
    # The search's own figures, a vendor's among them, where it priced its plan.
    cost = _cost(graph, plan, units, price) if result.certificate is None else result.certificate.cost
    gathered = _Gathered(graph, calibration, result, units, parts, _priors(graph, calibration, asked), cost)
    borders = (
        ()
        if cost is None
        else tuple(
            NetworkBorder(
                item.tensor, str(item.producer), str(item.consumer), item.transfer_bytes, item.figure.latency_ns
            )
            for item in cost.boundaries
        )
    )
    described = tuple(gathered.unit(unit) for unit in units.items)
    return DrawnNetwork(
        units=described,
        borders=borders,
        parts=tuple(_part(part.index, part.target, described) for part in parts.partitions),
        points=_points(result),
        switch_ns=0.0 if cost is None else cost.switch.latency_ns,
    )


def _part(index: int, target: str, units: tuple[NetworkUnit, ...]) -> NetworkPart:
    inside = [item for item in units if item.partition == index]
    known = [item.latency_ns for item in inside if item.latency_ns is not None]
    return NetworkPart(index, target, len(inside), sum(known) if len(known) == len(inside) else None)


def _points(result: TuneResult) -> tuple[NetworkPoint, ...]:
    sign = 1.0 if result.higher_is_better else -1.0
    if len(result.front) > 1:
        return tuple(
            NetworkPoint(item.latency_ns, len(item.raised), sign * item.score, item.meets_target, item.chosen)
            for item in result.front
        )
    return tuple(
        NetworkPoint(None, len(item.raised), sign * item.score, item.meets_target, item.chosen)
        for item in result.pareto
    )


def _priors(graph: Graph, calibration: Calibration, asked: TuneRequest) -> dict[str, UnitPrior]:
    try:
        space = make_space(graph, asked.low, asked.ladder)
    except DovetailError:
        return {}
    policy: SearchPolicy = asked.options.policy
    return {item.unit: item for item in rank_units(space, calibration, policy.prior)}


def _cost(graph: Graph, plan: Plan, units: Units, price: PriceRequest) -> PlanCost | None:
    targets = [find_target(name) for name in dict.fromkeys((*plan.targets, HOST))]
    tables = [load_cost_table(Path(path)) for path in price.tables]
    host = None if price.host is None else find_host(price.host)
    try:
        return make_cost_model(graph, units, targets, tables, host).plan_cost(plan)
    except CostError:
        return None


@dataclass(frozen=True)
class _Gathered:
    """Everything that units are described by."""

    graph: Graph
    calibration: Calibration
    result: TuneResult
    units: Units
    parts: PartitionedGraph
    priors: Mapping[str, UnitPrior]
    cost: PlanCost | None

    @cached_property
    def _costs(self) -> Mapping[str, UnitCost]:
        return {} if self.cost is None else {item.unit: item for item in self.cost.units}

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {node: index for index, unit in enumerate(self.units.items) for node in unit.nodes}

    @cached_property
    def _part(self) -> Mapping[str, int]:
        return {node.name: part.index for part in self.parts.partitions for node in part.graph.nodes}

    @cached_property
    def _without(self) -> Mapping[str, float]:
        sign = 1.0 if self.result.higher_is_better else -1.0
        return {item.unit: sign * item.trial.score for item in self.result.evidence}

    @cached_property
    def _roles(self) -> Mapping[str, str]:
        raised = {item.unit: "culprit" for item in self.result.culprits}
        return raised | {item.unit: "companion" for item in self.result.companions}

    def unit(self, unit: Unit) -> NetworkUnit:
        """Return what is known of a unit."""
        graph, first = self.graph, unit.nodes[0]
        place = self.result.plan.placement(first)
        nodes = [graph.node(name) for name in unit.nodes]
        own = self._index[first]
        made = [graph.producers[name] for node in nodes for name in node.inputs if name in graph.producers]
        sources = dict.fromkeys(self._index[node.name] for node in made if node.name in self._index)
        output = nodes[-1].outputs[0]
        limits = self.calibration.ranges.tensors.get(output)
        price, prior = self._costs.get(unit.name), self.priors.get(unit.name)
        role = self._roles.get(unit.name, "" if place == self.result.low else "refused")
        return NetworkUnit(
            name=unit.name,
            ops=" + ".join(node.op for node in nodes),
            nodes=unit.nodes,
            inputs=tuple(index for index in sources if index < own),
            target=place.target,
            precision=place.precision.value,
            bits=place.precision.bits,
            partition=self._part.get(first),
            role=role,
            reason="" if place == self.result.low else self.result.plan.reason(first),
            noise=None if prior is None else prior.score,
            noise_reason="" if prior is None else prior.reason,
            latency_ns=None if price is None else price.figure.latency_ns,
            source="" if price is None else f"{price.figure.quality.value}: {price.figure.source}",
            macs=sum(node_macs(graph, node) or 0 for node in nodes),
            shape=print_type(graph.types[output]),
            low=None if limits is None else limits.low,
            high=None if limits is None else limits.high,
            channels=self._channels(output),
            score_without=self._without.get(unit.name),
        )

    def _channels(self, tensor: str) -> tuple[float, ...]:
        """Return the RMS of channels, ascending; at most so many."""
        powers = self.calibration.statistics.tensors.get(tensor, ())
        if not powers:
            return ()
        values = sorted(float(value) ** 0.5 for value in powers[0].mean_square)
        if len(values) > _CHANNELS:
            values = [values[round(index * (len(values) - 1) / (_CHANNELS - 1))] for index in range(_CHANNELS)]
        return tuple(float(f"{value:.4g}") for value in values)
