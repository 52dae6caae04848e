"""A graph that obeys a plan: what quantising gives and partitioning takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.ir.graph import Graph
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class QuantizedGraph:
    """A graph whose tensor types carry quantisation, and the placement of every node.

    `boundaries` are the nodes that convert between placements; `plan` is what the graph obeys.
    """

    graph: Graph
    plan: Plan
    placements: Mapping[str, Placement]
    boundaries: frozenset[str] = field(default_factory=frozenset)
