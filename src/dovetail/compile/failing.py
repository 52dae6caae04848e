"""When a compiler fails on a partition: the smallest part of it that it still fails on, named and remembered."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dovetail.backend.failures import REMEMBERED
from dovetail.compile.model import SLOWER, Compiler, CompileRequest
from dovetail.errors import CompileError, CompileFailure
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.partition.partitioned import Partition, PartitionedGraph
from dovetail.partition.schedule import part_of_graph
from dovetail.partition.smallest import PartReduction, ReductionBudget
from dovetail.plan.plan import Plan

_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class FailingPart:
    """The smallest part of a partition that its compiler was found to fail on."""

    part: Partition
    failure: CompileFailure | None
    reason: str
    """What the compiler said of it, or what became of the compiler."""
    software: str
    """What compiles, with its version."""
    minimal: bool = True
    """Whether no node can be left out; False where the budget ended before."""
    known: bool = False
    """Whether the failure was remembered: nothing was compiled to find it."""
    left_s: float = math.inf
    """What was left of the budget when it was found."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes, in order."""
        return self.part.graph.nodes

    def told(self, what: str) -> str:
        """Return what the compiler does, of the nodes by this name."""
        if self.known:
            return f"{what}: {self.reason}" if what == self.label and len(self.nodes) > 1 else self.reason
        how = CompileFailure.REFUSED if self.failure is None else self.failure
        more = "" if self.minimal else " (the budget ended before every smaller part was tried)"
        return f"{self.software} {how.value} {what}{more}: {self.reason}"

    @property
    def label(self) -> str:
        """Return the nodes as messages name them."""
        return nodes_label(self.nodes)


def nodes_label(nodes: tuple[Node, ...]) -> str:
    """Return nodes as messages name them: node 'a' (Op), or nodes 'a' (Op) and 'b' (Op) together."""
    if len(nodes) == 1:
        return nodes[0].label
    names = [f"'{node.name}' ({node.op})" for node in nodes]
    if len(names) > _MOST_NAMED:
        names[_MOST_NAMED - 1 :] = [f"{len(names) - _MOST_NAMED + 1} more"]
    return f"nodes {', '.join(names[:-1])} and {names[-1]} together"


def find_failing(
    compiler: Compiler,
    part: Partition,
    error: CompileError,
    budget: ReductionBudget,
    advance: Callable[[int, int], None],
) -> FailingPart:
    """Return the smallest part of a partition that fails as the whole did."""
    if error.nodes:
        named = part_of_graph(part.graph, [part.graph.node(name) for name in error.nodes])
        return FailingPart(
            Partition(part.index, part.target, named), error.failure, plain_reason(error), "", known=True
        )
    reasons: dict[frozenset[str], str] = {}

    def fails(graph: Graph) -> bool:
        try:
            compiler.compile(Partition(part.index, part.target, graph))
        except CompileError as failure:
            if failure.failure is not error.failure:
                return False
            reasons[frozenset(node.name for node in graph.nodes)] = plain_reason(failure)
            return True
        return False

    search = PartReduction(part.graph, fails, budget, advance)
    graph = search.run()
    reason = reasons.get(frozenset(node.name for node in graph.nodes), plain_reason(error))
    software = compiler.software(part.target)
    return FailingPart(
        Partition(part.index, part.target, graph),
        error.failure,
        reason,
        software,
        search.minimal,
        left_s=search.left_s,
    )


def named_error(
    request: CompileRequest, partitioned: PartitionedGraph, error: CompileError, graph: Graph, budget: ReductionBudget
) -> CompileError:
    """Return an error that names the smallest part that a compiler crashes or hangs on, and remember that part.

    Any other error is returned as it is; `graph` is the one that was quantised.
    """
    if error.failure not in REMEMBERED or error.nodes or error.partition is None:
        return error
    with Compiler(request) as compiler:
        part, plan = partitioned.partitions[error.partition], partitioned.source.plan
        failing = find_failing(compiler, part, error, budget, lambda tries, nodes: None)
        remember_failing(compiler, failing, graph, plan)
    return CompileError(
        f"{failing.label}: {part.target} said yes, and {failing.told('it')}",
        partition=error.partition,
        failure=error.failure,
        hint=error.hint,
    ).naming(node.name for node in failing.nodes)


def remember_failing(compiler: Compiler, failing: FailingPart, graph: Graph | None, plan: Plan | None) -> bool:
    """Keep a failing part that crashes or hangs a second time, alone; tell whether it was kept.

    A hang is given twice the time, if that is left of the budget: a machine may just have been busy.
    A single node is tried by its stand-in too, whose scales and weights are no real ones: where that fails as well,
    the target's verdict on the node says so before anything is quantised.
    """
    if failing.failure not in REMEMBERED or failing.known:
        return False
    assert failing.failure is not None
    if failing.failure is CompileFailure.HUNG and compiler.limit_s * SLOWER > failing.left_s:
        return False
    if not compiler.fails_again(failing.part, failing.failure):
        return False
    kept = compiler.remember(failing.part, failing.failure, failing.reason)
    if kept and len(failing.nodes) == 1 and graph is not None and plan is not None:
        alike = compiler.stand_in(graph, failing.nodes[0].name, plan)
        if alike is not None and compiler.fails_again(alike, failing.failure):
            compiler.remember(alike, failing.failure, failing.reason)
    return kept


def plain_reason(error: CompileError) -> str:
    """Return what was said before the partition was named."""
    inner = error.__cause__
    return inner.message if isinstance(inner, CompileError) else error.message
