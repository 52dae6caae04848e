"""Selection: the plans that are looked at on the hold-out split, and which of them is the answer.

The low plan comes first: nothing selected it. What the search selects then is looked at a few times at most, and every
look teaches how much more a selected plan loses than the samples say that selected it. Where all of them miss,
everything raised is looked at, which nothing selected either; where that does not miss, a cheaper plan that is quiet
enough is, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.search.acceptance import (
    doublings,
    is_worth_it,
    judge_selected,
    judge_unselected,
    look_doubt,
    mean_of_both,
)
from dovetail.search.between import quieter
from dovetail.search.bounds import largest_sure_loss
from dovetail.search.candidate import Candidate
from dovetail.search.cheapest import cheapest
from dovetail.search.context import SearchContext
from dovetail.search.culprits import find_culprits
from dovetail.search.front import knee_trial
from dovetail.search.ledger import Ledger
from dovetail.search.tolerance import Tolerance
from dovetail.search.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer of a search, judged, and the cheapest plan that is surer: to meet the goal, or likely to."""

    answer: Candidate
    surer: Candidate | None = None


def select(context: SearchContext, ledger: Ledger) -> Selection:
    """Return the cheapest plan that meets the goal as far as samples tell that did not select it.

    A dearer plan is the answer only where it is shown to be better, unless the cheaper one surely misses the goal. A
    goal that asks for certainty takes the plan that is sure.
    """
    candidates = _looked_at(context, ledger)
    answer = _best(context, candidates)
    if answer.verdict is Verdict.MISSED:
        candidates += _dearer(context, ledger, candidates)
        answer = _best(context, candidates)
    if answer.verdict is Verdict.MISSED:
        cheaper = _cheaper(context, ledger, candidates, answer)
        known = [*candidates, *cheaper]
        answer = _beside(context, _best(context, known), cheaper, known)
    if answer.verdict is Verdict.MISSED:
        within = _by_price(context, (item for item in known if item.verdict.is_within))
        return Selection(answer, within[0] if within else None)
    if answer.verdict is not Verdict.LIKELY:
        return Selection(answer)
    surer = _surer(context, ledger, candidates, answer)
    if surer is not None and context.request.goal.sure:
        return Selection(surer)
    return Selection(answer, surer)


def _looked_at(context: SearchContext, ledger: Ledger) -> list[Candidate]:
    """Return the candidates that were judged; the last is within the goal, or the budget of looks is spent."""
    candidates: list[Candidate] = []
    least = reserved(context)
    tolerance: Tolerance | None = least
    if context.prover is None or context.prover.allows({}):
        # Repairs were chosen on the search split: what is low with them was selected there.
        judged = judge_selected if context.request.repairs else judge_unselected
        low = judged(context, ledger, context.candidate({}))
        if low.verdict.is_within:
            return _low_or_faster(context, ledger, low)
        candidates = [low]
        if ledger.judge({}, least).passed:
            tolerance = _stricter(context, ledger, low)
    for look in range(context.policy.acceptance.looks):
        if tolerance is None:
            break
        candidate = _searched(context, ledger, tolerance, climbs=False)
        if candidate is None and look == 0:
            candidate = _searched(context, ledger, context.tolerance, climbs=True)
        if candidate is None or candidate.plan.digest in {item.plan.digest for item in candidates}:
            break
        context.listener.stage("hold-out")
        candidate = judge_selected(context, ledger, candidate)
        candidates.append(candidate)
        if candidate.verdict.is_within or not candidate.within_limits:
            break
        context.listener.stage(f"{candidate.assessment}: searching again")
        tolerance = _stricter(context, ledger, candidate)
    return candidates


def _dearer(context: SearchContext, ledger: Ledger, judged: Sequence[Candidate]) -> list[Candidate]:
    """Return everything raised where all else misses; before it a cheaper plan that is quiet enough, if it is within.

    A quiet plan that misses tells nothing for or against everything raised.
    """
    whole = _whole(context, ledger, judged)
    if not whole or not whole[0].verdict.is_within:
        return whole
    between = quieter(context, ledger, judged, whole[0])
    if between is not None:
        context.listener.stage("hold-out: a quieter plan")
        between = judge_selected(context, ledger, between)
    found = [*whole] if between is None or not between.verdict.is_within else [between, *whole]
    return [_certified(context, item, judged) for item in found]


