"""Price what a target makes of a model that came quantised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.backend.modelled import BoardSettings
from dovetail.backend.profiles.hosts import find_host
from dovetail.backend.registry import find_target
from dovetail.compare.judgement import JudgedNode
from dovetail.cost import (
    BoundaryCost,
    ModelledPartition,
    PlanCost,
    load_cost_table,
    make_cost_model,
    model_tables,
    units_of_plan,
)
from dovetail.cost.modelled import model_placed
from dovetail.errors import CompileError, CostError
from dovetail.fit.request import Place
from dovetail.ir.graph import Graph
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.plan.resolve import placeable_units
from dovetail.quantize.boundaries import WORLD

_ONE_BYTE = 8


@dataclass(frozen=True, slots=True)
class JudgedPrice:
    """What a judged model costs; None with the reason where nothing prices it."""

    cost: PlanCost | None
    modelled: tuple[ModelledPartition, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PriceSources:
    """What prices are taken from, the best first: tables of measurements, a vendor's model where boards are given."""

    tables: tuple[Place, ...] = ()
    host: str | None = None
    boards: Mapping[str, BoardSettings] | None = None


def float_plan(graph: Graph, nodes: Sequence[JudgedNode], target: str) -> Plan:
    """Return the plan of the float form of a judged model: each node where it runs, at the precision it comes nearest.

    A clamp that only storage applies in the file goes with the node before it.
    """
    places = {item.node: item.place or WORLD for item in nodes}
    reasons = {item.node: item.reason or item.outcome.value for item in nodes}
    overrides: dict[str, Override] = {}
    for node in graph.nodes:
        known = node
        while known.name not in places and known.inputs and known.inputs[0] in graph.producers:
            known = graph.producers[known.inputs[0]]
        place = places.get(known.name, WORLD)
        overrides[node.name] = Override(place, reasons.get(known.name, "it is in no node of the file"))
    common = _commonest([item.placement for item in overrides.values() if item.placement.target == target])
    kept = {name: item for name, item in overrides.items() if item.placement != common}
    return Plan(graph.digest, common, kept)


def price_judged(graph: Graph, plan: Plan, placed: QuantizedGraph, sources: PriceSources) -> JudgedPrice:
    """Return what a plan of the float form costs; conversions only where the placed model has them.

    Raises CostError for an unknown host, a table that cannot be read, and a vendor's model that is not here.
    """
    host = None if sources.host is None else find_host(sources.host)
    tables = tuple(load_cost_table(Path(path)) for path in sources.tables)
    targets = {name: find_target(name) for name in dict.fromkeys((*plan.targets, HOST))}
    modelled: tuple[ModelledPartition, ...] = ()
    if sources.boards is not None:
        try:
            modelled = model_placed(placed, graph, sources.boards)
        except CompileError as error:
            return JudgedPrice(None, reason=str(error))
    try:
        units = units_of_plan(placeable_units(graph, plan.default, targets), plan)
        model = make_cost_model(graph, units, list(targets.values()), (*tables, *model_tables(modelled)), host)
        cost = model.plan_cost(plan)
    except CostError as error:
        return JudgedPrice(None, reason=str(error))
    stored = tuple(item for item in cost.boundaries if _is_there(graph, placed.graph, item))
    return JudgedPrice(replace(cost, boundaries=stored), modelled)


def _is_there(graph: Graph, placed: Graph, boundary: BoundaryCost) -> bool:
    """Tell whether a boundary of the plan is one of the placed model.

    Precisions pair activations with weights: bytes of one kind beside weights of another have two names and are no
    conversion.
    """
    ends = (boundary.producer, boundary.consumer)
    if ends[0].target != ends[1].target or any(place.precision.bits != _ONE_BYTE for place in ends):
        return True
    same = {boundary.tensor, graph.origin_of(boundary.tensor)}
    return len({kind.dtype for name, kind in placed.types.items() if placed.origin_of(name) in same}) > 1


def _commonest(places: Sequence[Placement]) -> Placement:
    return max(dict.fromkeys(places), key=places.count, default=WORLD)
