"""From a passing plan to the cheapest one, with its certificate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.proof import KnownPlan, Prover
from dovetail.search.result import Evidence
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status


@dataclass(frozen=True, slots=True)
class _Tests:
    """Tests of plans at one tolerance."""

    context: SearchContext
    ledger: Ledger
    tolerance: Tolerance

    def status(self, raised: Mapping[str, Placement]) -> Status:
        """Return the verdict on a plan that raises some units."""
        overrides = {unit: self.context.override(unit, place) for unit, place in raised.items()}
        return self.ledger.judge(overrides, self.tolerance, spare=True).status

    def passes(self, raised: Mapping[str, Placement]) -> bool:
        """Tell whether a plan meets the tolerance."""
        return self.status(raised) is Status.PASS

    def known(self) -> list[KnownPlan]:
        """Return every plan that was judged at this tolerance."""
        return [KnownPlan(raised, trial.status) for raised, trial in self.ledger.verdicts(self.tolerance)]


def cheapest(
    context: SearchContext,
    ledger: Ledger,
    candidate: Candidate,
    tolerance: Tolerance,
    prover: Prover,
) -> Candidate:
    """Return the cheapest plan that passes, with what is proven of it; `within_limits` is false when there is none.

    Units that save less than `worthwhile` are left out again. Every single removal is tested: a unit that can go back
    to low precision is a companion.
    """
    tests = _Tests(context, ledger, tolerance)
    before = candidate.placements
    best, optimum = prover.improve(before, tests.known(), tests.status, lambda: ledger.has_time)
    if best is None:
        return replace(candidate, certificate=prover.certificate(candidate.plan, optimum), within_limits=False)
    best = _without_idle(prover, _without_slow(prover, best, tests), before, tests)
    if best != before or not (candidate.evidence or ledger.is_exhausted):
        candidate = _with_evidence(tests, best, before, prover)
    return replace(candidate, certificate=prover.certificate(candidate.plan, optimum))


def _without_slow(prover: Prover, best: Mapping[str, Placement], tests: _Tests) -> dict[str, Placement]:
    """Return the plan without units that it passes and is faster without, those first that save most.

    Of a 1-minimal plan all this is known. Of a large set hardly a unit can go: few failures in a row end it there, and
    what saves less than a test is worth is not tried.
    """
    kept, failed, count, row = dict(best), set[str](), 0, 0
    options, removals, policy = prover.options, prover.policy.proof.removals, prover.policy
    most = removals if options.most_tests is None else min(options.most_tests, removals)
    while count < most and tests.ledger.has_time:
        is_large = len(kept) >= policy.culprits.many
        saved = {unit: much for unit, much in prover.saved_ns(kept).items() if unit not in failed}
        unit = max(saved, key=lambda unit: saved[unit], default=None)
        share = max(options.worthwhile, policy.budget.worthwhile) if is_large else options.worthwhile
        if unit is None or saved[unit] <= share * prover.latency_ns(kept) or (is_large and row >= policy.proof.row):
            break
        rest = {name: place for name, place in kept.items() if name != unit}
        count += 1
        if prover.allows(rest) and tests.passes(rest):
            kept, failed, row = rest, set(), 0
        else:
            failed.add(unit)
            row += 1
    return kept


def _without_idle(
    prover: Prover, best: Mapping[str, Placement], before: Mapping[str, Placement], tests: _Tests
) -> dict[str, Placement]:
    """Return the plan without units that hardly make it cheaper and that the target does not need.

    Figures are not exact enough to raise a unit for a thousandth of the latency. Neighbours save together, as each
    alone would only add conversions between them: groups that save least go first, then single units, while all that
    went save too little. They are left out at once first: a plan that passes takes every sample.
    """
    most_ns = prover.latency_ns(best) * (1 + prover.options.worthwhile)
    idle = [unit for unit in best if unit not in before]

    def lean(kept: Mapping[str, Placement], group: Collection[str]) -> dict[str, Placement]:
        return {name: place for name, place in kept.items() if name not in group}

    whole = sorted(prover.model.wiring.neighbours(idle), key=lambda group: prover.latency_ns(lean(best, group)))
    groups = (*whole, *((unit,) for unit in idle))

    def without(passes: Callable[[Mapping[str, Placement]], bool]) -> dict[str, Placement]:
        kept = dict(best)
        for group in groups:
            rest = lean(kept, group)
            if rest != kept and prover.latency_ns(rest) <= most_ns and prover.allows(rest) and passes(rest):
                kept = rest
        return kept

    together = without(lambda rest: True)
    return together if together == best or tests.passes(together) else without(tests.passes)


def _with_evidence(
    tests: _Tests, best: Mapping[str, Placement], before: Mapping[str, Placement], prover: Prover
) -> Candidate:
    """Return the candidate that raises some units, with a test of every removal; of a large set what was tested.

    What was added to the plan of the search for its latency is known to be spared without a test of its own.
    """
    context, ledger, tolerance = tests.context, tests.ledger, tests.tolerance
    is_large = len(best) >= context.policy.culprits.many
    raised = {unit: context.override(unit, place) for unit, place in best.items()}
    needed = {unit: override for unit, override in raised.items() if unit in before}
    evidence: list[Evidence] = []
    companions: set[str] = set()
    for unit in best:
        rest = {name: override for name, override in raised.items() if name != unit}
        trial = ledger.known(rest, tolerance)
        if trial is None and unit not in before:
            trial = ledger.known(needed, tolerance)
        if trial is None and (is_large or not ledger.has_time):
            raised[unit] = context.override(unit, best[unit], tested=False)
            continue
        trial = trial or ledger.judge(rest, tolerance, spare=True)
        evidence.append(Evidence(unit, trial))
        lower = {name: override.placement for name, override in rest.items()}
        if trial.passed and prover.latency_ns(lower) >= prover.latency_ns(best):
            companions.add(unit)
            raised[unit] = Override(best[unit], "meets the target at low precision too, but is cheaper here")
    return replace(context.candidate(raised, tuple(evidence)), companions=frozenset(companions))
