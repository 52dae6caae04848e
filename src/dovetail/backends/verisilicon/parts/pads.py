"""Where the vendor's compiler gets a Pad wrong, as its simulator showed on v7, VIP8000 and VIP9000 parts.

In front of a pooling it becomes a padding of that pooling, and what it fills in is lost. A value other than 0 is cut
off at what the input's storage reaches, or ends the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.types import dequantize_array

_POOLS = frozenset({"AveragePool", "MaxPool"})


@dataclass(frozen=True, slots=True)
class ZeroPadding:
    """Allow only a Pad that fills in 0, and only where no pooling reads it."""

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None."""
        if node.text("mode", "constant") == "constant" and len(node.inputs) > 2 and node.inputs[2]:
            stored = graph.constants.get(node.inputs[2])
            if stored is None:
                return f"what it fills in ('{node.inputs[2]}') is not a constant"
            quant = graph.types[node.inputs[2]].quant
            value = float((stored if quant is None else dequantize_array(stored, quant)).reshape(-1)[0])
            if value:
                return f"it fills in {value:g}, which the compiler cuts off"
        pools = [reader.name for reader in graph.consumers.get(node.outputs[0], ()) if reader.op in _POOLS]
        return f"pooling '{pools[0]}' reads it, and the compiler loses what it fills in" if pools else None
