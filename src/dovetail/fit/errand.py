"""What a board, or a farm of them, is sent to do for the answer of a search, and what came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.bundle import Bundle
from dovetail.fit.request import BoardRequest
from dovetail.ir import Graph
from dovetail.ir.dtypes import AnyArray
from dovetail.report import BoardFigures, BoardPart
from dovetail.runtime import RunProfile
from dovetail.runtime.profiling import percentile
from dovetail.search.samples import SampleSet


@dataclass(frozen=True, slots=True)
class Errand:
    """A bundle that is run on samples of the hold-out, in this order, and timed."""

    graph: Graph
    samples: SampleSet
    order: Sequence[int]
    bundle: Bundle
    board: BoardRequest

    def feeds(self) -> list[Mapping[str, AnyArray]]:
        """Return the inputs of the samples that it is timed on."""
        return [sample.inputs for sample in self.samples.samples(self.order[: self.board.runs])]


@dataclass(frozen=True, slots=True)
class BoardAnswer:
    """What came back: who gave it, the outputs `[N, ...]`, and what single runs took."""

    told: BoardFigures
    outputs: Mapping[str, AnyArray]
    times_ns: tuple[int, ...]


def parts_of(bundle: Bundle, profile: RunProfile, versions: Mapping[str, str]) -> tuple[BoardPart, ...]:
    """Return where a board ran the partitions; `versions` are those of its backends."""
    pairs = zip(bundle.partitions, profile.devices, strict=True)
    return tuple(BoardPart(part.target, device, part.backend, versions.get(part.backend, "")) for part, device in pairs)


def times_of(profile: RunProfile) -> tuple[int, ...]:
    """Return what the runs of a profile took."""
    return tuple(run.elapsed_ns for run in profile.runs)


def median_ns(times_ns: Sequence[int]) -> float:
    """Return the time that half of the runs do not exceed."""
    return float(np.median(times_ns))


def within_ns(times_ns: Sequence[int], share: float) -> float:
    """Return the least time that a share of the runs does not exceed."""
    return float(percentile(sorted(times_ns), share))


def equal_share(ours: Mapping[str, AnyArray], theirs: Mapping[str, AnyArray]) -> float:
    """Return the share of elements that are equal; arrays of one name have one shape."""
    count = sum(values.size for values in ours.values())
    equal = sum(
        int(np.count_nonzero((theirs[name] == values) | ((theirs[name] != theirs[name]) & (values != values))))
        for name, values in ours.items()
    )
    return equal / max(count, 1)
