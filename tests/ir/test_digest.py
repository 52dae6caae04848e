"""The digest tells graphs apart by anything that matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, Graph, Quantization, TensorType
from dovetail.testing.strategies import any_graphs


def _changed_type(kind: TensorType) -> TensorType:
    if kind.quant is not None:
        first = kind.quant.scale[0] * 2
        return replace(kind, quant=Quantization((first, *kind.quant.scale[1:]), kind.quant.zero_point, kind.quant.axis))
    return replace(kind, dtype=DType.F64 if kind.dtype is not DType.F64 else DType.F32)


@given(any_graphs(), st.data())
@settings(max_examples=150, deadline=None)
def test_any_change_changes_the_digest(graph: Graph, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["name", "node name", "op", "attribute", "origin", "type", "constant", "outputs"]))
    if kind == "name":
        other = graph.evolve(name=graph.name + "!")
    elif kind == "type":
        free = sorted(set(graph.types) - set(graph.constants))
        used = {*graph.inputs, *(name for node in graph.nodes for name in node.outputs)}
        tensor = data.draw(st.sampled_from([name for name in free if name in used]))
        other = graph.evolve(types={**graph.types, tensor: _changed_type(graph.types[tensor])})
    elif kind == "constant":
        names = [name for name, array in graph.constants.items() if array.size]
        assume(names)
        tensor = data.draw(st.sampled_from(names))
        array = np.array(graph.constants[tensor])
        array.reshape(-1).view(np.uint8)[0] ^= 1
        other = graph.evolve(constants={**graph.constants, tensor: array})
    elif kind == "outputs":
        other = graph.evolve(outputs=(*graph.outputs, graph.outputs[0]))
    else:
        assume(graph.nodes)
        at = data.draw(st.integers(0, len(graph.nodes) - 1))
        node = graph.nodes[at]
        change = {
            "node name": replace(node, name=node.name + "!"),
            "op": replace(node, op=node.op + "X"),
            "attribute": replace(node, attributes={**node.attributes, "new": 1}),
            "origin": replace(node, origin=(*node.origin, "another")),
        }[kind]
        other = graph.evolve(nodes=(*graph.nodes[:at], change, *graph.nodes[at + 1 :]))
    assert other.digest != graph.digest
    assert other != graph


@given(any_graphs())
@settings(max_examples=30, deadline=None)
def test_the_order_of_constants_does_not_matter(graph: Graph) -> None:
    constants = dict(reversed(list(graph.constants.items())))
    assert graph.evolve(constants=constants).digest == graph.digest
