"""Stages: loaded partitions, and who feeds whom."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from dovetail.backend.protocols import Executable, ExecutableAbilities, Signature
from dovetail.bundle.bundle import CompiledPartition


@dataclass(frozen=True, slots=True)
class Stage:
    """A partition loaded on a device."""

    index: int
    part: CompiledPartition
    device: str
    executable: Executable
    signature: Signature
    lock: AbstractContextManager[object] = field(init=False)
    """Held while the executable runs: it serves one request at a time, unless it can run in several threads."""
    abilities: ExecutableAbilities = field(init=False)
    """Asked for once: a run has no time for it."""

    def __post_init__(self) -> None:
        abilities = self.executable.abilities()
        object.__setattr__(self, "abilities", abilities)
        # What writes in place is bound to its buffers.
        together = abilities.concurrent and abilities.in_place is None
        object.__setattr__(self, "lock", nullcontext() if together else threading.Lock())

    @property
    def where(self) -> str:
        """Return how messages name the stage."""
        return f"partition {self.index} ({self.part.target} on {self.device})"


@dataclass(frozen=True, slots=True)
class Flow:
    """Which stages feed which, and whether stages can run at the same time."""

    needs: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]
    """For every stage a bit mask of the stages that have ended when it begins, whatever the order."""
    overlaps: bool


def flow_of(stages: Sequence[Stage]) -> Flow:
    """Return the flow of stages in schedule order."""
    maker = {name: stage.index for stage in stages for name in stage.part.outputs}
    feeds = [{maker[name] for name in stage.part.inputs if name in maker} for stage in stages]
    followers: list[list[int]] = [[] for _ in stages]
    before: list[int] = []
    for index, sources in enumerate(feeds):
        mask = 0
        for source in sources:
            followers[source].append(index)
            mask |= before[source] | 1 << source
        before.append(mask)
    needs = tuple(len(sources) for sources in feeds)
    return Flow(needs, tuple(map(tuple, followers)), tuple(before), _overlaps(stages, before))


def _overlaps(stages: Sequence[Stage], before: Sequence[int]) -> bool:
    """Tell whether two stages on different devices wait for nothing of each other."""
    devices = sorted({stage.device for stage in stages})
    on = {name: sum(1 << stage.index for stage in stages if stage.device == name) for name in devices}
    for index, stage in enumerate(stages):
        earlier = (1 << index) - 1
        if earlier & ~before[index] & ~on[stage.device]:
            return True
    return False
