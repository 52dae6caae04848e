"""Profiles: a model run many times over, and where the time of every run went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.errors import DeviceError
from dovetail.runtime.memory import ProcessMemory
from dovetail.runtime.record import Run


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How often a model is run: first some runs that are not measured, then those that are.

    Raises DeviceError where no run is measured.
    """

    warm_ups: int = 2
    runs: int = 20

    def __post_init__(self) -> None:
        if self.runs < 1 or self.warm_ups < 0:
            raise DeviceError(f"{self.runs} runs after {self.warm_ups}: at least one run is needed.", option="runs")


@dataclass(frozen=True, slots=True)
class PartitionAccount:
    """What a backend says of a partition: how many operators it holds, and how many of them run elsewhere."""

    operators: int
    """0 where the backend is silent."""
    elsewhere: int


@dataclass(frozen=True, slots=True)
class RunProfile:
    """What was measured where the model runs, with no network in between."""

    runs: tuple[Run, ...]
    """One at a time; without outputs where they were run elsewhere."""
    starts_ns: tuple[int, ...]
    """When each began, on a clock of its own."""
    together_ns: int
    """What as many runs took with several under way."""
    devices: tuple[str, ...]
    """The device of every partition."""
    memory: ProcessMemory | None = None
    """Where the place tells it."""
    accounts: tuple[PartitionAccount, ...] = ()
    """Of every partition; none where the place does not tell them."""

    @property
    def per_second(self) -> float:
        """Return the throughput with several runs under way."""
        return len(self.runs) * 1e9 / self.together_ns

    def percentile_ns(self, share: float) -> int:
        """Return the least time that a share of the runs, one at a time, does not exceed."""
        return percentile(sorted(run.elapsed_ns for run in self.runs), share)

    def bound_ns(self, share: float, confidence: float = 0.99) -> int | None:
        """Return the time that a share of all runs keeps within, with a confidence; None where runs are too few.

        It is an order statistic: nothing is supposed of how times are distributed (44 runs bound 90 % with 99 %
        confidence, 459 bound 99 %).
        """
        return percentile_bound(sorted(run.elapsed_ns for run in self.runs), share, confidence)


def percentile(values: Sequence[int], share: float) -> int:
    """Return the least of sorted values that a share of them does not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def percentile_bound(values: Sequence[int], share: float, confidence: float) -> int | None:
    """Return the least of sorted values that bounds the percentile of what they are drawn from; None for too few.

    The value with `k` values up to it does so with the probability that of `n` draws fewer than `k` are below the
    percentile (Conover, Practical Nonparametric Statistics, 3.2).
    """
    count, below = len(values), 0.0
    for rank in range(count):
        chance = math.lgamma(count + 1) - math.lgamma(rank + 1) - math.lgamma(count - rank + 1)
        below += math.exp(chance + rank * math.log(share) + (count - rank) * math.log1p(-share))
        if below >= confidence:
            return values[rank]
    return None