def _whole(context: SearchContext, ledger: Ledger, judged: Collection[Candidate]) -> list[Candidate]:
    """Return everything raised, judged, where every plan that was looked at misses the goal.

    Samples that lose nothing with what the search raised, or that lost their luck, cannot say what else breaks; the
    hold-out can tell whether more bits heal it. Nothing where the search split says that they do not.
    """
    whole = context.candidate(context.raised(context.order, top=ledger.starts_at_top, tested=False))
    known = {item.plan.digest for item in judged}
    keeps = context.prover is None or context.prover.allows(whole.placements)
    if whole.plan.digest in known or not (whole.raised and keeps):
        return []
    if not ledger.judge(whole.raised, context.tolerance).passed:
        return []
    context.listener.stage("hold-out: everything raised")
    return [judge_selected(context, ledger, whole)]


def _certified(context: SearchContext, found: Candidate, judged: Iterable[Candidate]) -> Candidate:
    """Return a plan that no proof led to with its cost, and the last bound of judged ones that is not above that."""
    if context.prover is None:
        return found
    cost = context.prover.model.plan_cost(found.plan)
    proofs = [item.certificate for item in judged if item.certificate is not None]
    kept = [proof for proof in proofs if proof.lower_bound_ns <= cost.latency_ns]
    certificate = replace(kept[-1], cost=cost, complete=False) if kept else context.prover.unproven(found.plan)
    return replace(found, certificate=certificate)


def reserved(context: SearchContext) -> Tolerance:
    """Return what a plan has to reach that is selected: better than the goal by its standard error, as low plans lose.

    The variance of a loss is taken to be as many times its mean as that of the low plan: 1 where samples are lost or
    not. Without scores of samples nothing is known of it.
    """
    allowance, losses = context.tolerance.allowance, context.search.losses(context.space.base)
    if losses is None or not losses.sum() > 0:
        return context.tolerance
    step = context.policy.acceptance.reserve * math.sqrt(float((losses**2).sum() / losses.sum()) / len(losses))
    # The root of t + step * sqrt(t) = allowance.
    return Tolerance(((math.sqrt(step**2 + 4 * allowance) - step) / 2) ** 2)


def _low_or_faster(context: SearchContext, ledger: Ledger, low: Candidate) -> list[Candidate]:
    """Return the low plan, which meets the goal, with its proof; and before it a faster one that meets the goal too."""
    prover = context.prover
    if prover is None:
        return [low]
    context.listener.stage("cheapest")
    tolerance = Tolerance(max(context.tolerance.allowance, _searched_loss(context, low)))
    ledger.judge({}, tolerance)
    faster = cheapest(context, ledger, low, tolerance, prover)
    proof = faster.certificate
    low = replace(low, certificate=None if proof is None else replace(proof, cost=prover.model.plan_cost(low.plan)))
    if faster.plan.digest == low.plan.digest:
        return [low]
    faster = judge_selected(context, ledger, faster)
    return [faster, low] if faster.verdict.is_within else [low]


def _searched(context: SearchContext, ledger: Ledger, tolerance: Tolerance, climbs: bool) -> Candidate | None:
    """Return the cheapest plan that meets a tolerance; None when only the last rung could and `climbs` forbids it.

    Without prices it is the first that passes; with a spent budget, the cheapest that was tried already.
    """
    if ledger.is_exhausted and not climbs:
        ledger.leave("other plans that meet a stricter goal")
        tried = [context.candidate(dict(raised)) for raised in ledger.tried(tolerance) if raised]
        return next(iter(_by_price(context, tried)), None)
    candidate, prover = find_culprits(context, ledger, tolerance, climbs), context.prover
    if candidate is None or prover is None:
        return candidate
    context.listener.stage("cheapest")
    # Where much has to be raised, borders may cost more than what is left low saves.
    whole = context.candidate(context.raised(context.order, top=ledger.starts_at_top, tested=False))
    least_ns = (1 - prover.options.worthwhile) * prover.latency_ns(candidate.placements)
    dear = not context.is_limited and prover.latency_ns(whole.placements) < least_ns
    if dear and ledger.judge(whole.raised, tolerance, spare=True).passed:
        candidate = whole
    return cheapest(context, ledger, candidate, tolerance, prover)


