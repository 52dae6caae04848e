"""Lanes: the tensors of one request in flight, laid out once and reused by the requests that follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.backend.protocols import ALIGNMENT_BYTES
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.checks import Known, known_of
from dovetail.runtime.record import Mark
from dovetail.runtime.stage import Flow, Stage

_COPIED_BYTES = 1 << 18

NOTHING: AnyArray = np.empty(0)
"""Holds the place of a tensor that is not there yet, or no longer."""


@dataclass(frozen=True, slots=True)
class LaneRoute:
    """Where the tensors of a stage come from and go to; worked out once, for a run has no time for it."""

    write: Callable[[Mapping[str, AnyArray], Mapping[str, AnyArray]], None] | None
    """Runs the stage in place; None where it cannot be."""
    makes: tuple[Known, ...]
    borders: tuple[str, ...]
    """Outputs that are written in place into the arrays of a lane."""
    fresh: tuple[Known, ...]
    """Outputs that a run allocates anew and hands to the device, since they become the caller's."""
    copied: tuple[str, ...]
    """Outputs that the caller gets a copy of: small ones, where telling a device of a new array takes longer."""
    hands: tuple[tuple[str, tuple[int, ...]], ...]
    """All other outputs that later stages read, with those stages."""
    kept: tuple[str, ...]
    drops: tuple[str, ...]
    """Inputs that no lane owns: let go after the stage."""


def size_of(item: Known) -> int:
    """Return the bytes of a tensor in memory."""
    _, shape, dtype = item
    return math.prod(shape) * dtype.itemsize


def routes_of(stages: Sequence[Stage], keep: frozenset[str]) -> tuple[LaneRoute, ...]:
    """Return the route of every stage; tensors in `keep` are the caller's."""
    readers: dict[str, list[int]] = {}
    for stage in stages:
        for name in stage.part.inputs:
            readers.setdefault(name, []).append(stage.index)
    routes: list[LaneRoute] = []
    inside: set[str] = set()
    for stage in stages:
        kinds, in_place = stage.signature.outputs, stage.abilities.in_place
        makes = known_of(kinds)
        write = in_place.run if in_place is not None and len(makes) == len(kinds) else None
        fresh = tuple(item for item in makes if write and item[0] in keep and size_of(item) > _COPIED_BYTES)
        anew = {name for name, _, _ in fresh}
        borders = tuple(name for name in kinds if write and name not in anew)
        copied = tuple(name for name in borders if name in keep)
        hands = tuple((name, tuple(readers[name])) for name in kinds if name in readers and name not in borders)
        kept = tuple(name for name in stage.part.outputs if name in keep and name not in copied)
        drops = tuple(name for name in stage.part.inputs if name not in inside)
        known = makes if len(makes) == len(kinds) else ()
        routes.append(LaneRoute(write, known, borders, fresh, copied, hands, kept, drops))
        inside.update(borders)
    return tuple(routes)


@dataclass(slots=True)
class _Slot:
    """Memory that tensors take in turn; `users` are the stages that touch the last of them, as a bit mask."""

    size: int
    users: int


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """Which piece of memory every border tensor gets; `sizes` are in bytes."""

    places: Mapping[str, int]
    sizes: tuple[int, ...]


def layout_of(stages: Sequence[Stage], routes: Sequence[LaneRoute], flow: Flow) -> MemoryLayout:
    """Return a layout in which a tensor takes the place of the last one that is surely read by then.

    That is less memory, and what was just read is still in the caches.
    """
    readers = {name: 0 for route in routes for name in route.borders}
    for stage in stages:
        for name in stage.part.inputs:
            if name in readers:
                readers[name] |= 1 << stage.index
    slots: list[_Slot] = []
    places: dict[str, int] = {}
    for stage, route in zip(stages, routes, strict=True):
        for item in route.makes:
            name = item[0]
            if name not in readers:
                continue
            size = -(-size_of(item) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            free = [number for number, slot in enumerate(slots) if not slot.users & ~flow.before[stage.index]]
            number = max(free, key=lambda one: slots[one].users, default=len(slots))
            if number == len(slots):
                slots.append(_Slot(0, 0))
            slots[number] = _Slot(max(size, slots[number].size), readers[name] | 1 << stage.index)
            places[name] = number
    return MemoryLayout(places, tuple(slot.size for slot in slots))


class Lane:
    """The tensors of one request in flight: what its stages read and write."""

    def __init__(self, stages: Sequence[Stage], routes: Sequence[LaneRoute], layout: MemoryLayout) -> None:
        self.made: list[dict[str, AnyArray]] = []
        slots = [_memory(size) for size in layout.sizes]
        arrays: dict[str, AnyArray] = {}
        for stage, route in zip(stages, routes, strict=True):
            self.made.append(_empty_borders(stage, route, slots, layout))
            arrays |= self.made[-1]
        self.fed = tuple({name: arrays.get(name, NOTHING) for name in stage.part.inputs} for stage in stages)


def _empty_borders(
    stage: Stage, route: LaneRoute, slots: Sequence[AnyArray], layout: MemoryLayout
) -> dict[str, AnyArray]:
    in_place = stage.abilities.in_place
    if in_place is None:
        return {}
    return {name: in_place.empty(name, slots[layout.places[name]]) for name in route.borders}


def _memory(size: int) -> AnyArray:
    raw = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + size]


@dataclass(slots=True)
class Request:
    """One run in flight: its lane, what the caller gets, and what was asked for."""

    lane: Lane
    outputs: dict[str, AnyArray]
    taps: tuple[str, ...]
    tapped: dict[str, AnyArray]
    started_ns: int
    marks: list[Mark] = field(default_factory=list)
