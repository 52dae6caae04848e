"""Mean of two operands: what the lowering makes of it is a sum of twice the step, and a product with one half.

The product keeps every stored integer, so the mean is as near as the sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.backends.vip.scene import Rule, Scene
from dovetail.backends.vip.sums import sum_rule
from dovetail.ir import Node, Quantization, TensorType


def mean_rule(scene: Scene) -> Rule | None:
    """Return how a Mean of two tensors is computed, or None where that is exact."""
    node, graph, made = scene.node, scene.graph, scene.made
    if len(node.inputs) != 2:
        return None
    assert made.quant is not None
    total, half = f"{node.outputs[0]}/sum", f"{node.outputs[0]}/half"
    wide = replace(made, quant=Quantization((2.0 * made.quant.scale[0],), made.quant.zero_point))
    one = TensorType(made.dtype, (), Quantization((0.5,), (0,)))
    add = Node(f"{node.name}/sum", "Add", node.inputs, (total,))
    halved = Node(f"{node.name}/half", "Mul", (total, half), node.outputs)
    nodes = [item for old in graph.nodes for item in ((add, halved) if old is node else (old,))]
    parts = replace(
        graph,
        nodes=tuple(nodes),
        types={**graph.types, total: wide, half: one},
        constants={**graph.constants, half: np.ones((), made.dtype.carrier)},
    )
    return sum_rule(Scene(parts, add, scene.vip))