def _stricter(context: SearchContext, ledger: Ledger, refused: Candidate) -> Tolerance | None:
    """Return what the next plan must reach, by how much more a refused one loses than the samples that selected it say.

    Where that leaves nothing to lose, losses are taken to grow by a factor, and no more than everything raised reaches
    is asked. None where the samples lose nothing, or no less with everything raised: they cannot tell a better plan.
    """
    searched = _searched_loss(context, refused)
    if searched <= 0:
        return None
    optimism = refused.assessment.loss - searched
    wanted = context.tolerance.allowance - optimism
    if wanted <= 0:
        whole = context.candidate(context.raised(context.order, top=ledger.starts_at_top, tested=False))
        share = searched / refused.assessment.loss
        wanted = max(0.0, context.tolerance.allowance * share, _searched_loss(context, whole))
    return Tolerance(wanted) if wanted < searched else None


def _searched_loss(context: SearchContext, candidate: Candidate) -> float:
    """Return what a plan that can be tested loses on the search split."""
    trial = context.search.judge(candidate.plan, tuple(candidate.raised), context.tolerance, race=False)
    return trial.float_score - trial.score


def _best(context: SearchContext, candidates: Iterable[Candidate]) -> Candidate:
    """Return the cheapest candidate that meets the goal, or that no dearer one is better than by enough."""
    best, *others = _by_price(context, candidates)
    for dearer in others:
        is_nearer = dearer.verdict.is_within or dearer.assessment.loss < best.assessment.loss
        if not best.verdict.is_within and is_nearer and _replaces(context, dearer, best):
            best = dearer
    return best


def _replaces(context: SearchContext, dearer: Candidate, best: Candidate) -> bool:
    """Tell whether a dearer plan that is nearer the goal replaces one that misses it.

    Where both miss it, the dearer one leaves as many times less of what is lost beyond the goal as it takes longer.
    """
    if not _is_seen_to_miss(context, best, dearer):
        return False
    if dearer.verdict.is_within:
        return True
    left, beyond = (item.assessment.loss - item.assessment.allowance for item in (dearer, best))
    return left * _times_as_long(context, dearer, best) <= beyond


def _is_seen_to_miss(context: SearchContext, plan: Candidate, dearer: Candidate) -> bool:
    """Tell whether a plan misses the goal beyond doubt, or by enough for what a dearer one takes (ADR 31).

    The dearer that is, the more standard errors it has to be; and that it is better has to be shown by bets, or this
    one misses by a standard error, where few samples cannot show it.
    """
    if plan.assessment.surely_missed:
        return True
    shown, errors = is_worth_it(context, plan, dearer), _errors_beyond(context, plan)
    if errors is None:
        return shown
    needed = context.policy.acceptance.errors_doubled * doublings(context, plan, dearer)
    return errors > needed and (shown or errors > 1)


def _errors_beyond(context: SearchContext, plan: Candidate) -> float | None:
    """Return by how many standard errors a plan misses the goal; None where samples have no scores.

    What selected a plan flatters it: it counts only where it speaks against the plan.
    """
    held = None if plan.acceptance is None else plan.acceptance.losses
    if held is None:
        return None
    goal, search, holdout = context.request.goal, context.search, context.holdout
    found = [_errors(held, goal.allowance(holdout.float_score))]
    searched = search.losses(plan.plan)
    if searched is not None:
        allowed = goal.allowance(mean_of_both(context, search.float_score, holdout.float_score))
        pooled = _errors(np.concatenate([searched, held]), allowed)
        was_selected = plan.raised or context.request.repairs
        found = [*found, pooled] if was_selected else [pooled]
    return max(found)


