"""When a compiler refuses what its target said yes to: find the units that it fails on and move those, and say so.

The partition is bisected to the offending units; they go to the next placement of the rule, the rest stays where the
plan has it. Nothing moves where the rule has no placement left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dovetail.backend.registry import find_target
from dovetail.bisection import boundary, unsettled
from dovetail.bundle.bundle import Bundle
from dovetail.compile.model import Compiler, CompileRequest, compile_model
from dovetail.errors import CompileError
from dovetail.ir.graph import Graph
from dovetail.partition import PartitionedGraph, partition
from dovetail.partition.partitioned import Partition
from dovetail.partition.schedule import part_of_graph
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.resolve import unit_refusal
from dovetail.plan.units import Unit, find_units
from dovetail.quantize import Ranges, quantize


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What to compile and where offending units may go, in order."""

    graph: Graph
    plan: Plan
    ranges: Ranges
    rule: tuple[Placement, ...]
    compile: CompileRequest = field(default_factory=CompileRequest)
    overlap: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Which nodes went where, and why."""

    nodes: tuple[str, ...]
    before: Placement
    after: Placement
    reason: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was compiled in the end, the plan that it obeys and how that came about."""

    bundle: Bundle
    partitioned: PartitionedGraph
    plan: Plan
    moves: tuple[Move, ...]


def compile_repaired(request: RepairRequest) -> Repaired:
    """Return the compiled model after moving what compilers fail on.

    Raises CompileError, naming the units, when the rule has no place for one of them.
    """
    graph, plan = request.graph, request.plan
    moves: list[Move] = []
    with Compiler(request.compile) as compiler:
        while True:
            partitioned = partition(quantize(graph, plan, request.ranges), overlap=request.overlap)
            try:
                bundle = compile_model(partitioned, request.compile)
            except CompileError as error:
                if error.partition is None:
                    raise
                part = partitioned.partitions[error.partition]
                for unit, reason in _offenders(compiler, graph, part, error):
                    move = _move(request, plan, unit, reason)
                    moves.append(move)
                    override = Override(move.after, f"moved from {move.before}: {reason}")
                    plan = Plan(
                        plan.graph_digest, plan.default, {**plan.overrides, **dict.fromkeys(unit.nodes, override)}
                    )
                continue
            return Repaired(bundle, partitioned, plan, tuple(moves))


def _offenders(compiler: Compiler, graph: Graph, part: Partition, error: CompileError) -> list[tuple[Unit, str]]:
    """Return the units of a partition that its compiler fails on, with what it said."""
    here = {node.name for node in part.graph.nodes}
    units = [Unit(unit.name, tuple(name for name in unit.nodes if name in here)) for unit in find_units(graph).items]
    units = [unit for unit in units if unit.nodes]
    if not units:
        raise error
    owners = _owners(part.graph, units)
    reasons: dict[str, str] = {}

    def compiles(some: Sequence[Unit]) -> bool:
        names = {name for unit in some for name in owners[unit.name]}
        nodes = [node for node in part.graph.nodes if node.name in names]
        try:
            compiler.compile(Partition(part.index, part.target, part_of_graph(part.graph, nodes)))
        except CompileError as failure:
            reasons[some[0].name] = failure.message
            return False
        return True

    if len(units) == 1:
        return [(units[0], error.message)]
    half = len(units) // 2
    alone = unsettled((units[:half], units[half:]), compiles)
    if alone:
        return [(unit, reasons[unit.name]) for unit in alone]
    last = boundary(half, len(units), lambda count: not compiles(units[:count]))
    return [(units[last - 1], f"{error.message} (only together with units before it)")]


def _owners(graph: Graph, units: Sequence[Unit]) -> dict[str, list[str]]:
    """Map every unit to its nodes in a partition, with the conversions that only they read or feed."""
    owner = {name: unit.name for unit in units for name in unit.nodes}
    for node in graph.nodes:
        if node.name not in owner:
            users = [user for tensor in node.outputs for user in graph.consumers.get(tensor, ())]
            makers = [graph.producers[tensor] for tensor in node.inputs if tensor in graph.producers]
            known = [owner[one.name] for one in (*users, *makers) if one.name in owner]
            owner[node.name] = known[0] if known else units[0].name
    owners: dict[str, list[str]] = {unit.name: [] for unit in units}
    for name, unit in owner.items():
        owners[unit].append(name)
    return owners


def _move(request: RepairRequest, plan: Plan, unit: Unit, reason: str) -> Move:
    before = plan.placement(unit.nodes[0])
    rule = request.rule
    start = rule.index(before) + 1 if before in rule else 0
    left = [place for place in rule[start:] if place.target != before.target or place not in rule[:start]]
    targets = {place.target: find_target(place.target) for place in left}
    for place in left:
        if place != before and unit_refusal(request.graph, unit, place, targets) is None:
            return Move(unit.nodes, before, place, reason)
    raise CompileError(
        f"{unit.name}: {before} said yes to it, and its compiler fails: {reason}",
        hint="Give a further placement for it, such as cpu@fp32.",
        option="fallback",
    )
