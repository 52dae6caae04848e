"""One node as a graph of its own, in float: what a vendor's compiler is asked about."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from dovetail.ir import DType, Graph, Node, TensorType, dequantize_array, graph_to_bytes
from dovetail.ir.graph import read_tensors

_SMALL = 64
"""Constants of up to this many elements can be shapes, axes or limits, which decide; the values of weights do not."""


def node_graph(graph: Graph, node: Node, *, stored: bool = False) -> Graph:
    """Return the node alone, its constants with it, every quantised tensor as the float32 tensor it stands for.

    With `stored` quantised tensors stay what they are.
    """
    reads = dict.fromkeys(read_tensors(node))
    outputs = [name for name in node.outputs if name]
    constants = {name: graph.constants[name] for name in reads if name in graph.constants}
    for name, value in constants.items():
        quant = graph.types[name].quant
        if quant is not None and not stored:
            constants[name] = dequantize_array(value, quant)
    return Graph(
        name="node",
        nodes=(node,),
        inputs=tuple(name for name in reads if name not in constants),
        outputs=tuple(outputs),
        types={name: graph.types[name] if stored else _real(graph.types[name]) for name in (*reads, *outputs)},
        constants=constants,
    )


def _real(kind: TensorType) -> TensorType:
    return kind if kind.quant is None else replace(kind, dtype=DType.F32, quant=None)


def node_key(alone: Graph) -> str:
    """Return a key that two nodes share when they differ in names and in the values of weights only."""
    names = {name: f"t{index}" for index, name in enumerate(alone.types)}
    # Bodies of control flow name captured tensors inside: such nodes keep their names, and share no key.
    if any(node.bodies() for node in alone.nodes):
        return hashlib.sha256(graph_to_bytes(alone)).hexdigest()
    (node,) = alone.nodes
    facts = [
        node.domain,
        node.op,
        repr(sorted((key, repr(value)) for key, value in node.attributes.items())),
        repr([names.get(name, "") for name in (*node.inputs, "", *node.outputs)]),
        repr([alone.types[name] for name in alone.types]),
        repr(
            [
                (names[name], value.tobytes() if value.size <= _SMALL else None)
                for name, value in alone.constants.items()
            ]
        ),
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
