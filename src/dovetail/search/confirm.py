"""Confirmation: evaluate again what the answer rests on, so that an oracle that wavers is noticed.

An oracle that says one thing today and another tomorrow proves nothing. A plan that does not pass every time is not
accepted, and a removal that passes once is no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.plan.placement import Placement
from dovetail.search.candidate import Candidate, refused
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.oracle import Oracle
from dovetail.search.result import Evidence
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status, Trial

_MOST_LISTED = 20
"""Contradictions that are listed: a person reads them."""


@dataclass(slots=True)
class _Repeats:
    """What differed when trials were repeated."""

    events: list[str] = field(default_factory=list)
    plan_fails: bool = False
    void: list[Evidence] = field(default_factory=list)
    """Evidence of failures whose plan passes now."""


def confirm(context: SearchContext, ledger: Ledger, candidate: Candidate) -> tuple[Candidate, tuple[str, ...]]:
    """Evaluate again what a candidate rests on, as often as the request says; say what wavers or contradicts itself."""
    events = context.fast.events
    tolerance = ledger.last_met(candidate.plan)
    if tolerance is None:
        return candidate, events
    against = contradictions(ledger.verdicts(tolerance), context.space.ladders)
    repeats = _Repeats()
    for number in range(1, context.request.options.confirm + 1):
        _repeat(context, candidate, context.apart(number), tolerance, repeats)
    if repeats.plan_fails and candidate.acceptance is not None:
        summary = f"the oracle wavers: {repeats.events[0]}"
        candidate = replace(candidate, acceptance=refused(candidate.acceptance, summary))
    if (repeats.events or against) and candidate.certificate is not None:
        candidate = replace(candidate, certificate=replace(candidate.certificate, monotone=False))
    evidence = tuple(item for item in candidate.evidence if item not in repeats.void)
    return replace(candidate, evidence=evidence), (*events, *against, *repeats.events)


def _repeat(context: SearchContext, proven: Candidate, oracle: Oracle, tolerance: Tolerance, repeats: _Repeats) -> None:
    """Judge a plan and every removal from it once more, by an oracle with a memory of its own."""
    trial = oracle.judge(proven.plan, tuple(proven.raised), tolerance, race=False)
    if not trial.passed:
        repeats.plan_fails = True
        repeats.events.append(f"the plan passed and now does not: {_text(trial)}")
    for item in proven.evidence:
        rest = context.space.plan({unit: place for unit, place in proven.raised.items() if unit != item.unit})
        again = oracle.judge(rest, item.trial.raised, tolerance)
        both = f"{_text(item.trial)}, then {_text(again)}"
        if again.passed and not item.trial.passed and item not in repeats.void:
            repeats.void.append(item)
            repeats.events.append(f"without '{item.unit}' it failed and now passes: {both}")
        elif not _agree(item.trial, again):
            repeats.events.append(f"without '{item.unit}' it scores otherwise: {both}")


def _agree(first: Trial, again: Trial) -> bool:
    return first.status is again.status and (first.samples != again.samples or first.score == again.score)


def _text(trial: Trial) -> str:
    return trial.reason if trial.status is Status.CANNOT_TEST else f"{abs(trial.score):.6g} on {trial.samples} samples"


def contradictions(
    trials: Sequence[tuple[Mapping[str, Placement], Trial]], ladders: Mapping[str, Sequence[Placement]]
) -> list[str]:
    """Return in words where raising more made a passing plan fail, given trials at one tolerance.

    Nothing is inferred from monotonicity in a certificate, but the lower bound is.
    """
    levels = [
        ({unit: 1 + ladders[unit].index(place) for unit, place in raised.items()}, trial) for raised, trial in trials
    ]
    passing = [low for low, trial in levels if trial.status is Status.PASS]
    failing = [(high, trial) for high, trial in levels if trial.status is Status.FAIL]
    texts: list[str] = []
    for low in passing:
        for high, bad in failing:
            if len(texts) < _MOST_LISTED and all(high.get(unit, 0) >= level for unit, level in low.items()):
                more = sorted(unit for unit, level in high.items() if level > low.get(unit, 0))
                texts.append(
                    f"{len(low)} raised units pass, but not with {', '.join(more[:3])} raised too: {_text(bad)}"
                )
    return texts
