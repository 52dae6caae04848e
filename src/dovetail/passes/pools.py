"""Write pools whose one window is a whole large picture as global pools."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.ir import Graph, Node
from dovetail.passes.draft import Draft

_GLOBAL = {"AveragePool": "GlobalAveragePool", "MaxPool": "GlobalMaxPool"}


@dataclass(frozen=True)
class WidenPools:
    """Write a pool as a global one where its window is the whole picture and larger than windows of engines are.

    TensorFlow writes squeeze-and-excite blocks so: a window of 128 x 128 that moves by 128. Engines that have no such
    windows, nor such strides, have means of planes. Smaller pools stay as they are: most engines have windows for them.
    """

    name: str = "widen-pools"
    least: int = 64
    """Rows or columns of a window from which it is large."""

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph with global pools in the place of such pools; names stay."""
        wide = {node.name for node in graph.nodes if self._is_wide(graph, node)}
        if not wide:
            return graph
        draft = Draft.of(graph)
        draft.nodes = [
            replace(node, op=_GLOBAL[node.op], attributes={}) if node.name in wide else node for node in draft.nodes
        ]
        return draft.graph()

    def _is_wide(self, graph: Graph, node: Node) -> bool:
        if node.op not in _GLOBAL or node.domain or any(node.outputs[1:]):
            return False
        before, after = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
        if before.shape is None or after.shape is None or before.quant or after.quant:
            return False
        window = node.integers("kernel_shape")
        return (
            window == before.shape[2:]
            and max(window) >= self.least
            and not any(node.integers("pads"))
            and set(node.integers("dilations")) <= {1}
            and set(after.shape[2:]) == {1}
        )
