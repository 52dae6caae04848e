"""Explain: what every target says of every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dovetail.backend.target import Target, TargetVerdict
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import Placement


@dataclass(frozen=True)
class Verdicts:
    """The verdict on every node, target and precision."""

    graph_digest: str
    items: tuple[TargetVerdict, ...]

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, str, Precision], TargetVerdict]:
        return {(item.node, item.target, item.precision): item for item in self.items}

    def of(self, node: str, placement: Placement) -> TargetVerdict:
        """Return the verdict on a node at a placement; raise KeyError when it was not asked for."""
        return self._by_key[node, placement.target, placement.precision]


def explain(graph: Graph, targets: Sequence[Target], precisions: Sequence[Precision] | None = None) -> Verdicts:
    """Return every node's verdict per target and precision; `precisions` None means all that a target has."""
    items = [
        target.verdict(graph, node, precision)
        for target in targets
        for precision in (precisions or target.precisions)
        for node in graph.nodes
    ]
    return Verdicts(graph.digest, tuple(items))
