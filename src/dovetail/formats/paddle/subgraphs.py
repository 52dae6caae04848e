"""How many NPU subgraphs Paddle Lite makes of a placement.

Source: `lite/core/optimizer/mir/subgraph/subgraph_detector.cc`: operators that the device takes are joined with the
ones that feed them unless that would close a cycle; there is no smallest size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    quotient = _Quotient(links)
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


class _Quotient:
    """Hold clusters and the links between them; clusters stay without cycles."""

    def __init__(self, links: list[list[int]]) -> None:
        self.cluster = list(range(len(links)))
        self._members = {index: [index] for index in self.cluster}
        self._users = {index: set(users) for index, users in enumerate(links)}
        """What reads a cluster, as operators; looked up through `cluster`."""

    def join(self, maker: int, reader: int) -> None:
        """Join the clusters of two linked operators unless that closes a cycle."""
        one, other = self.cluster[maker], self.cluster[reader]
        if one == other or self._detour(one, other):
            return
        if len(self._members[one]) < len(self._members[other]):
            one, other = other, one
        for member in self._members[other]:
            self.cluster[member] = one
        self._members[one] += self._members.pop(other)
        self._users[one] |= self._users.pop(other)

    def _next(self, cluster: int) -> set[int]:
        return {self.cluster[user] for user in self._users[cluster]} - {cluster}

    def _detour(self, one: int, other: int) -> bool:
        """Tell whether a path leads from one cluster through a third to the other."""
        waiting = [cluster for cluster in self._next(one) if cluster != other]
        seen = set(waiting)
        while waiting:
            for cluster in self._next(waiting.pop()):
                if cluster == other:
                    return True
                if cluster not in seen:
                    seen.add(cluster)
                    waiting.append(cluster)
        return False


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
