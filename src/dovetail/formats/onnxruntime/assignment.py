"""Compare who runs what, as ONNX Runtime reports it after loading, with the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dovetail.errors import PlanError
from dovetail.formats.binding import bind_sources
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Plan

RECORD = "session.record_ep_graph_assignment_info"
"""Set this entry of the session's options to '1' before loading, or there is no report."""

CPU_PROVIDER = "CPUExecutionProvider"
_SHOWN = 5


class _ReportedNode(Protocol):
    name: str
    op_type: str


class _ReportedSubgraph(Protocol):
    ep_name: str

    def get_nodes(self) -> Sequence[_ReportedNode]: ...


class ReportingSession(Protocol):
    """What is needed of `onnxruntime.InferenceSession`."""

    def get_provider_graph_assignment_info(self) -> Sequence[_ReportedSubgraph]: ...


@dataclass(frozen=True, slots=True)
class MisassignedNode:
    """A node that another provider runs than the plan says."""

    node: str
    wanted: str
    got: str


def read_assignment(session: ReportingSession) -> Mapping[str, str]:
    """Return the provider of every node of the session by its name; raise PlanError when nothing was recorded."""
    missing = PlanError(
        "ONNX Runtime recorded no assignment.", hint=f"Set the session entry {RECORD} to '1' before loading."
    )
    try:
        parts = session.get_provider_graph_assignment_info()
    except Exception as error:  # ONNX Runtime's own errors have no common type
        raise missing from error
    assigned = {node.name: part.ep_name for part in parts for node in part.get_nodes()}
    if not assigned:
        raise missing
    return assigned


def require_providers(plan: Plan, providers: Mapping[str, str]) -> None:
    """Raise PlanError for a target without a provider."""
    for target in plan.targets:
        if target not in providers:
            raise PlanError(
                f"no execution provider is named for target '{target}'.",
                hint=f"Say who runs it, such as {target}=VSINPUExecutionProvider.",
                option="provider",
            )


def misplaced(
    assigned: Mapping[str, str], graph: Graph, plan: Plan, providers: Mapping[str, str]
) -> list[MisassignedNode]:
    """Return the nodes that are elsewhere than planned; `providers` maps targets to provider names.

    Nodes that ONNX Runtime added (boundaries, fused nodes under new names) are judged only if the plan knows them; a
    node that it optimised away runs nowhere. Raises PlanError for a target without a provider.
    """
    require_providers(plan, providers)
    binding = bind_sources(graph)
    wrong: list[MisassignedNode] = []
    for name, got in assigned.items():
        for node in binding.nodes_of.get(name, ()):
            wanted = providers[plan.placement(node).target]
            if got != wanted:
                wrong.append(MisassignedNode(node, wanted, got))
    return wrong


@dataclass(frozen=True)
class Assignment:
    """Who runs what: the provider of every reported node that the plan knows, and the planned nodes without one.

    A node without a provider was fused into another, or optimised away.
    """

    providers: Mapping[str, str]
    unreported: tuple[str, ...]


def compare_assignment(session: ReportingSession, graph: Graph, plan: Plan, providers: Mapping[str, str]) -> Assignment:
    """Return who runs what; raise PlanError naming the nodes that ONNX Runtime placed elsewhere than the plan says."""
    assigned = read_assignment(session)
    wrong = misplaced(assigned, graph, plan, providers)
    known = bind_sources(graph).nodes_of
    placed = {node: got for name, got in assigned.items() for node in known.get(name, ())}
    if not placed:
        raise PlanError("none of the nodes that ONNX Runtime reports is in the plan.", hint="Is it the same model?")
    if wrong:
        shown = ", ".join(f"'{item.node}' ({item.got}, planned {item.wanted})" for item in wrong[:_SHOWN])
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise PlanError(
            f"ONNX Runtime placed nodes elsewhere than the plan: {shown}{more}.",
            hint="An execution provider takes what it can: look at its options, or change the plan.",
        )
    return Assignment(placed, tuple(node.name for node in graph.nodes if node.name not in placed))


def check_assignment(session: ReportingSession, graph: Graph, plan: Plan, providers: Mapping[str, str]) -> None:
    """Raise PlanError naming the nodes that ONNX Runtime placed elsewhere than the plan says."""
    compare_assignment(session, graph, plan, providers)
