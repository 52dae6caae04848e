"""Predictions of what the partitions of a bundle take, for a table beside what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dovetail.backend.costs import CostSource
from dovetail.backend.profiles.hosts import HostFacts
from dovetail.backend.registry import find_target
from dovetail.bundle.bundle import Bundle
from dovetail.cost.model import CostModel, make_cost_model, units_of_plan
from dovetail.errors import CostError
from dovetail.ir.graph import Graph
from dovetail.plan.units import Unit, find_units


def predict_partitions(
    bundle: Bundle, graph: Graph, extra: Sequence[CostSource] = (), host: HostFacts | None = None
) -> Bundle:
    """Return the bundle with the units of every partition, the engines that run them and what they should take.

    `graph` is the float model of the plan. The prediction is of the units' work, without conversions and transfers; a
    unit counts where its first node is. Where one unit has no price the partition has none.
    """
    units = units_of_plan(find_units(graph), bundle.plan)
    targets = [find_target(name) for name in dict.fromkeys((*bundle.plan.targets, "cpu"))]
    model = make_cost_model(graph, units, targets, extra, host)
    parts = []
    for part in bundle.partitions:
        here = set(part.nodes)
        inside = [unit for unit in units.items if unit.nodes[0] in here]
        latency_ns, by = _price(model, inside, bundle)
        engines = Counter(_engine(graph, bundle, unit.nodes[0]) for unit in inside)
        counted = dict(sorted(engines.items()))
        parts.append(replace(part, units=len(inside), predicted_ns=latency_ns, predicted_by=by, engines=counted))
    return replace(bundle, partitions=tuple(parts))


def _engine(graph: Graph, bundle: Bundle, node: str) -> str:
    """Return the name of what runs a node; `?` where its target does not say, as for what was healed by hand."""
    place = bundle.plan.placement(node)
    engine = find_target(place.target).verdict(graph, graph.node(node), place.precision).engine
    return "?" if engine is None else engine.value


def _price(model: CostModel, units: Sequence[Unit], bundle: Bundle) -> tuple[float | None, str]:
    try:
        figures = [model.unit_figure(unit, bundle.plan.placement(unit.nodes[0])) for unit in units]
    except CostError:
        return None, ""
    if not figures:
        return None, ""
    return sum(item.latency_ns for item in figures), "; ".join(dict.fromkeys(item.source for item in figures))
