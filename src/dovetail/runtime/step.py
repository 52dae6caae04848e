"""Steps: running one stage of one request."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.checks import Guard, check_numbers, check_outputs, fits
from dovetail.runtime.lane import NOTHING, LaneRoute, Request
from dovetail.runtime.stage import Stage


def run_stage(stage: Stage, route: LaneRoute, request: Request, guard: Guard) -> None:
    """Run one stage of a request; raise DeviceError, naming partition and device when the device misbehaves."""
    index, part, executable, lane = stage.index, stage.part, stage.executable, request.lane
    fed, place, write = lane.fed[index], lane.made[index], route.write
    taps: tuple[str, ...] = ()
    if request.taps:
        taps = tuple(name for name in request.taps if name in part.tensors and name not in request.tapped)
    outputs: Mapping[str, AnyArray] = place
    with stage.lock:
        start = time.perf_counter_ns()
        try:
            if write is not None and not taps:
                for name, shape, dtype in route.fresh:
                    place[name] = np.empty(shape, dtype)
                write(fed, place)
            else:
                outputs = executable.run(fed, taps)
        except DeviceError:
            raise
        except Exception as error:
            # A plug-in is anybody's code: whatever it raises is its device's failure.
            raise DeviceError(f"{stage.where}: {type(error).__name__}: {error}.") from error
        elapsed = time.perf_counter_ns() - start
        transfers = stage.abilities.transfer_ns
        moved = 0 if transfers is None else sum(transfers())
    if outputs is not place:
        if not fits(route.makes, outputs):
            check_outputs(stage.where, stage.signature, outputs)
        _write_borders(route, outputs, place)
        outputs = _owned(route, fed, outputs, taps)
        request.tapped.update({name: outputs[name] for name in taps})
    if guard is Guard.NUMBERS:
        check_numbers(stage.where, fed, {name: outputs[name] for name in part.outputs})
    request.marks.append((index, start, elapsed, moved))
    for name, readers in route.hands:
        for reader in readers:
            lane.fed[reader][name] = outputs[name]
    for name in route.copied:
        request.outputs[name] = outputs[name].copy()
    for name in route.kept:
        request.outputs[name] = outputs[name]
    for name in route.drops:
        fed[name] = NOTHING


def _write_borders(route: LaneRoute, outputs: Mapping[str, AnyArray], place: Mapping[str, AnyArray]) -> None:
    """Copy outputs into the lane's own arrays: taps are not read in place, and the stages that follow read the lane."""
    for name in route.borders:
        np.copyto(place[name], outputs[name])


def _owned(
    route: LaneRoute, fed: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray], taps: tuple[str, ...]
) -> Mapping[str, AnyArray]:
    """Return what an executable gave in arrays that may be kept."""
    owned = dict(outputs)
    for name in dict.fromkeys((*(name for name, _ in route.hands), *route.kept, *taps)):
        if any(np.may_share_memory(outputs[name], read) for read in fed.values()):
            # A view of what it read: another tensor of the lane, the next request or the caller will write there.
            owned[name] = outputs[name].copy()
    return owned
