"""Confirmation: evaluate again what the answer rests on, so that an oracle that wavers is found out.

An oracle that says one thing today and another tomorrow proves nothing. A plan that does not pass every time is not
accepted, and a removal that passes once is no evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.plan.plan import Plan
from dovetail.search.hunt import Found
from dovetail.search.oracle import Bar, Oracle
from dovetail.search.result import Evidence
from dovetail.search.trial import Status, Trial


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Hold what is left of the evidence, whether the plan passed every time, and what wavered, in words."""

    evidence: tuple[Evidence, ...]
    passes: bool
    events: tuple[str, ...]


def confirm(found: Found, removals: Sequence[Plan], oracles: Sequence[Oracle], bar: Bar) -> Confirmed:
    """Judge a plan and every removal from it once more by each of some oracles with a memory of their own.

    `removals` are the plans of the evidence, in its order.
    """
    events: list[str] = []
    passes, kept = True, list(found.evidence)
    for oracle in oracles:
        trial = oracle.judge(found.plan, tuple(found.raised), bar, race=False)
        if trial.status is not Status.PASS:
            passes = False
            events.append(f"the plan passed and now does not: {_say(trial)}")
        for item, plan in zip(found.evidence, removals, strict=True):
            again = oracle.judge(plan, item.trial.raised, bar)
            if again.status is Status.PASS and item in kept:
                kept.remove(item)
                events.append(f"without '{item.unit}' it failed and now passes: {_say(item.trial)}, then {_say(again)}")
            elif not _agree(item.trial, again):
                events.append(f"without '{item.unit}' it scores otherwise: {_say(item.trial)}, then {_say(again)}")
    return Confirmed(tuple(kept), passes, tuple(events))


def _agree(first: Trial, again: Trial) -> bool:
    return first.status is again.status and (first.samples != again.samples or first.score == again.score)


def _say(trial: Trial) -> str:
    return trial.reason if trial.status is Status.CANNOT_TEST else f"{abs(trial.score):.6g} on {trial.samples} samples"


def contradictions(trials: Sequence[tuple[Trial, dict[str, int]]], most: int = 20) -> list[str]:
    """Return in words where raising more made a passing plan fail; levels of raised units go with each trial.

    The trials are of one bar. Nothing is inferred from monotonicity in a certificate, but the lower bound is.
    """
    passing = [(trial, levels) for trial, levels in trials if trial.status is Status.PASS]
    failing = [(trial, levels) for trial, levels in trials if trial.status is Status.FAIL]
    found: list[str] = []
    for _, low in passing:
        for bad, high in failing:
            if len(found) < most and all(high.get(unit, 0) >= level for unit, level in low.items()):
                more = sorted(unit for unit, level in high.items() if level > low.get(unit, 0))
                found.append(
                    f"{len(low)} raised units pass, but not with {', '.join(more[:3])} raised too: {_say(bad)}"
                )
    return found
