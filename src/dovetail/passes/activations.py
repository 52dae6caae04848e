"""Recognise hard activations that exporters write in several operators, since 8 bits have to hold one range, not four.

`HardSigmoid(x) = max(0, min(1, x / 6 + 1 / 2))` is written as Add 3, Clip 0 to 6, Div 6; `HardSwish(x)` is x times
that, with the division before or after the product (ONNX operators 22.0.0, HardSigmoid and HardSwish).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Graph, Node
from dovetail.passes.draft import Draft

_REACH, _WIDTH = 3.0, 6.0
_SLOPE, _MIDDLE = 1 / 6, 0.5


@dataclass(frozen=True)
class FuseHardSwish:
    """Replace the operators that make up a HardSwish, or the HardSigmoid with slope 1/6, by it."""

    name: str = "fuse-hard-swish"

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph with the activations in one operator each."""
        scene = _Scene(Draft.of(graph))
        changed = False
        for node in graph.nodes:
            changed |= not node.domain and (scene.fuse_sigmoid(node) or scene.fuse_swish(node))
        return scene.draft.graph() if changed else graph


class _Scene:
    """A draft in which activations are looked for, backwards from the operator that gives the result."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._makers = draft.producers()
        self._readers = {name: len(nodes) for name, nodes in draft.consumers().items()}

    def fuse_sigmoid(self, last: Node) -> bool:
        """Replace `Clip(x + 3, 0, 6) / 6` that ends in this node."""
        inner = self._sixth_of(last)
        clip = self._inside(inner)
        fused = clip and self._shifted_and_clipped(clip)
        if not clip or not fused:
            return False
        add, x = fused
        self._replace(last, "HardSigmoid", x, (add, clip), {"alpha": _SLOPE, "beta": _MIDDLE})
        return True

    def fuse_swish(self, last: Node) -> bool:
        """Replace `x * HardSigmoid(x)` or `x * Clip(x + 3, 0, 6) / 6` that ends in this node."""
        if last.op == "Mul":
            for index, name in enumerate(last.inputs):
                gate, x = self._inside(name), last.inputs[1 - index]
                if gate and gate.inputs[0] == x and self._is_sixth_sigmoid(gate) and self._plain(x, last.outputs[0]):
                    self._replace(last, "HardSwish", x, (gate,), {})
                    return True
        product = self._inside(self._sixth_of(last))
        if product is None or product.op != "Mul":
            return False
        for index, name in enumerate(product.inputs):
            clip, x = self._inside(name), product.inputs[1 - index]
            found = clip and self._shifted_and_clipped(clip)
            if clip and found and found[1] == x and self._plain(x, last.outputs[0]):
                self._replace(last, "HardSwish", x, (found[0], clip, product), {})
                return True
        return False

    def _replace(self, last: Node, op: str, x: str, absorbed: tuple[Node, ...], attributes: dict[str, object]) -> None:
        names = tuple(name for node in (*absorbed, last) for name in node.origin)
        fused = Node(last.name, op, (x,), last.outputs, attributes, origin=names)
        gone = {node.name for node in absorbed}
        nodes = self.draft.nodes
        self.draft.nodes = [fused if node.name == last.name else node for node in nodes if node.name not in gone]
        self._makers[last.outputs[0]] = fused

    def _inside(self, tensor: str) -> Node | None:
        """Return the node that makes a tensor which nothing but one node reads."""
        node = self._makers.get(tensor)
        alone = self._readers.get(tensor) == 1 and tensor not in self.draft.outputs
        return node if alone and node is not None and not node.domain and len(node.outputs) == 1 else None

    def _sixth_of(self, node: Node) -> str:
        """Return what is divided by six, or an empty name."""
        for index, other in self._pairs(node):
            value = self._scalar(node, index)
            if (node.op == "Div" and index == 1 and value == _WIDTH) or (
                node.op == "Mul" and value is not None and np.isclose(value, _SLOPE, rtol=1e-6, atol=0)
            ):
                return other
        return ""

    def _shifted_and_clipped(self, clip: Node) -> tuple[Node, str] | None:
        """Return the Add of 3 before a Clip between 0 and 6, and what it adds to."""
        if clip.op != "Clip" or self._bounds(clip) != (0.0, _WIDTH):
            return None
        add = self._inside(clip.inputs[0])
        if add is None or add.op != "Add":
            return None
        return next(((add, other) for index, other in self._pairs(add) if self._scalar(add, index) == _REACH), None)

    def _is_sixth_sigmoid(self, node: Node) -> bool:
        slope, middle = node.attributes.get("alpha", 0.2), node.attributes.get("beta", 0.5)
        return node.op == "HardSigmoid" and middle == _MIDDLE and bool(np.isclose(float(str(slope)), _SLOPE, rtol=1e-6))

    def _bounds(self, clip: Node) -> tuple[float | None, ...]:
        if len(clip.inputs) == 1:
            return tuple(clip.number(name, np.inf) for name in ("min", "max"))
        return tuple(self._value(name) for name in (*clip.inputs[1:], "")[:2])

    def _pairs(self, node: Node) -> tuple[tuple[int, str], ...]:
        """Return the place of each input with the other input."""
        return ((1, node.inputs[0]), (0, node.inputs[1])) if len(node.inputs) == 2 else ()

    def _scalar(self, node: Node, index: int) -> float | None:
        """Return a single constant that does not widen the other input."""
        same = self._plain(node.inputs[1 - index], node.outputs[0])
        return self._value(node.inputs[index]) if same else None

    def _value(self, name: str) -> float | None:
        value = self.draft.value(name)
        kind = self.draft.types.get(name)
        return float(value.reshape(())) if value is not None and value.size == 1 and kind and not kind.quant else None

    def _plain(self, source: str, made: str) -> bool:
        """Tell whether a result is float and as large as what it is made of."""
        before, after = self.draft.types[source], self.draft.types[made]
        sized = before.shape is not None and before.shape == after.shape
        return sized and before.dtype is after.dtype and before.dtype.is_float and not (before.quant or after.quant)
