"""ReLUs that newer parts would compute with a product before them, and get wrong or round otherwise.

The vendor's compiler looks through a change of shape: a convolution and a ReLU behind it are one, and the result is
rounded once, to what the ReLU stores. A sum of fewer than four axes behind them is joined too in newer parts: where it
is read neither by the array nor by the tensor processor, it is garbage or ends the simulator (SIGABRT). Affine signed
bytes are converted before, and right. A clamp with two bounds is never joined with a sum, and not with a convolution
either but beside a stream processor. Measured on V853, T527 and A733.
"""

from __future__ import annotations

import math

from dovetail.backends.verisilicon.generation import CONVERTING
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.ir import DType, Graph, Node, TensorType

_SEEN = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_SUMS = frozenset({"Add", "Sub", "Sum"})
_PLANE_AXES = 4


def is_clamped_apart(view: NodeView) -> bool:
    """Tell whether a ReLU has to be a clamp of its own, because of the product before it and what reads it."""
    made, graph = view.made(), view.graph
    if view.draft.part.generation in CONVERTING or made.quant is None:
        return False
    product, seen = _product_before(graph, view.node.inputs[0])
    if product is None:
        return False
    kind = graph.types[product.outputs[0]]
    if seen and kind.quant != made.quant:
        return True
    affine = made.dtype is DType.I8 and not view.draft.fixed_point
    if affine or made.dtype is DType.I16 or len(made.static_shape or ()) >= _PLANE_AXES:
        return False
    return _is_joined_with_sums(product, kind, seen=seen) and _is_added(graph, view.node.outputs[0])


def _product_before(graph: Graph, tensor: str) -> tuple[Node | None, bool]:
    """Return the product with weights that makes a tensor, and whether it is seen with another shape."""
    seen = False
    node = graph.producers.get(tensor)
    while node is not None and node.op in _SEEN:
        seen = True
        node = graph.producers.get(node.inputs[0])
    is_product = node is not None and node.op in _PRODUCTS and node.inputs[1] in graph.constants
    return (node if is_product else None), seen


def _is_joined_with_sums(product: Node, kind: TensorType, *, seen: bool) -> bool:
    """Tell whether a product is joined with a sum: a layer of one row, or a convolution seen with fewer axes."""
    shape = kind.static_shape or ()
    if product.op == "Conv":
        return seen or len(shape) < _PLANE_AXES
    return math.prod(shape) == shape[-1]


def _is_added(graph: Graph, tensor: str) -> bool:
    """Tell whether a sum reads a tensor, perhaps seen with another shape."""
    return any(
        node.op in _SUMS or (node.op in _SEEN and _is_added(graph, node.outputs[0]))
        for node in graph.consumers.get(tensor, ())
    )
