"""Join linked operators into groups that can each run in one go."""

from __future__ import annotations

from collections.abc import Sequence


class Quotient:
    """Clusters and the links between them; clusters stay without cycles."""

    def __init__(self, links: Sequence[Sequence[int]]) -> None:
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
