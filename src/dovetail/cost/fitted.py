"""The roofline with the coefficients that were fitted to a vendor's performance model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.backend.costs import Figure, Quality
from dovetail.backend.fitted import FittedForm, FittedPrices
from dovetail.cost.features import Features, cycles, kind_of
from dovetail.cost.roofline import FREE, NpuRoofline
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.plan.units import clamp_host

_ALIKE = {Precision.I8DFP: Precision.I8}
"""Precisions that cost what another does: the arrays compute with the same bytes."""


@dataclass(frozen=True, slots=True)
class FittedRoofline:
    """Price steps on a part whose prices were fitted; what has no form goes by the plain roofline."""

    plain: NpuRoofline
    prices: FittedPrices

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        """Return what the nodes take, or None where the first of them has no form or the target refuses one."""
        form = self._form(graph, nodes[0], precision)
        if target != self.plain.target.name or form is None:
            return None
        inside = {node.name for node in nodes}
        latency_ns = 0.0
        for node in nodes:
            if self.plain.target.verdict(graph, node, precision).engine is None:
                return None
            host = clamp_host(graph, node)
            if node.op not in FREE and (host is None or host.name not in inside):
                latency_ns += self._latency_ns(graph, node, precision)
        return Figure(latency_ns, Quality.FITTED, self.source)

    def _latency_ns(self, graph: Graph, node: Node, precision: Precision) -> float:
        form = self._form(graph, node, precision)
        if form is None:
            plain = self.plain.latency(graph, [node], self.plain.target.name, precision)
            return 0.0 if plain is None else plain.latency_ns
        values = Features(graph, node, precision, self.plain.facts, self.plain.sizer).values()
        return cycles(form.coefficients, values) / self.plain.facts.clock_hz * 1e9

    def _form(self, graph: Graph, node: Node, precision: Precision) -> FittedForm | None:
        return self.prices.forms.get((kind_of(graph, node, precision), _ALIKE.get(precision, precision)))

    @property
    def source(self) -> str:
        """Return where the figures come from."""
        other = f" of {self.prices.other}, which is alike but for cores and memory," if self.prices.other else ""
        version = self.prices.version
        return f"roofline fitted to VeriSilicon's performance model{other} ({version}) on generated operators"
