"""Percentiles with their bounds, and the memory of a process."""

from __future__ import annotations

import mmap

import needs
import numpy as np
import pytest

from dovetail.runtime.memory import ProcessMemory, memory_now, memory_peak, reset_peak
from dovetail.runtime.profiling import percentile, percentile_bound

MB = 1 << 20


def test_percentiles_are_the_least_value_that_a_share_does_not_exceed() -> None:
    values = list(range(1, 101))
    assert [percentile(values, share) for share in (0.5, 0.9, 0.99, 1.0)] == [50, 90, 99, 100]
    assert percentile([7], 0.5) == 7


@pytest.mark.parametrize(("share", "least"), [(0.5, 7), (0.9, 44), (0.99, 459)])
def test_a_bound_needs_so_many_runs(share: float, least: int) -> None:
    assert percentile_bound(list(range(least - 1)), share, 0.99) is None
    assert percentile_bound(list(range(least)), share, 0.99) == least - 1


def test_bounds_hold_as_often_as_they_say() -> None:
    """Of 4,000 draws of 60 values, the bound is below the true percentile in at most 1 % and what chance adds."""
    rng = np.random.default_rng(7)
    draws = np.sort(rng.integers(0, 1_000_000, (4000, 60)), axis=1)
    broken = sum((percentile_bound(row.tolist(), 0.9, 0.99) or 0) < 900_000 for row in draws)
    assert broken <= 70, broken
    assert broken > 0, "a bound that never fails is no 99 % bound"


def test_the_peak_of_a_process_begins_anew() -> None:
    if memory_now() is None:
        needs.without("procfs", "this system does not tell")
    reset_peak()
    before = memory_now()
    with mmap.mmap(-1, 64 * MB) as block:
        for at in range(0, len(block), mmap.PAGESIZE):
            block[at] = 1
    peak = memory_peak()
    assert before is not None
    assert peak is not None
    assert peak >= before + 60 * MB
    reset_peak()
    again = memory_peak()
    assert again is not None
    assert again < peak - 30 * MB


def test_what_was_added_is_never_below_nothing() -> None:
    assert ProcessMemory(None, 5).added_bytes is None
    assert ProcessMemory(3, 5).added_bytes == 2
    assert ProcessMemory(9, 5).added_bytes == 0
