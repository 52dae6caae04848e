"""The ledger: every verdict of one search, what each judged plan raises, and the looks at the hold-out.

It is the only state that stages have: they are functions of it and of a frozen context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.search.candidate import Candidate, placements_of
from dovetail.search.context import SearchContext
from dovetail.search.fanout.foresight import foresee
from dovetail.search.strategy import TestSet
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status, Trial

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Variants:
    """Where units go when they are in a set that a strategy tests, and when not; absent ones are low then."""

    inside: Mapping[str, Override]
    outside: Mapping[str, Override] = field(default_factory=dict)

    def raised(self, units: frozenset[str]) -> dict[str, Override]:
        """Return the raised units of the plan for a set, in the order of `inside`."""
        raised: dict[str, Override] = {}
        for unit, override in self.inside.items():
            if unit in units:
                raised[unit] = override
            elif unit in self.outside:
                raised[unit] = self.outside[unit]
        return raised


class Ledger:
    """The record of one search."""

    def __init__(self, context: SearchContext, looks_before: int = 0) -> None:
        self._context = context
        self.looks_before = looks_before
        """Looks at the hold-out that searches before this one took for the same answer."""
        self.starts_at_top = False
        """The first rung was seen not to suffice: units go to the last one, and come down rung by rung."""
        self.sensitivities: Mapping[str, float] | None = None
        """The noise of every unit alone, once it was measured."""
        self.judged: dict[str, Candidate] = {}
        """Candidates that were judged by samples that did not select them, by the plan's digest: each was a look."""
        self.untried: dict[str, None] = {}
        """What might have led to a cheaper plan and was not tried, in words."""
        self._spare = 0
        self._verdicts: dict[tuple[str, Tolerance], Trial] = {}
        self._raised: dict[str, Mapping[str, Override]] = {}
        self._trials: dict[str, Trial] = {}

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return the last trial of every plan that was judged."""
        return tuple(self._trials.values())

    @property
    def looks(self) -> int:
        """Return how often the hold-out was looked at for the answer."""
        return self.looks_before + len(self.judged)

    @property
    def has_time(self) -> bool:
        """Tell whether the time of the search is not up."""
        return not self._context.clock.is_up()

    @property
    def is_exhausted(self) -> bool:
        """Tell whether as many plans were judged as may be, proofs aside, or time is up."""
        return not self.has_time or len(self._trials) - self._spare >= self._context.request.options.max_plans

    def leave(self, what: str) -> None:
        """Take down what is not tried."""
        self.untried.setdefault(what)

    def may_go_on(self) -> bool:
        """Tell whether another plan may be judged."""
        return not self.is_exhausted

    def judge(
        self,
        raised: Mapping[str, Override],
        tolerance: Tolerance,
        *,
        spare: bool = False,
        later: Iterable[Plan] = (),
    ) -> Trial:
        """Return the verdict on the plan that raises some units; `spare` plans do not count against the budget.

        `later` are plans that may be judged next.
        """
        oracle, plan = self._context.search, self._context.space.plan(raised)
        key = (plan.digest, tolerance)
        if key in self._verdicts:
            return self._verdicts[key]
        oracle.expect([plan, *later])
        trial = oracle.judge(plan, tuple(raised), tolerance)
        self._verdicts[key] = trial
        self._raised[plan.digest] = dict(raised)
        before = self._trials.get(plan.digest)
        self._spare += spare and before is None
        if before is None or trial.complete or not before.complete:
            self._trials[plan.digest] = trial
        self._context.listener.trial(trial)
        return trial

    def known(self, raised: Mapping[str, Override], tolerance: Tolerance) -> Trial | None:
        """Return the verdict on a plan where there is one."""
        return self._verdicts.get((self._context.space.plan(raised).digest, tolerance))

    def follow(self, strategy: Callable[[TestSet], _Result], variants: Variants, tolerance: Tolerance) -> _Result:
        """Return what a pure strategy gives; what it may test next is begun where workers are idle."""
        known: dict[frozenset[str], Status] = {}
        width, space = self._context.search.width, self._context.space

        def test(units: frozenset[str]) -> Status:
            later: list[Plan] = []
            if width > 1:
                chance = (1 + sum(status is Status.PASS for status in known.values())) / (2 + len(known))
                sets = foresee(strategy, known, chance, width)
                later = [space.plan(variants.raised(item)) for item in sets if item != units]
            known[units] = self.judge(variants.raised(units), tolerance, later=later).status
            return known[units]

        return strategy(test)

    def fewest_raised(self, tolerance: Tolerance) -> Mapping[str, Override] | None:
        """Return what the plan raises that raises fewest units, of those tried on all samples that meet a tolerance."""
        return next((raised for raised in sorted(self.tried(tolerance), key=len) if raised), None)

    def tried(self, tolerance: Tolerance) -> list[Mapping[str, Override]]:
        """Return what each plan raises of those tried on all samples that meet a tolerance."""
        complete = [(digest, trial) for digest, trial in self._trials.items() if trial.complete]
        return [self._raised[digest] for digest, trial in complete if tolerance.met_by(trial.float_score - trial.score)]

    def raised_by(self, plan_digest: str) -> Mapping[str, Override]:
        """Return what a plan raises that was judged."""
        return self._raised[plan_digest]

    def verdicts(self, tolerance: Tolerance) -> list[tuple[dict[str, Placement], Trial]]:
        """Return every trial at a tolerance, with where its plan has raised units."""
        return [
            (placements_of(self._raised[digest]), trial)
            for (digest, at), trial in self._verdicts.items()
            if at == tolerance
        ]

    def last_met(self, plan: Plan) -> Tolerance | None:
        """Return the last tolerance that a plan has met, or None."""
        met = [at for (digest, at), trial in self._verdicts.items() if digest == plan.digest and trial.passed]
        return met[-1] if met else None

    def placements(self) -> dict[str, dict[str, Placement]]:
        """Return where every judged plan has its raised units, by the plan's digest."""
        return {digest: placements_of(raised) for digest, raised in self._raised.items()}
