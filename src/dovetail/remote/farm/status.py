"""Who is in a farm: boards and what they do, boards that were drained and why, and workers without a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

TOPIC = "dovetail-farm"
"""Events of boards, which the scheduler keeps: joined, lost, left."""


class BoardState(Enum):
    """What a board is doing."""

    FREE = "free"
    BUSY = "busy"
    DRAINED = "drained"
    """It stopped answering; its worker waits until it is back."""
    GONE = "gone"
    """Its worker ended without a word."""


@dataclass(frozen=True, slots=True)
class FarmBoard:
    """A board of a farm."""

    name: str
    url: str
    state: BoardState
    reason: str = ""
    """Why it is drained."""
    since_s: float = 0.0
    """When it was lost, by the scheduler's clock (seconds since 1970)."""
    worker: str = ""
    """The address of its worker."""
    tasks: int = 0
    """Tasks that the scheduler has given it."""
    parts: tuple[str, ...] = ()
    backends: Mapping[str, str] = field(default_factory=dict)
    """Versions by name."""
    offers: Mapping[str, float] = field(default_factory=dict)
    """Its resources, as tasks demand them."""

    @property
    def is_there(self) -> bool:
        """Tell whether tasks can go to it."""
        return self.state in (BoardState.FREE, BoardState.BUSY)


@dataclass(frozen=True, slots=True)
class Simulating:
    """A worker without a board: it simulates."""

    name: str
    address: str
    threads: int
    tasks: int
    resources: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FarmStatus:
    """A farm at one moment."""

    boards: tuple[FarmBoard, ...]
    workers: tuple[Simulating, ...]


def read_status(client: Any) -> FarmStatus:
    """Return who is in the farm of a client of Dask."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    tasks = {address: len(keys) for address, keys in client.processing().items()}
    events = client.get_events(TOPIC)
    boards = [_present(address, one, tasks) for address, one in workers.items() if "board" in one]
    boards += _absent(events, {one.name for one in boards})
    simulators = [
        Simulating(str(one["name"]), address, one["nthreads"], tasks.get(address, 0), one["resources"])
        for address, one in workers.items()
        if "board" not in one
    ]
    return FarmStatus(tuple(sorted(boards, key=lambda one: one.name)), tuple(simulators))


def _present(address: str, worker: Mapping[str, Any], tasks: Mapping[str, int]) -> FarmBoard:
    facts = worker["board"]
    count = tasks.get(address, 0)
    return FarmBoard(
        name=str(worker["name"]),
        url=facts["url"],
        state=BoardState.BUSY if count else BoardState.FREE,
        worker=address,
        tasks=count,
        parts=tuple(facts["parts"]),
        backends=facts["backends"],
        offers=worker["resources"],
    )


def _absent(events: Any, there: set[str]) -> list[FarmBoard]:
    """Return the boards that are not there any more, and did not leave by themselves."""
    last = {str(event["board"]): (when, event) for when, event in events}
    return [
        FarmBoard(
            name=name,
            url=event["url"],
            state=BoardState.DRAINED if event["event"] == "lost" else BoardState.GONE,
            reason=event["reason"] or "its worker ended without a word",
            since_s=when,
        )
        for name, (when, event) in last.items()
        if name not in there and event["event"] != "left"
    ]
