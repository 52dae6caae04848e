"""Cost records: what a piece of work takes, and where the figure comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision


class Quality(Enum):
    """How a figure was found, best first."""

    MEASURED = "measured"
    """On a device."""
    MODELLED = "modelled"
    """By the vendor's performance model."""
    FITTED = "fitted"
    """From the target's facts, with coefficients that were fitted to the vendor's performance model."""
    ROOFLINE = "roofline"
    """From the target's facts: the slower of arithmetic and memory traffic."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A latency for one sample, with its origin."""

    latency_ns: float
    quality: Quality
    source: str


class CostSource(Protocol):
    """Price nodes that run as one step on one target."""

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        """Return what the nodes take together, or None when this source does not know."""