def _errors(losses: AnyArray, allowance: float) -> float:
    beyond, error = float(losses.mean()) - allowance, float(losses.std()) / math.sqrt(len(losses))
    if abs(beyond) <= 1e-12:
        return 0.0
    return beyond / error if error > 1e-12 else math.copysign(math.inf, beyond)


def _cheaper(
    context: SearchContext, ledger: Ledger, candidates: Iterable[Candidate], answer: Candidate
) -> list[Candidate]:
    """Return the plan after which more latency stopped paying on the search split, judged, where the answer is dearer.

    What the samples asked for in vain may have taken the search far beyond it.
    """
    prover = context.prover
    if prover is None:
        return []
    latencies = {digest: prover.latency_ns(raised) for digest, raised in ledger.placements().items()}
    knee = knee_trial(ledger.trials, latencies, prover.latency_ns(answer.placements))
    if knee is None or knee.plan_digest in {item.plan.digest for item in candidates}:
        return []
    return [judge_selected(context, ledger, context.candidate(dict(ledger.raised_by(knee.plan_digest))))]


def _beside(
    context: SearchContext, answer: Candidate, cheaper: Iterable[Candidate], known: Collection[Candidate]
) -> Candidate:
    """Return an answer that misses the goal with what is said of cheaper plans beside it that are worth a look."""
    prover = context.prover
    if prover is None or answer.verdict.is_within:
        return answer
    remarks = [
        f"{_raised_units_take(len(item.raised))} {prover.latency_ns(item.placements) / 1e6:.4g} ms ({item.assessment})"
        for item in cheaper
        if _loses_least(context, item, known) and item.plan.digest != answer.plan.digest
    ]
    return replace(answer, remarks=(*answer.remarks, *remarks))


def _loses_least(context: SearchContext, plan: Candidate, known: Iterable[Candidate]) -> bool:
    """Tell whether every other plan that takes no longer was seen to lose more."""
    return math.isfinite(plan.assessment.loss) and not any(
        other.plan.digest != plan.plan.digest
        and other.assessment.loss <= plan.assessment.loss
        and _times_as_long(context, other, plan) <= 1
        for other in known
    )


def _raised_units_take(count: int) -> str:
    return f"{count} raised unit takes" if count == 1 else f"{count} raised units take"


def _times_as_long(context: SearchContext, dearer: Candidate, cheaper: Candidate) -> float:
    """Return how many times as long a plan takes; 1 where nothing is priced."""
    if context.prover is None:
        return 1.0
    after, before = (context.prover.latency_ns(item.placements) for item in (dearer, cheaper))
    return after / before if before > 0 else 1.0


def _surer(
    context: SearchContext, ledger: Ledger, candidates: Iterable[Candidate], answer: Candidate
) -> Candidate | None:
    """Return the cheapest plan that surely meets the goal, by one look more; None where none is known.

    A goal that asks for certainty is worth a search; else what was tried already may do.
    """
    sure = [item for item in _by_price(context, candidates) if item.verdict is Verdict.MET]
    if sure:
        return sure[0]
    limits = context.holdout.loss_range
    doubt = look_doubt(context.policy.acceptance, ledger.looks + 1)
    if limits is None or context.is_limited:
        return None
    allowance = context.request.goal.allowance(context.holdout.float_score)
    loss = largest_sure_loss(context.holdout.sample_count, limits.largest, doubt, allowance)
    if loss is None:
        return None
    tolerance = Tolerance(loss)
    if context.request.goal.sure:
        found = _searched(context, ledger, tolerance, climbs=False)
    else:
        tried = ledger.tried(tolerance)
        found = next(iter(_by_price(context, [context.candidate(dict(raised)) for raised in tried])), None)
    if found is None or found.plan.digest == answer.plan.digest:
        return None
    found = judge_selected(context, ledger, found)
    return found if found.verdict is Verdict.MET else None


def _by_price(context: SearchContext, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates, the cheapest first; without prices those first that raise least."""
    prover = context.prover
    if prover is None:
        return sorted(candidates, key=lambda item: len(item.raised))
    return sorted(candidates, key=lambda item: prover.latency_ns(item.placements))
