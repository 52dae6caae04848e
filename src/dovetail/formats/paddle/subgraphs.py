"""How many NPU subgraphs Paddle Lite makes of a placement.

Source: `lite/core/optimizer/mir/subgraph/subgraph_detector.cc`: operators that the device takes are joined with the
ones that feed them unless that would close a cycle; there is no smallest size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.formats.merge import Quotient
from dovetail.formats.paddle.log import LoggedOperation


@dataclass(frozen=True, slots=True)
class SubgraphEstimate:
    """Count NPU subgraphs and the tensors that cross between them and the CPU."""

    subgraphs: int
    boundary_tensors: int
    cluster_of: tuple[int, ...]
    """The subgraph of every operator, -1 on the CPU."""


def estimate_subgraphs(operations: Sequence[LoggedOperation], on_npu: Sequence[bool]) -> SubgraphEstimate:
    """Return the subgraphs that a greedy convex merge gives; `on_npu` tells it for every operator."""
    links = _links(operations)
    quotient = Quotient(links)
    for index, users in enumerate(links):
        for reader in users:
            if on_npu[index] and on_npu[reader]:
                quotient.join(index, reader)
    cluster = quotient.cluster
    numbers: dict[int, int] = {}
    found = tuple(numbers.setdefault(cluster[i], len(numbers)) if on_npu[i] else -1 for i in range(len(operations)))
    return SubgraphEstimate(len(numbers), _crossing(operations, found), found)


def _links(operations: Sequence[LoggedOperation]) -> list[list[int]]:
    """Return for every operator those that read what it makes; a name may be made again further down."""
    maker: dict[str, int] = {}
    links: list[list[int]] = [[] for _ in operations]
    for index, op in enumerate(operations):
        for name in dict.fromkeys(op.ins):
            if name in maker and maker[name] != index:
                links[maker[name]].append(index)
        maker.update(dict.fromkeys(op.outs, index))
    return links


def _crossing(operations: Sequence[LoggedOperation], cluster_of: tuple[int, ...]) -> int:
    maker: dict[str, int] = {}
    crossing: set[tuple[int, str]] = set()
    for index, op in enumerate(operations):
        for name in dict.fromkeys(op.ins):
            source = maker.get(name)
            if source is not None and cluster_of[source] != cluster_of[index]:
                crossing.add((source, name))
        maker.update(dict.fromkeys(op.outs, index))
    return len(crossing)
