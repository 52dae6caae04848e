"""The roofline with the coefficients that were fitted to a vendor's performance model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.backend.costs import Figure, Quality
from dovetail.backend.fitted import FittedForm, FittedPrices
from dovetail.cost.features import CONVERSION, Features, conversion_values, cycles, kinds_of
from dovetail.cost.roofline import FREE, NpuRoofline
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.plan.units import clamp_host

_ALIKE = {Precision.I8DFP: Precision.I8}
"""Precisions that cost what another does: the arrays compute with the same bytes."""


def precision_of_conversions(precision: Precision) -> Precision:
    """Return by which precision a conversion is priced: how wide it writes tells, not how that is scaled."""
    return Precision.I16 if precision.activation.dtype.size_bytes > 1 else Precision.U8


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

    def conversion(self, elements: int, precision: Precision) -> Figure | None:
        """Return what it takes to bring a tensor to a precision on the part, or None where that has no form."""
        form = self.prices.forms.get((CONVERSION, precision_of_conversions(precision)))
        if form is None:
            return None
        taken = cycles(form.coefficients, conversion_values(elements, self.plain.facts))
        return Figure(taken / self.plain.facts.clock_hz * 1e9, Quality.FITTED, self.source)

    def _latency_ns(self, graph: Graph, node: Node, precision: Precision) -> float:
        form = self._form(graph, node, precision)
        if form is None:
            plain = self.plain.latency(graph, [node], self.plain.target.name, precision)
            return 0.0 if plain is None else plain.latency_ns
        values = Features(graph, node, precision, self.plain.facts, self.plain.sizer).values()
        return cycles(form.coefficients, values) / self.plain.facts.clock_hz * 1e9

    def _form(self, graph: Graph, node: Node, precision: Precision) -> FittedForm | None:
        kinds, alike = kinds_of(graph, node, precision), _ALIKE.get(precision, precision)
        return next((self.prices.forms[kind, alike] for kind in kinds if (kind, alike) in self.prices.forms), None)

    @property
    def source(self) -> str:
        """Return where the figures come from."""
        other = f" of {self.prices.other}, which is alike but for cores and memory," if self.prices.other else ""
        version = self.prices.version
        return f"roofline fitted to VeriSilicon's performance model{other} ({version}) on generated operators"
