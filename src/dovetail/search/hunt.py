"""The hunt for culprits: gate, order, gallop and bisect, minimise, then the cheapest rung for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from dovetail.errors import SearchError
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.search.certificate import Certificate
from dovetail.search.fanout.foresight import foresee
from dovetail.search.goal import Goal
from dovetail.search.oracle import Bar, Oracle
from dovetail.search.prior import Suspicion
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.result import Evidence, GateCheck, GateVerdict
from dovetail.search.sensitivity import probed_samples, quantise_few
from dovetail.search.space import Space
from dovetail.search.strategy import TestSet, isolate, minimise, shortest_prefix
from dovetail.search.trial import Status, Trial

Answer = TypeVar("Answer")

TRUSTED = 8
"""Most units that are raised on the word of the prior alone: when these do not suffice, units are measured."""

_DEAR = 2
"""Evaluations of the search split at most that are spent on an order alone."""

MANY = 32
"""Units of a passing set from which on those that matter are isolated before the others are tried one by one."""

_MOST_OF = 0.75
"""Share of a network beyond which a beginning or an end that passes says only that units matter on either side."""


class Listener(Protocol):
    """Hear of progress."""

    def stage(self, title: str) -> None:
        """A stage begins."""

    def trial(self, trial: Trial) -> None:
        """A plan was judged."""


@dataclass(frozen=True, slots=True)
class HuntOptions:
    """Say who hears of trials, and after how many plans a passing set is no longer made smaller."""

    listener: Listener
    max_plans: int


@dataclass(frozen=True, slots=True)
class Found:
    """Hold a passing plan, its raised units with reasons, and every trial made on the way."""

    plan: Plan
    raised: Mapping[str, Override]
    evidence: tuple[Evidence, ...]
    trials: tuple[Trial, ...]
    certificate: Certificate | None = None
    latencies_ns: Mapping[str, float] = field(default_factory=dict)
    """What every plan that was tried takes, by its digest."""
    companions: frozenset[str] = frozenset()
    """Raised units that meet the target at low precision too, but save more at their boundaries than they cost."""
    margin: frozenset[str] = frozenset()
    """Raised units that the samples do not ask for."""
    within_limits: bool = True
    note: str = ""
    """What a person has to know of it besides."""


@dataclass(frozen=True, slots=True)
class Guide:
    """Say what plans take, and whether a plan is worth being made smaller."""

    price: Callable[[Mapping[str, Override]], float]
    worth: Callable[[Found], bool]


class Hunt:
    """Find a 1-minimal set of units to raise on the search split."""

    def __init__(
        self,
        suspicions: Sequence[Suspicion],
        space: Space,
        recorded: RecordedEvaluator,
        oracle: Oracle,
        options: HuntOptions,
    ) -> None:
        self._space = space
        self._oracle = oracle
        self._recorded = recorded
        self._listener = options.listener
        self._suspicions = suspicions
        self._budget = options.max_plans
        self._damage: Mapping[str, float] | None = None
        self._reasons = {item.unit: item.reason for item in self._suspicions}
        self._highest = False
        self._verdicts: dict[tuple[str, Bar], Trial] = {}
        self._trials: dict[str, Trial] = {}
        self._raised: dict[str, Mapping[str, Override]] = {}

    @property
    def suspicions(self) -> Sequence[Suspicion]:
        """Return the prior, worst unit first."""
        return self._suspicions

    def gate(self, goal: Goal, pipeline: RecordedEvaluator) -> tuple[GateVerdict, tuple[GateCheck, ...]]:
        """Judge everything low, everything one rung up, and low precision on the CPU.

        Raises SearchError when the float model itself misses the goal.
        """
        float_score = self._oracle.float_score
        if goal.min_score is not None and abs(float_score) < goal.min_score:
            raise SearchError(
                f"target unreachable: the float model scores {abs(float_score):.4g}, below {goal.min_score:g}.",
                hint="Check the data, the labels and the preprocessing; or ask for less.",
                option="min_score",
            )
        allowance = goal.allowance(float_score)
        bar = Bar(allowance)
        low = self._judge({}, bar, later=[self._space.plan(self._raise(self._space.units))])
        checks = [GateCheck(f"everything at {self._space.low}", low)]
        if low.status is Status.PASS:
            return GateVerdict.NOTHING_TO_DO, tuple(checks)
        high = self._first_look(self._raise(self._space.units), bar)
        checks.append(GateCheck("everything one step up", high))
        cpu_plan = self._space.low_on_cpu
        if cpu_plan is not None:
            trial = self._oracle.sample(cpu_plan, allowance, pipeline)
            checks.append(GateCheck(f"everything at {cpu_plan.default}", trial))
            if trial.status is Status.PASS:
                return GateVerdict.NPU_DIFFERS, tuple(checks)
        if high.status is Status.PASS:
            return GateVerdict.QUANTISATION_BREAKS, tuple(checks)
        self._highest = True
        return GateVerdict.SIXTEEN_BITS_FAIL, tuple(checks)

    @property
    def reaches_the_last_rung(self) -> bool:
        """Tell whether the first rung was found not to meet the target."""
        return self._highest

    def order_of_harm(self) -> list[str]:
        """Return all units, those first that do most harm alone; the prior tells where measuring takes long."""
        order = [item.unit for item in self._suspicions]
        cheap = probed_samples(self._space.graph, len(order)) <= _DEAR * self._oracle.sample_count
        return self._measured(order) if cheap or self._damage is not None else order

    def wider(self, found: Found, share: float, top: bool = False) -> Found:
        """Return a plan that also raises a share of the other units on suspicion, those first that do most harm alone.

        With `top` a share of all units goes to the last rung. For samples too few to show a loss: nothing says that
        each of these units is needed.
        """
        order = self._measured([item.unit for item in self._suspicions])
        rest = order if top else [unit for unit in order if unit not in found.raised]
        more = self._raise(rest[: math.ceil(share * len(rest))], top, alone=False)
        raised = {**more, **found.raised, **(more if top else {})}
        return self._found({unit: raised[unit] for unit in order if unit in raised}, ())

    def whole(self, top: bool = False) -> Found:
        """Return the plan that raises every unit, with `top` to the last rung."""
        return self._found(self._raise([item.unit for item in self._suspicions], top, alone=False), ())

    def find(self, bar: Bar, climbs: bool = True, guide: Guide | None = None) -> Found | None:
        """Return a 1-minimal set of raised units that meets the bar; larger than that when the budget runs out.

        With a guide, a large set is made smaller only if it is worth that, and where nearly every unit matters the
        cheapest of few sets is returned. None when the first rung cannot meet the bar, and `climbs` forbids the last
        one, float on the CPU.
        """
        if self._judge({}, bar).status is Status.PASS:
            return self._found({}, ())
        self._listener.stage("culprits")
        order, length = self._shortest(bar, climbs)
        if length is None and not (climbs or self._highest):
            return None
        if length is None:
            return self._found(self._raise(order), ())
        self._listener.stage("minimise")
        passing = order[:length]
        guide = guide if length >= MANY else None
        if guide is not None and not guide.worth(refused := self._found(self._raise(passing, alone=False), ())):
            return refused
        end = None if guide is None else self._cheaper_end(passing, bar, guide)
        raised: Mapping[str, Override] = self._raise(end or self._smaller(passing, bar), alone=not end)
        if self._highest:
            raised = self._lower(raised, bar)
        return self._found(raised, ()) if end else self._certify(raised, bar)

    def known(self, bar: Bar) -> Found | None:
        """Return the plan that raises fewest units of those that were tried on all samples and meet a bar."""
        full = [(self._raised[digest], trial) for digest, trial in self._trials.items() if trial.complete]
        near = [raised for raised, trial in full if raised and bar.met_by(trial.float_score - trial.score)]
        met = (raised for raised in sorted(near, key=len) if self._judge(raised, bar).status is Status.PASS)
        found = next(met, None)
        return None if found is None else self._found(found, ())

    def judge(self, raised: Mapping[str, Override], bar: Bar) -> Trial:
        """Return the verdict on a plan that raises some units; what the hunt itself may try is no less for it."""
        before = len(self._trials)
        trial = self._judge(raised, bar)
        self._budget += len(self._trials) - before
        return trial

    def override(self, unit: str, placement: Placement, alone: bool = True) -> Override:
        """Return where a unit goes, with the reason; `alone` says that the plan without it was tested."""
        why = f"breaks at {self._space.low}" if alone else "raised with others, not tested alone"
        return Override(placement, f"{why}: {self._reasons[unit]}")

    def answers(self, bar: Bar) -> list[tuple[Mapping[str, Placement], Status]]:
        """Return every verdict at a bar, with the placements of the raised units."""
        found = [(self._raised[digest], trial) for (digest, at), trial in self._verdicts.items() if at == bar]
        return [({unit: item.placement for unit, item in raised.items()}, trial.status) for raised, trial in found]

    def bar_of(self, plan: Plan) -> Bar | None:
        """Return the last bar that a plan has passed, or None."""
        met = [bar for (digest, bar), trial in self._verdicts.items() if digest == plan.digest and trial.passed]
        return met[-1] if met else None

    def verdicts(self, bar: Bar) -> list[tuple[Trial, dict[str, int]]]:
        """Return every trial at a bar, with the level of each raised unit: its place on the ladder, from 1."""
        ladders = self._space.ladders
        return [
            (trial, {unit: 1 + ladders[unit].index(item.placement) for unit, item in self._raised[digest].items()})
            for (digest, at), trial in self._verdicts.items()
            if at == bar
        ]

    def placements(self) -> Mapping[str, Mapping[str, Placement]]:
        """Return where every plan that was judged has its raised units, by the plan's digest."""
        return {
            digest: {unit: item.placement for unit, item in raised.items()} for digest, raised in self._raised.items()
        }

    def trials(self) -> tuple[Trial, ...]:
        """Return the last trial of every plan that was judged."""
        return tuple(self._trials.values())

    def _shortest(self, bar: Bar, climbs: bool) -> tuple[list[str], int | None]:
        """Return an order of the units, and how many of its first ones meet the bar."""
        order = [item.unit for item in self._suspicions]
        length = self._follow(partial(shortest_prefix, order[:TRUSTED]), self._raise_some, bar)
        if length is not None:
            return order, length
        order = self._measured(order)
        length = self._follow(partial(shortest_prefix, order), self._raise_some, bar)
        if length is None and climbs and not self._highest:
            # The first rung cannot meet this bar; float on the CPU can.
            self._highest = True
            length = self._follow(partial(shortest_prefix, order), self._raise_some, bar)
        return order, length

    def _smaller(self, passing: Sequence[str], bar: Bar) -> Sequence[str]:
        """Return a part of a passing set that passes."""
        if len(passing) < MANY:
            return self._follow(partial(minimise, passing, go_on=self._go_on), self._raise_some, bar).kept
        alone = partial(isolate, passing, go_on=self._go_on, patient=True)
        return self._follow(alone, self._raise_some, bar).kept

    def _cheaper_end(self, passing: Sequence[str], bar: Bar, guide: Guide) -> Sequence[str] | None:
        """Return the cheaper of the shortest beginning and end of the network that pass, if it is cheaper than a set.

        Only where nearly every unit matters: what passes is large then whatever is chosen, and one piece has least
        borders. None for all other sets.
        """
        isolated = self._follow(partial(isolate, passing, go_on=self._go_on), self._raise_some, bar)
        if not isolated.crowded:
            return None
        sets = [isolated.kept]
        for order in (tuple(self._space.units), tuple(self._space.units)[::-1]):
            length = self._follow(partial(shortest_prefix, order), self._raise_some, bar)
            sets += [] if length is None or length > _MOST_OF * len(order) else [order[:length]]
        best = min(sets, key=lambda units: (guide.price(self._raise(units)), len(units)))
        return None if best is isolated.kept else best

    def _raise_some(self, units: frozenset[str]) -> Mapping[str, Override]:
        return self._raise([item.unit for item in self._suspicions if item.unit in units])

    def _follow(
        self, strategy: Callable[[TestSet], Answer], made: Callable[[frozenset[str]], Mapping[str, Override]], bar: Bar
    ) -> Answer:
        """Return what a strategy finds; what it may ask next is begun where workers are idle."""
        known: dict[frozenset[str], Status] = {}

        def test(units: frozenset[str]) -> Status:
            later: list[Plan] = []
            if self._oracle.width > 1:
                chance = (1 + sum(status is Status.PASS for status in known.values())) / (2 + len(known))
                asked = foresee(strategy, known, chance, self._oracle.width)
                later = [self._space.plan(made(item)) for item in asked if item != units]
            known[units] = self._judge(made(units), bar, later=later).status
            return known[units]

        return strategy(test)

    def _measured(self, order: Sequence[str]) -> list[str]:
        """Order the units by what each does alone to the float model's outputs, then by the prior."""
        if self._damage is None:
            self._listener.stage("quantise-one")
            self._damage = quantise_few(self._space, self._recorded, self._oracle.indices)
        damage = self._damage
        return sorted(order, key=lambda unit: -damage[unit])

    def _lower(self, raised: Mapping[str, Override], bar: Bar) -> Mapping[str, Override]:
        """Precision before place: keep at the last rung only the units that need it, rung by rung."""
        self._listener.stage("precision before place")
        ladders = self._space.ladders
        for level in range(max((len(ladders[unit]) for unit in raised), default=1) - 1):
            able = [unit for unit in raised if level < len(ladders[unit]) - 1]
            high = [unit for unit in able if raised[unit].placement == ladders[unit][-1]]
            if high:
                raised = self._lower_to(level, high, raised, bar)
        return raised

    def _lower_to(
        self, level: int, high: Sequence[str], raised: Mapping[str, Override], bar: Bar
    ) -> Mapping[str, Override]:
        def lowered(stay: frozenset[str]) -> dict[str, Override]:
            moved = (unit for unit in high if unit not in stay)
            ladders = self._space.ladders
            return {**raised, **{unit: Override(ladders[unit][level], raised[unit].reason) for unit in moved}}

        if self._judge(lowered(frozenset()), bar).status is Status.PASS:
            return lowered(frozenset())
        return lowered(frozenset(self._follow(lambda test: minimise(high, test, self._go_on), lowered, bar).kept))

    def _certify(self, raised: Mapping[str, Override], bar: Bar) -> Found:
        """Test every single removal from a set that passes; what can go after all goes."""

        def rest(units: frozenset[str]) -> dict[str, Override]:
            return {unit: override for unit, override in raised.items() if unit in units}

        minimal = self._follow(lambda test: minimise(tuple(raised), test, self._go_on, 1), rest, bar)
        kept = frozenset(minimal.kept)
        evidence = tuple(Evidence(unit, self._judge(rest(kept - {unit}), bar)) for unit, _ in minimal.removals)
        tested = {item.unit for item in evidence}
        said = {unit: self.override(unit, item.placement, unit in tested) for unit, item in rest(kept).items()}
        return self._found(said, evidence)

    @property
    def exhausted(self) -> bool:
        """Tell whether as many plans were judged as the options allow."""
        return len(self._trials) >= self._budget

    def _go_on(self) -> bool:
        return not self.exhausted

    def _raise(
        self, units: Sequence[str] | Mapping[str, object], top: bool = False, alone: bool = True
    ) -> dict[str, Override]:
        rungs = {unit: self._space.rung(unit, top or self._highest) for unit in units}
        return {unit: self.override(unit, rung, alone) for unit, rung in rungs.items()}

    def _first_look(self, raised: Mapping[str, Override], bar: Bar) -> Trial:
        """Return a pass on the first samples, or else the verdict on as many as it takes."""
        trial = self._oracle.sample(self._space.plan(raised), bar.allowance)
        return trial if trial.status is Status.PASS else self._judge(raised, bar)

    def _judge(
        self, raised: Mapping[str, Override], bar: Bar, *, race: bool = True, later: Sequence[Plan] = ()
    ) -> Trial:
        plan = self._space.plan(raised)
        key = (plan.digest, bar)
        known = self._verdicts.get(key)
        if known is not None and (known.complete or race):
            return known
        self._oracle.ahead([plan, *later])
        trial = self._oracle.judge(plan, tuple(raised), bar, race=race)
        self._verdicts[key] = trial
        self._raised[plan.digest] = dict(raised)
        known = self._trials.get(plan.digest)
        if known is None or trial.complete or not known.complete:
            self._trials[plan.digest] = trial
        self._listener.trial(trial)
        return trial

    def _found(self, raised: Mapping[str, Override], evidence: tuple[Evidence, ...]) -> Found:
        plan = self._space.plan(raised)
        return Found(plan, raised, evidence, tuple(self._trials.values()))
