"""Prices of units that a vendor's model was asked for, also as plain values for journals and logs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.backend.costs import Figure, Quality
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision

UnitPlace = tuple[str, str, Precision]
"""The first node of a unit, a target and a precision."""


@dataclass(frozen=True, slots=True)
class ProbedPrices:
    """Figures of units: a source that comes before rooflines."""

    figures: Mapping[UnitPlace, Figure] = field(default_factory=dict)

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        """Return what the model said of the unit that these nodes are, or None."""
        return self.figures.get((nodes[0].name, target, precision))

    def record(self) -> dict[str, object]:
        """Return the prices as what JSON knows; a source that many share is written once."""
        sources = list(dict.fromkeys(figure.source for figure in self.figures.values()))
        rows = [
            [node, target, precision.value, figure.latency_ns, sources.index(figure.source)]
            for (node, target, precision), figure in self.figures.items()
        ]
        return {"sources": sources, "units": rows}


def prices_from(record: Mapping[str, object]) -> ProbedPrices:
    """Return the prices of a record; raise KeyError, TypeError or ValueError when it is none."""
    sources, rows = record["sources"], record["units"]
    if not isinstance(sources, list) or not isinstance(rows, list):
        raise TypeError("sources and units are lists")
    return ProbedPrices(dict(_entry(row, sources) for row in rows))


def _entry(row: object, sources: Sequence[object]) -> tuple[UnitPlace, Figure]:
    if not isinstance(row, list):
        raise TypeError("a price is a list")
    node, target, precision, latency_ns, source = row
    if isinstance(latency_ns, bool) or not isinstance(latency_ns, int | float) or not 0 <= latency_ns < math.inf:
        raise ValueError(f"{latency_ns!r} is no duration")
    if not isinstance(source, int) or not 0 <= source < len(sources):
        raise ValueError(f"{source!r} is the number of no source")
    figure = Figure(float(latency_ns), Quality.MODELLED, str(sources[source]))
    return (str(node), str(target), Precision(precision)), figure
