"""Quantise a few units of the float model at a time and look at the outputs.

Never the other way round: with two culprits in series, restoring one unit of the quantised model tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dovetail.plan.plan import Override, Plan
from dovetail.search.drowned import measure_drowned
from dovetail.search.fanout.task import Job
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.space import FLOAT, Space
from dovetail.search.strategy import locate

PROBE_SAMPLES = 8
"""Samples that the outputs are compared on: noise is a mean over many values, so few samples tell it."""

PROBE_BUDGET = 96
"""Most plans that are probed."""


def probed_samples(units: int) -> int:
    """Return how many samples `quantise_few` evaluates at most for so many units."""
    return PROBE_SAMPLES * min(units, PROBE_BUDGET)


def quantise_few(space: Space, recorded: RecordedEvaluator, indices: Sequence[int]) -> Mapping[str, float]:
    """Return for every unit how much of the outputs' signal it drowns when only it is low, or an estimate of that."""
    everything = {name: Override(FLOAT, "float") for name in space.units}
    probes = tuple(indices[:PROBE_SAMPLES])

    def lowered(units: Sequence[str]) -> Plan:
        low = frozenset(units)
        return space.plan({name: override for name, override in everything.items() if name not in low})

    def measure(units: Sequence[str]) -> float:
        plan = lowered(units)
        measured = partial(measure_drowned, recorded.evaluator, plan, probes)
        scores = recorded.once(Job.DROWNED, plan, probes, measured)
        return 2.0 if scores.failure else scores.score

    def announce(groups: Sequence[Sequence[str]]) -> None:
        if recorded.width > 1:
            recorded.ahead([(Job.DROWNED, lowered(units), probes) for units in groups])

    return locate(tuple(space.units), measure, PROBE_BUDGET, announce)
