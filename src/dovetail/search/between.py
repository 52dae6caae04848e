"""Between a plan that misses the goal and everything raised: by noise, which tells plans apart on any sample.

Losses that are decisions are zero or not, and few samples may lose none. The share of decisions that small noise turns
over grows as its amplitude, with the square root of its power.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

from dovetail.plan.plan import Plan
from dovetail.search.budget import Units, cheapest_under_noise
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.fanout.task import Measure, Query
from dovetail.search.ledger import Ledger
from dovetail.search.noise import MOST_NOISE, measure_noise, noise_power
from dovetail.search.sensitivity import measured_order, samples_measured


def quieter(context: SearchContext, ledger: Ledger, missed: Iterable[Candidate], whole: Candidate) -> Candidate | None:
    """Return the cheapest plan that is as quiet as what the best of some lost on the hold-out asks for.

    None where that is everything raised, or loses too much on the samples that search.
    """
    prover, allowed = context.prover, context.request.goal.allowance(context.holdout.float_score)
    lost, best = min(((_lost(item), item) for item in missed), key=lambda pair: pair[0])
    if prover is None or not 0 < allowed < lost < math.inf:
        return None
    if not ledger.has_time:
        ledger.leave("a quieter plan than everything raised")
        return None
    context.listener.stage("quieter plans")
    measured_order(context, ledger)
    most = noise_power(_noise(context, best.plan)) * (allowed / lost) ** 2

    def is_quiet(units: Units) -> bool:
        raised = context.raised(units, top=ledger.starts_at_top, tested=False)
        return noise_power(_noise(context, context.space.plan(raised))) <= most

    units = cheapest_under_noise(context, ledger, prover, is_quiet, lambda: ledger.has_time)
    if not units:
        return None
    found = context.candidate(context.raised(units, top=ledger.starts_at_top, tested=False))
    if found.plan.digest == whole.plan.digest:
        return None
    if not (prover.allows(found.placements) and ledger.judge(found.raised, context.tolerance, spare=True).passed):
        return None
    return found


def _lost(candidate: Candidate) -> float:
    """Return what a plan lost on the hold-out in exact simulation; infinite where it was not simulated so."""
    found = candidate.acceptance
    return found.trial.float_score - found.trial.score if found is not None and found.exact else math.inf


def _noise(context: SearchContext, plan: Plan) -> float:
    """Return the noise of the output that a plan harms most, on the first samples of the search split."""
    samples = tuple(context.search.indices[: samples_measured(context.space.graph, context.policy.sensitivity)])
    evaluator, needed = context.fast.evaluator, context.request.needed
    query = Query(plan, samples, Measure.NOISE)
    scores = context.fast.once(query, partial(measure_noise, evaluator, plan, samples, needed))
    return MOST_NOISE if scores.failure else scores.score
