"""What a fit decides where its request leaves it open: the metric, the start of the search, the ladder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from dovetail.backend.registry import find_target
from dovetail.compare import TaskMetric, load_metric
from dovetail.data.sample import SampleSource
from dovetail.errors import DataError, SearchError
from dovetail.ir.precision import Precision
from dovetail.plan.placement import Placement, parse_placement

_EIGHT_BITS = (Precision.I8PC, Precision.U8)
"""The precisions that a search starts from, the more accurate first."""


def choose_metric(name: str | None, samples: SampleSource) -> tuple[TaskMetric, str]:
    """Return the metric, and a text that changes with its code.

    Without a name: top1 when the samples have labels, else agreement with the float model's best class.
    """
    if name is None:
        first = next(iter(samples), None)
        if first is None:
            raise DataError("the data set is empty.", hint="Give at least two samples.")
        name = "top1" if first.labels else "top1_agreement"
    metric = load_metric(name)
    file = Path(name.rpartition(":")[0])
    code = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return metric, f"{name.rpartition(':')[2]}:{code}"


def choose_low(target: str, precision: str | None) -> Placement:
    """Return where the search starts: as named, else the first 8-bit precision that is cheaper than 16 bits."""
    order = find_target(target).precisions
    if precision is not None:
        return parse_placement(f"{target}@{precision}")
    cheap = order[: order.index(Precision.I16)] if Precision.I16 in order else order
    low = next((item for item in _EIGHT_BITS if item in cheap), None)
    if low is None:
        raise SearchError(
            f"target '{target}' has no 8-bit precision to start from.", hint="Name the precision.", option="low"
        )
    return Placement(target, low)


def choose_ladder(target: str, steps: Sequence[str]) -> tuple[Placement, ...]:
    """Return the placements that culprits are raised to; raise DovetailError for a target that is not known."""
    ladder = tuple(parse_placement(text if "@" in text else f"{target}@{text}") for text in steps)
    for place in ladder:
        find_target(place.target)
    return ladder
