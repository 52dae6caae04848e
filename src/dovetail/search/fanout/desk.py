"""Open a desk for the evaluators of one search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dovetail.search.fanout.crew import Crew, CrewOptions
from dovetail.search.fanout.dispatch import Dispatch
from dovetail.search.fanout.places import Place
from dovetail.search.fanout.task import Work
from dovetail.search.journal import Journal


@dataclass(frozen=True, slots=True)
class FanOut:
    """Say where plans are evaluated; a `place` of None is this process, which no time-out can stop."""

    place: Place | None = None
    options: CrewOptions = field(default_factory=CrewOptions)


Desk = tuple[Dispatch, str]
"""The desk, and the digest of the work that an evaluator's orders name."""


def open_desks(fanout: FanOut, makers: Sequence[Callable[[], Work]], journal: Journal) -> list[Desk | None]:
    """Return a way to the workers for every work, made only when it is wanted; None where plans are evaluated here."""
    if fanout.place is None:
        return [None] * len(makers)
    works = [make() for make in makers]
    dispatch = Dispatch(Crew(fanout.place, works, fanout.options), journal)
    return [(dispatch, work.key) for work in works]
