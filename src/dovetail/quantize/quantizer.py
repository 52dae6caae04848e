"""Quantise a graph as a plan says: integer types on tensors, explicit boundaries between placements."""

from __future__ import annotations

from dovetail.errors import QuantizeError
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.draft import QuantizedDraft
from dovetail.quantize.facts import facts_of
from dovetail.quantize.ranges import Ranges
from dovetail.quantize.weights import WeightStore


class Quantizer:
    """Quantise one graph for many plans; quantised weights are made once and kept.

    Raises QuantizeError when the ranges are those of another graph, and for a graph that is quantised already.
    """

    def __init__(self, graph: Graph, ranges: Ranges) -> None:
        # Its integers are not the reals that ranges are of: quantising them again gives noise.
        quantised = next((name for name, kind in graph.types.items() if kind.quant is not None), None)
        if quantised is not None:
            raise QuantizeError(
                f"graph '{graph.name}' is quantised already (tensor '{quantised}').",
                hint="Start from the float model, or use this one as it is.",
            )
        if ranges.graph_digest != graph.digest:
            raise QuantizeError(
                f"the ranges were made for another graph ({ranges.graph_digest[:12]}), "
                f"not for '{graph.name}' ({graph.digest[:12]}).",
                hint="Calibrate this model.",
            )
        self.graph = graph
        self.ranges = ranges
        self._weights = WeightStore(graph, ranges.means)
        self._facts = {node.name: facts_of(graph, node) for node in graph.nodes}

    def quantize(self, plan: Plan) -> QuantizedGraph:
        """Return the graph that obeys the plan.

        Raises QuantizeError when a tensor has no usable range, PlanError when the plan is for another graph.
        """
        plan.check(self.graph)
        draft = QuantizedDraft(self.graph, plan, self.ranges, self._weights, self._facts)
        for node in self.graph.nodes:
            draft.add(node)
        graph = draft.finish()
        return QuantizedGraph(graph, plan, draft.placements, frozenset(draft.boundaries))


def quantize(graph: Graph, plan: Plan, ranges: Ranges) -> QuantizedGraph:
    """Return the graph that obeys the plan."""
    return Quantizer(graph, ranges).quantize(plan)
