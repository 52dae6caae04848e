"""The answer of a search on all boards of a farm that fit: each gives a part of the hold-out, and is timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dovetail.errors import DeviceNotFound
from dovetail.fit.errand import BoardAnswer, Errand, equal_share, median_ns, parts_of, times_of
from dovetail.fit.listener import FitListener
from dovetail.ir.dtypes import AnyArray
from dovetail.remote.farm import Farm, FarmOptions, FarmRun, FarmTiming
from dovetail.report import BoardFigures, BoardShare
from dovetail.runtime import ProfileOptions
from dovetail.search.samples import stack_outputs


def check_farm(scheduler: str, owners: Mapping[str, str]) -> None:
    """Ask a farm whether a board of it runs these targets by these backends; raise DeviceNotFound where none does."""
    with Farm(scheduler) as farm:
        there = [board for board in farm.status().boards if board.is_there]
    reasons: list[str] = []
    for board in there:
        lacks = [target for target in owners if target not in board.parts]
        lacks += [f"backend '{owner}'" for owner in dict.fromkeys(owners.values()) if owner not in board.backends]
        if not lacks:
            return
        reasons.append(f"{board.name} has no {', '.join(lacks)}")
    raise DeviceNotFound(
        f"{scheduler}: no board of the farm can run the answer: {'; '.join(reasons)[:300] or 'none is there'}.",
        hint="Look at 'dovetail farm status'.",
        option="on",
    )


def ask_farm(errand: Errand, retries: int, progress: FitListener) -> BoardAnswer:
    """Return what the boards of a farm give, in batches as simulation has them; raise DovetailError where they fail."""
    name, runs = errand.board.name, errand.board.runs
    batches = list(errand.samples.batches(errand.order))
    progress.stage(f"on the boards of {name}", len(batches))
    with Farm(name, FarmOptions(retries)) as farm:
        timing = FarmTiming(errand.feeds(), ProfileOptions(runs=runs))
        found = farm.run(errand.bundle, (batch.inputs for batch in batches), timing, progress.advance)
    ids = [tuple(sample.id for sample in batch.samples) for batch in batches]
    return BoardAnswer(
        BoardFigures(name, name, boards=_shares(errand, found, ids)),
        stack_outputs(errand.graph, [piece.outputs for piece in found.pieces]),
        tuple(time for one in found.profiles for time in times_of(one.profile)),
    )


def _shares(errand: Errand, found: FarmRun, ids: Sequence[tuple[str, ...]]) -> tuple[BoardShare, ...]:
    """Return what each board gave; `ids` name the samples of every piece."""
    shares: dict[str, BoardShare] = {}
    for piece, names in zip(found.pieces, ids, strict=True):
        known = shares.get(piece.board) or BoardShare(piece.board, piece.url)
        shares[piece.board] = replace(known, samples=(*known.samples, *names))
    for one in found.profiles:
        known = shares.get(one.board) or BoardShare(one.board, one.url)
        times = times_of(one.profile)
        parts = parts_of(errand.bundle, one.profile, one.versions)
        shares[one.board] = replace(known, parts=parts, runs=len(times), median_ns=median_ns(times))
    for lost in found.lost:
        known = shares.get(lost.board) or BoardShare(lost.board, lost.url)
        shares[lost.board] = replace(known, lost=lost.reason)
    return tuple(shares[name] for name in sorted(shares))


def with_shares(
    boards: Sequence[BoardShare], ids: Sequence[str], ours: Mapping[str, AnyArray], theirs: Mapping[str, AnyArray]
) -> tuple[BoardShare, ...]:
    """Return the boards with the share of elements that each gave as simulation does; `ids` name the rows."""
    found: list[BoardShare] = []
    for board in boards:
        rows = np.flatnonzero(np.isin(ids, board.samples))
        told = board.samples and all(len(values) == len(ids) for values in ours.values())
        share = (
            equal_share(
                {name: values[rows] for name, values in ours.items()},
                {name: theirs[name][rows] for name in ours},
            )
            if told
            else None
        )
        found.append(replace(board, equal_share=share))
    return tuple(found)
