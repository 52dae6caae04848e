"""From a 1-minimal plan to the cheapest one: the last step of a search, with its certificate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override
from dovetail.search.hunt import MANY, Found, Hunt
from dovetail.search.oracle import Bar
from dovetail.search.proof import JudgeRaised, Prover
from dovetail.search.result import Evidence
from dovetail.search.trial import Status

_MOST_THINNED = 60
"""Tests at most of a plan without one of its units."""


def cheapest(hunt: Hunt, prover: Prover, found: Found, bar: Bar, refused: Collection[str] = ()) -> Found:
    """Return the cheapest plan that passes, with what is proven of it; `within_limits` is false when there is none.

    Units that save less than `worthwhile` are left out again. Every single removal is tested: a unit that can go back
    to low precision is a companion. Digests of plans that the hold-out split has `refused` count as failing.
    """
    out = [raised for digest, raised in hunt.placements().items() if digest in refused]

    def judge(raised: Mapping[str, Placement]) -> Status:
        if raised in out:
            return Status.FAIL
        return hunt.judge({unit: hunt.override(unit, place) for unit, place in raised.items()}, bar).status

    before = {unit: override.placement for unit, override in found.raised.items()}
    known = [(raised, Status.FAIL if raised in out else status) for raised, status in hunt.answers(bar)]
    best, optimum = prover.improve(before, known, judge)
    latencies = {digest: prover.latency_ns(raised) for digest, raised in hunt.placements().items()}
    if best is None:
        certificate = prover.certificate(found.raised, optimum)
        return replace(found, certificate=certificate, latencies_ns=latencies, within_limits=False)
    best = _without_idle(prover, _thinned(prover, best, judge), before, judge)
    if best != before or not (found.evidence or hunt.exhausted):
        found = _rebuilt(hunt, prover, best, bar)
        latencies = {digest: prover.latency_ns(raised) for digest, raised in hunt.placements().items()}
    certificate = prover.certificate(found.raised, optimum)
    evidence = tuple(replace(item, latency_ns=latencies.get(item.trial.plan_digest)) for item in found.evidence)
    return replace(found, evidence=evidence, certificate=certificate, latencies_ns=latencies)


def cheaper(
    hunt: Hunt, prover: Prover, found: Found, bars: Sequence[Bar], refused: Collection[str]
) -> tuple[Found, Found]:
    """Return a plan that was not searched for with what it costs and what is proven, and the cheapest plan instead.

    Both meet the last bar that the plan does. They are the same where the plan meets none.
    """
    met = next((bar for bar in reversed(bars) if hunt.judge(found.raised, bar).passed), None)
    if met is None:
        return found, found
    instead = cheapest(hunt, prover, found, met, refused)
    return proven(prover, found, instead), instead


def proven(prover: Prover, found: Found, instead: Found) -> Found:
    """Return a plan with what was proven when a cheaper one was found instead."""
    proof = instead.certificate
    if proof is not None:
        proof = replace(proof, cost=prover.model.plan_cost(found.plan))
    return replace(found, trials=instead.trials, certificate=proof, latencies_ns=instead.latencies_ns)


def _thinned(prover: Prover, best: Mapping[str, Placement], judge: JudgeRaised) -> Mapping[str, Placement]:
    """Return the plan without units that it passes and is faster without, those first that save most.

    Of a 1-minimal plan all this is known.
    """
    kept, failed, tests = dict(best), set[str](), 0
    most = prover.options.most_tests
    while tests < (_MOST_THINNED if most is None else min(most, _MOST_THINNED)):
        saved = {unit: much for unit, much in prover.saved_ns(kept).items() if unit not in failed}
        unit = max(saved, key=lambda unit: saved[unit], default=None)
        if unit is None or saved[unit] <= prover.options.worthwhile * prover.latency_ns(kept):
            break
        rest = {name: place for name, place in kept.items() if name != unit}
        tests += 1
        if prover.allows(rest) and judge(rest) is Status.PASS:
            kept, failed = rest, set()
        else:
            failed.add(unit)
    return kept


def _without_idle(
    prover: Prover, best: Mapping[str, Placement], before: Mapping[str, Placement], judge: JudgeRaised
) -> dict[str, Placement]:
    """Return the plan without units that hardly make it cheaper and that the target does not need.

    Figures are not exact enough to raise a unit for a thousandth of the latency.
    """
    most_ns = prover.latency_ns(best) * (1 + prover.options.worthwhile)
    kept = dict(best)
    for unit in [unit for unit in best if unit not in before]:
        rest = {name: place for name, place in kept.items() if name != unit}
        if prover.latency_ns(rest) <= most_ns and prover.allows(rest) and judge(rest) is Status.PASS:
            kept = rest
    return kept


def _rebuilt(hunt: Hunt, prover: Prover, best: Mapping[str, Placement], bar: Bar) -> Found:
    faster = [unit for unit, much in prover.saved_ns(best).items() if much > 0]
    tested = tuple(best) if len(best) < MANY else faster
    raised = {unit: hunt.override(unit, place, unit in tested) for unit, place in best.items()}
    evidence: list[Evidence] = []
    companions: set[str] = set()
    for unit in tested:
        rest = {name: override for name, override in raised.items() if name != unit}
        trial = hunt.judge(rest, bar)
        evidence.append(Evidence(unit, trial))
        lower = {name: override.placement for name, override in rest.items()}
        if trial.status is Status.PASS and prover.latency_ns(lower) >= prover.latency_ns(best):
            companions.add(unit)
            raised[unit] = Override(best[unit], "meets the target at low precision too, but is cheaper here")
    plan = prover.space.plan(raised)
    return Found(plan, raised, tuple(evidence), hunt.trials(), companions=frozenset(companions))
