"""Quantise a few units of the float model at a time and look at the outputs.

Never the other way round: with two culprits in series, restoring one unit of the quantised model tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from dovetail.ir.graph import Graph
from dovetail.plan.plan import Override, Plan
from dovetail.search.drowned import measure_drowned
from dovetail.search.fanout.task import Job
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.space import FLOAT, Space
from dovetail.search.strategy import locate

_PROBE_SAMPLES = (2, 8)
"""Samples that the outputs are compared on, at least and at most."""

_PROBE_VALUES = 1 << 16
"""Values of the outputs that are compared, where that takes fewer samples: noise is a mean over them."""

PROBE_BUDGET = 96
"""Most plans that are probed."""


def probed_samples(graph: Graph, units: int) -> int:
    """Return how many samples `quantise_few` evaluates at most for so many units."""
    return _samples(graph) * min(units, PROBE_BUDGET)


def _samples(graph: Graph) -> int:
    """Return on how many samples a plan is probed."""
    least, most = _PROBE_SAMPLES
    values = sum(graph.element_counts[name] for name in graph.outputs)
    return min(most, max(least, math.ceil(_PROBE_VALUES / max(1, values))))


def quantise_few(space: Space, recorded: RecordedEvaluator, indices: Sequence[int]) -> Mapping[str, float]:
    """Return for every unit how much of the outputs' signal it drowns when only it is low, or an estimate of that."""
    everything = {name: Override(FLOAT, "float") for name in space.units}
    probes = tuple(indices[: _samples(space.graph)])

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
