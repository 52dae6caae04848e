"""The time that a search may take: what its evaluations took, on record, so that resumed and replayed runs agree.

What counts is the time of every evaluation that the search uses, as the journal has it: an evaluation that an
interrupted run made counts as much as one that is made now. A replay, which evaluates nothing, goes by how many
evaluations had been used when time was up.
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.errors import SearchError

HALF, WHOLE = 0.5, 1.0
"""The shares of its time after which a search stops to measure, and to test."""


class SearchClock:
    """The time of one search, over all its contexts; without a limit it is never up."""

    def __init__(self, limit_s: float | None, ends: Mapping[float, int] | None = None) -> None:
        if limit_s is not None and not limit_s > 0:
            raise SearchError(f"{limit_s:g} s is no time for a search.", hint="Give more than 0.")
        self.limit_s = limit_s
        self._played = ends
        self._spent_ns = 0.0
        self._used = 0
        self.ends: dict[float, int] = {}
        """How many evaluations had been used when a share of the time was spent."""

    @property
    def spent_s(self) -> float:
        """Return what the evaluations took."""
        return self._spent_ns / 1e9

    def add(self, elapsed_ns: float) -> None:
        """Count an evaluation that is used for the first time."""
        self._used += 1
        self._spent_ns += elapsed_ns
        for share in (HALF, WHOLE):
            if share not in self.ends and self._is_reached(share):
                self.ends[share] = self._used

    def is_up(self, share: float = WHOLE) -> bool:
        """Tell whether a share of the time is spent."""
        return share in self.ends

    def _is_reached(self, share: float) -> bool:
        if self._played is not None:
            return share in self._played and self._used >= self._played[share]
        return self.limit_s is not None and self._spent_ns >= share * self.limit_s * 1e9
