"""A model in up to three: what runs before the accelerator, the core, and what runs behind it.

The three in a row compute what the model does. Branches of a head that were joined into one output get one each.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from dovetail.errors import PlanError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.node import Node
from dovetail.ir.roles import weight_layout
from dovetail.partition.schedule import part_of_graph
from dovetail.plan.placement import HOST
from dovetail.plan.plan import Plan
from dovetail.quantize.calibrate import load_float
from dovetail.quantize.ranges import Ranges
from dovetail.repair.healing import relative_error


@dataclass(frozen=True, slots=True)
class ModelParts:
    """A model in parts; None where there is nothing before or behind."""

    before: Graph | None
    core: Graph
    after: Graph | None

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Return the parts in the order in which they run."""
        return tuple(graph for graph in (self.before, self.core, self.after) if graph is not None)


def parts_by_plan(graph: Graph, plan: Plan) -> ModelParts:
    """Return the parts of a model of which a plan leaves the beginning, the end or both to the CPU.

    Raises PlanError where it leaves neither, or everything.
    """
    on_cpu = {node.name for node in graph.nodes if plan.placement(node.name).target == HOST}
    after = _closed(graph, on_cpu)
    before = _first(graph, on_cpu - after)
    if not before and not after:
        raise PlanError(
            "the plan leaves neither the beginning nor the end of the model to the CPU: there is nothing to part.",
            hint="Cut behind its last weights, or at tensors.",
        )
    return _parted(graph, before, after)


def parts_at(graph: Graph, tensors: Sequence[str]) -> ModelParts:
    """Return a model in two: behind the cut is what depends on some tensors; raise PlanError for what is no cut."""
    for name in tensors:
        if name not in graph.producers:
            near = difflib.get_close_matches(name, graph.producers, n=3, cutoff=0.5)
            names = " or ".join(f"'{item}'" for item in near or list(graph.producers)[-3:])
            raise PlanError(f"no node makes tensor '{name}'.", hint=f"There are {names}, for example.")
    cut = set(tensors)
    after: set[str] = set()
    for node in graph.nodes:
        if cut.intersection(read_tensors(node)):
            after.add(node.name)
            cut.update(name for name in node.outputs if name)
    if not after:
        raise PlanError("nothing reads these tensors: they are outputs already.", hint="Cut further ahead.")
    return _parted(graph, set(), after)


def head_tensors(graph: Graph) -> tuple[str, ...]:
    """Return what the last nodes with weights make: the raw branches of a head.

    Raises PlanError where they are the outputs already.
    """
    read: set[str] = set()
    last: list[str] = []
    for node in reversed(graph.nodes):
        weighted = weight_layout(graph, node) is not None
        made = [name for name in node.outputs if name]
        if weighted and not read.intersection(made):
            last.extend(made)
        if weighted or read.intersection(made):
            read.update(read_tensors(node))
    if all(name in graph.outputs for name in last):
        raise PlanError("the last nodes with weights make the outputs already: there is no head behind them.")
    return tuple(reversed(last))


def plan_of_part(plan: Plan, part: Graph) -> Plan:
    """Return what a plan says of a part of its graph; repairs are in the part."""
    names = {node.name for node in part.nodes}
    kept = {name: item for name, item in plan.overrides.items() if name in names}
    return Plan(part.digest, plan.default, kept)


def ranges_of_part(ranges: Ranges, part: Graph) -> Ranges:
    """Return the ranges of the tensors of a part."""
    return replace(
        ranges,
        graph_digest=part.digest,
        tensors={name: item for name, item in ranges.tensors.items() if name in part.types},
        means={name: item for name, item in ranges.means.items() if name in part.types},
    )


def parts_error(graph: Graph, parts: ModelParts, samples: Iterable[Mapping[str, AnyArray]]) -> float:
    """Return by how much the parts in a row differ from the model, as a share of an output's largest value."""
    worst = 0.0
    with ExitStack() as stack:
        whole = stack.enter_context(closing(load_float(graph)))
        rooms = [(part, stack.enter_context(closing(load_float(part)))) for part in parts.graphs]
        for sample in samples:
            values = dict(sample)
            for part, model in rooms:
                values |= model.run({name: values[name] for name in part.inputs})
            expected = whole.run(sample)
            worst = max([worst, *(relative_error(expected[name], values[name]) for name in graph.outputs)])
    return worst


def _closed(graph: Graph, names: Set[str]) -> set[str]:
    """Return the nodes of a set of which all that follows is in the set too."""
    kept: set[str] = set()
    for node in reversed(graph.nodes):
        users = (user.name for name in node.outputs for user in graph.consumers.get(name, ()))
        if node.name in names and all(user in kept for user in users):
            kept.add(node.name)
    return kept


def _first(graph: Graph, names: Set[str]) -> set[str]:
    """Return the nodes of a set of which all that comes before is in the set too."""
    kept: set[str] = set()
    for node in graph.nodes:
        makers = (graph.producers[name].name for name in read_tensors(node) if name in graph.producers)
        if node.name in names and all(maker in kept for maker in makers):
            kept.add(node.name)
    return kept


def _parted(graph: Graph, before: Set[str], after: Set[str]) -> ModelParts:
    core = [node for node in graph.nodes if node.name not in before and node.name not in after]
    if not core:
        raise PlanError("nothing is left for the accelerator.", hint="Cut further behind.")
    return ModelParts(_part(graph, before, "before"), _whole(graph, core, "core"), _part(graph, after, "after"))


def _part(graph: Graph, names: Set[str], title: str) -> Graph | None:
    nodes = [node for node in graph.nodes if node.name in names]
    return _whole(graph, nodes, title) if nodes else None


def _whole(graph: Graph, nodes: Sequence[Node], title: str) -> Graph:
    return part_of_graph(graph, nodes).evolve(name=f"{graph.name}/{title}")
