"""When a compiler refuses what its target said yes to: find the smallest part that it fails on, move that, and say so.

The failing partition is reduced to the nodes that fail by themselves or together. The last of their units that has a
further placement by the rule goes there: any one of them breaks the combination. The rest stays where the plan has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dovetail.backend.registry import find_target
from dovetail.bundle.bundle import Bundle
from dovetail.compile.failing import FailingPart, find_failing, remember_failing
from dovetail.compile.model import Compiler, CompileRequest, compile_model
from dovetail.errors import CompileError, CompileFailure
from dovetail.ir.graph import Graph
from dovetail.partition import PartitionedGraph, ReductionBudget, partition
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.resolve import unit_refusal
from dovetail.plan.units import Unit, find_units
from dovetail.quantize import Ranges, quantize


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What to compile and where offending units may go, in order; `budget` is for each failure."""

    graph: Graph
    plan: Plan
    ranges: Ranges
    rule: tuple[Placement, ...]
    compile: CompileRequest = field(default_factory=CompileRequest)
    overlap: bool = False
    budget: ReductionBudget = field(default_factory=ReductionBudget)
    advance: Callable[[int, int], None] = field(default=lambda tries, nodes: None)
    """Called with the parts that were tried in the search for a failing one, and the nodes of the smallest so far."""


@dataclass(frozen=True, slots=True)
class Move:
    """Which nodes went where, and why; `failing` are those that the compiler failed on, together if several."""

    nodes: tuple[str, ...]
    before: Placement
    after: Placement
    reason: str
    failing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was compiled in the end, the plan that it obeys and how that came about."""

    bundle: Bundle
    partitioned: PartitionedGraph
    plan: Plan
    moves: tuple[Move, ...]


def compile_repaired(request: RepairRequest) -> Repaired:
    """Return the compiled model after moving what compilers fail on.

    Raises CompileError, naming the nodes, when the rule has no place for what fails. Without any rule only crashes and
    hangs are searched for: a refusal names its node itself.
    """
    plan = request.plan
    moves: list[Move] = []
    with Compiler(request.compile) as compiler:
        while True:
            partitioned = partition(quantize(request.graph, plan, request.ranges), overlap=request.overlap)
            try:
                bundle = compile_model(partitioned, request.compile)
            except CompileError as error:
                if error.partition is None or not _is_searched(request, error):
                    raise
                part = partitioned.partitions[error.partition]
                owner = _owners(request.graph, part.graph, error)
                failing = find_failing(compiler, part, error, request.budget, request.advance)
                remember_failing(compiler, failing, request.graph, plan)
                for move in _moves(request, plan, owner, failing):
                    moves.append(move)
                    override = Override(move.after, f"moved from {move.before}: {move.reason}")
                    plan = replace(plan, overrides={**plan.overrides, **dict.fromkeys(move.nodes, override)})
                continue
            return Repaired(bundle, partitioned, plan, tuple(moves))


def _is_searched(request: RepairRequest, error: CompileError) -> bool:
    if error.failure is CompileFailure.KILLED:
        return False
    return bool(request.rule) or error.failure in (CompileFailure.CRASHED, CompileFailure.HUNG)


def _moves(request: RepairRequest, plan: Plan, owner: Mapping[str, Unit], failing: FailingPart) -> list[Move]:
    """Return how the units of a failing part move: one of them, or all where the part could not be made small."""
    found = list(dict.fromkeys(owner[node.name] for node in failing.nodes))
    places = [(unit, _next_place(request, plan, unit)) for unit in reversed(found)]
    able = [(unit, place) for unit, place in places if place is not None]
    if not able or (not failing.minimal and len(able) < len(found)):
        raise CompileError(
            f"{failing.label}: {plan.placement(found[-1].nodes[0])} said yes, and {failing.told('it')}",
            partition=failing.part.index,
            failure=failing.failure,
            hint="Give a further placement for it, such as cpu@fp32.",
            option="fallback",
        ).naming(node.name for node in failing.nodes)
    names = tuple(node.name for node in failing.nodes)
    chosen = able[:1] if failing.minimal else able
    told = failing.told(failing.label)
    return [Move(unit.nodes, plan.placement(unit.nodes[0]), place, told, names) for unit, place in chosen]


def _owners(whole: Graph, graph: Graph, error: CompileError) -> dict[str, Unit]:
    """Map every node of a partition to its unit; a conversion belongs to who reads it, else to who feeds it."""
    here = {node.name for node in graph.nodes}
    units = [Unit(unit.name, tuple(name for name in unit.nodes if name in here)) for unit in find_units(whole).items]
    owner = {name: unit for unit in units for name in unit.nodes}
    if not owner:
        raise error
    for node in graph.nodes:
        if node.name not in owner:
            users = [user for tensor in node.outputs for user in graph.consumers.get(tensor, ())]
            makers = [graph.producers[tensor] for tensor in node.inputs if tensor in graph.producers]
            known = (owner[one.name] for one in (*users, *makers) if one.name in owner)
            owner[node.name] = next(known, next(iter(owner.values())))
    return owner


def _next_place(request: RepairRequest, plan: Plan, unit: Unit) -> Placement | None:
    """Return the first placement of the rule, after the unit's own, that takes it."""
    before, rule = plan.placement(unit.nodes[0]), request.rule
    start = rule.index(before) + 1 if before in rule else 0
    left = [place for place in rule[start:] if place.target != before.target or place not in rule[:start]]
    targets = {place.target: find_target(place.target) for place in left}
    takers = (place for place in left if place != before and unit_refusal(request.graph, unit, place, targets) is None)
    return next(takers, None)
