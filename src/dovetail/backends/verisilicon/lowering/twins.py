"""Operators that compute the same from the same: they are lowered once.

The vendor's compiler removes one of two equal operators and does not connect what read it: garbage, or a refusal. Seen
of poolings, sigmoids and their products, on V853, A311D and i.MX 8M Plus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dovetail.ir import Graph, Node


def find_twins(graph: Graph) -> Mapping[str, str]:
    """Map every tensor that an earlier node makes too to that node's tensor; nothing that is lowered is random."""
    same: dict[str, str] = {}
    known: dict[tuple[str, ...], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        data = next((name for name in node.inputs if name and name not in graph.constants), "")
        alike = known[node.domain, node.op, same.get(data, data)]
        twin = next((other for other in alike if _are_twins(graph, node, other, same)), None)
        if twin is None:
            alike.append(node)
        else:
            same.update(zip(filter(None, node.outputs), filter(None, twin.outputs), strict=True))
    return same


def _are_twins(graph: Graph, one: Node, other: Node, same: Mapping[str, str]) -> bool:
    """Tell whether two nodes of one operator give the same numbers, stored alike."""
    if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
        return False
    if not all(
        bool(left) == bool(right) and (not left or graph.types[left] == graph.types[right])
        for left, right in zip(one.outputs, other.outputs, strict=True)
    ):
        return False
    if replace(other, name=one.name, inputs=one.inputs, outputs=one.outputs, origin=one.origin) != one:
        return False
    pairs = zip(one.inputs, other.inputs, strict=True)
    return all(_same_values(graph, same.get(left, left), same.get(right, right)) for left, right in pairs)


def _same_values(graph: Graph, left: str, right: str) -> bool:
    if left == right:
        return True
    first, second = graph.constants.get(left), graph.constants.get(right)
    if first is None or second is None or graph.types[left] != graph.types[right]:
        return False
    return np.array_equal(first, second)
