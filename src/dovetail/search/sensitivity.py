"""Quantise a few units of the float model at a time and look at the outputs.

Never the other way round: with two culprits in series, restoring one unit of the quantised model tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from dovetail.ir.graph import Graph
from dovetail.plan.plan import Override
from dovetail.quantize.ranges import Range
from dovetail.search.clock import HALF
from dovetail.search.context import SearchContext
from dovetail.search.fanout.task import Measure, Query
from dovetail.search.ledger import Ledger
from dovetail.search.noise import MOST_NOISE, measure_noise
from dovetail.search.policy import SensitivityPolicy
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.space import FLOAT, Space
from dovetail.search.strategy import LocateBudget, locate


def samples_measured(graph: Graph, policy: SensitivityPolicy) -> int:
    """Return on how many samples a plan is measured."""
    values = sum(graph.element_counts[name] for name in graph.outputs)
    return min(policy.most_samples, max(policy.least_samples, math.ceil(policy.values / max(1, values))))


def measure_alone(
    space: Space,
    evaluator: RecordedEvaluator,
    indices: Sequence[int],
    policy: SensitivityPolicy,
    needed: Mapping[str, Range] | None = None,
) -> Mapping[str, float]:
    """Return for every unit the noise at the outputs when only it is low, or an estimate of that.

    Workers have what is `needed` of outputs with their work; here it has to be given. Half of the time of a search is
    left for tests.
    """
    everything = {name: Override(FLOAT, "float") for name in space.units}
    samples = tuple(indices[: samples_measured(space.graph, policy)])

    def lowered(units: Sequence[str]) -> Query:
        low = frozenset(units)
        plan = space.plan({name: override for name, override in everything.items() if name not in low})
        return Query(plan, samples, Measure.NOISE)

    def measure(units: Sequence[str]) -> float:
        query = lowered(units)
        scores = evaluator.once(query, partial(measure_noise, evaluator.evaluator, query.plan, samples, needed))
        return MOST_NOISE if scores.failure else scores.score

    def announce(groups: Sequence[Sequence[str]]) -> None:
        if evaluator.width > 1:
            evaluator.expect([lowered(units) for units in groups])

    budget, clock = LocateBudget(policy.plans, policy.blocks), evaluator.count.clock
    return locate(tuple(space.units), measure, budget, announce, lambda: not clock.is_up(HALF))


def measured_order(context: SearchContext, ledger: Ledger) -> list[str]:
    """Return all units by what each does alone to the float model's outputs, then by the prior."""
    if ledger.sensitivities is None:
        context.listener.stage("quantise-one")
        ledger.sensitivities = measure_alone(
            context.space,
            context.fast,
            context.search.indices,
            context.policy.sensitivity,
            context.request.needed,
        )
    noise = ledger.sensitivities
    return sorted(context.order, key=lambda unit: -noise[unit])
