"""Stages: loaded partitions, who feeds whom, and running one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from dovetail.backend.protocols import Executable, InPlaceExecutable, Signature, TransferringExecutable
from dovetail.bundle.bundle import CompiledPartition
from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.checks import Guard, check_numbers, check_outputs
from dovetail.runtime.record import PartitionTiming


@dataclass(frozen=True, slots=True)
class Stage:
    """A partition loaded on a device; an executable serves one request at a time."""

    index: int
    part: CompiledPartition
    device: str
    executable: Executable
    signature: Signature
    lock: threading.Lock = field(default_factory=threading.Lock)
    moves: bool = field(init=False)
    """Whether the executable tells how long its transfers took; asking a protocol in every run would take its time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "moves", isinstance(self.executable, TransferringExecutable))

    @property
    def where(self) -> str:
        """Return how messages name the stage."""
        return f"partition {self.index} ({self.part.target} on {self.device})"


@dataclass(frozen=True, slots=True)
class Flow:
    """Know which stages feed which, when a tensor can be dropped, and whether stages can run at the same time."""

    needs: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]
    last_use: Mapping[int, tuple[str, ...]]
    overlaps: bool


def flow_of(stages: Sequence[Stage], keep: frozenset[str]) -> Flow:
    """Return the flow of stages in schedule order; tensors in `keep` are never dropped."""
    maker = {name: stage.index for stage in stages for name in stage.part.outputs}
    feeds = [{maker[name] for name in stage.part.inputs if name in maker} for stage in stages]
    followers: list[list[int]] = [[] for _ in stages]
    for index, sources in enumerate(feeds):
        for source in sources:
            followers[source].append(index)
    last = {name: stage.index for stage in stages for name in stage.part.inputs}
    uses: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in keep:
            uses.setdefault(index, []).append(name)
    return Flow(
        tuple(len(sources) for sources in feeds),
        tuple(map(tuple, followers)),
        {index: tuple(names) for index, names in uses.items()},
        _overlaps(stages, feeds),
    )


def _overlaps(stages: Sequence[Stage], feeds: Sequence[set[int]]) -> bool:
    """Tell whether two stages on different devices wait for nothing of each other."""
    before: list[int] = []
    for sources in feeds:
        mask = 0
        for source in sources:
            mask |= before[source] | 1 << source
        before.append(mask)
    devices = sorted({stage.device for stage in stages})
    on = {name: sum(1 << stage.index for stage in stages if stage.device == name) for name in devices}
    for index, stage in enumerate(stages):
        earlier = (1 << index) - 1
        if earlier & ~before[index] & ~on[stage.device]:
            return True
    return False


class Lane:
    """The border tensors of one request in flight: stages write them in place, and the next request reuses them."""

    def __init__(self, stages: Sequence[Stage], keep: frozenset[str]) -> None:
        self.borders: list[dict[str, AnyArray] | None] = [_buffers(stage, keep) for stage in stages]


def _buffers(stage: Stage, keep: frozenset[str]) -> dict[str, AnyArray] | None:
    """Return arrays for the tensors that stay inside; None when the stage cannot write in place."""
    kinds = stage.signature.outputs
    if not isinstance(stage.executable, InPlaceExecutable) or any(kind.static_shape is None for kind in kinds.values()):
        return None
    return {name: stage.executable.empty(name) for name in kinds if name not in keep}


@dataclass(slots=True)
class Request:
    """One run in flight: the tensors that are known, and what was asked for."""

    lane: Lane
    values: dict[str, AnyArray]
    taps: tuple[str, ...]
    tapped: dict[str, AnyArray]
    started_ns: int
    timings: list[PartitionTiming] = field(default_factory=list)


def run_stage(stage: Stage, request: Request, guard: Guard) -> None:
    """Run one stage of a request; raise DeviceError, naming partition and device when the device misbehaves."""
    part, executable = stage.part, stage.executable
    wanted = tuple(name for name in request.taps if name in part.tensors and name not in request.tapped)
    fed = {name: request.values[name] for name in part.inputs}
    place = None if wanted else request.lane.borders[stage.index]
    with stage.lock:
        start = time.perf_counter_ns()
        try:
            if place is not None:
                made: Mapping[str, AnyArray] = {
                    name: place[name] if name in place else np.empty(kind.static_shape or (), kind.dtype.carrier)
                    for name, kind in stage.signature.outputs.items()
                }
                cast("InPlaceExecutable", executable).run_into(fed, made)
            else:
                made = executable.run(fed, wanted)
        except DeviceError:
            raise
        except Exception as error:
            # A plug-in is anybody's code: whatever it raises is its device's failure.
            raise DeviceError(f"{stage.where}: {type(error).__name__}: {error}.") from error
        elapsed = time.perf_counter_ns() - start
        moved = sum(cast("TransferringExecutable", executable).transfer_ns) if stage.moves else 0
    if place is None:
        check_outputs(stage.where, stage.signature, made)
    if guard is Guard.NUMBERS:
        check_numbers(stage.where, fed, {name: made[name] for name in part.outputs})
    timing = PartitionTiming(stage.index, part.target, stage.device, elapsed, start - request.started_ns, moved)
    request.timings.append(timing)
    request.tapped.update({name: made[name] for name in wanted})
    request.values.update({name: made[name] for name in part.outputs})
