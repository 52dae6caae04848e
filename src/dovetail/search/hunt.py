"""The hunt for culprits: gate, order, gallop and bisect, minimise, then the cheapest rung for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dovetail.errors import SearchError
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.quantize.calibrate import Calibration
from dovetail.search.certificate import Certificate
from dovetail.search.goal import Goal
from dovetail.search.oracle import Oracle
from dovetail.search.prior import Suspicion, suspect
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.result import Evidence, GateCheck, GateVerdict
from dovetail.search.sensitivity import quantise_one
from dovetail.search.space import Space
from dovetail.search.strategy import minimise, shortest_prefix
from dovetail.search.trial import Status, Trial

AMBIGUOUS = 6
"""A passing prefix longer than this means that the prior did not tell the units apart: measure them."""


class Listener(Protocol):
    """Hear of progress."""

    def stage(self, title: str) -> None:
        """A stage begins."""

    def trial(self, trial: Trial) -> None:
        """A plan was judged."""


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
    within_limits: bool = True


class Hunt:
    """Find a 1-minimal set of units to raise on the search split."""

    def __init__(
        self, space: Space, calibration: Calibration, oracle: Oracle, recorded: RecordedEvaluator, listener: Listener
    ) -> None:
        self._space = space
        self._oracle = oracle
        self._recorded = recorded
        self._listener = listener
        self._suspicions = suspect(space, calibration)
        self._reasons = {item.unit: item.reason for item in self._suspicions}
        self._highest = False
        self._verdicts: dict[tuple[str, float], Trial] = {}
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
                hint="Check the data, the labels and the preprocessing; or lower --min-score.",
            )
        allowance = goal.allowance(float_score)
        low = self._judge({}, allowance, race=False)
        checks = [GateCheck(f"everything at {self._space.low}", low)]
        if low.status is Status.PASS:
            return GateVerdict.NOTHING_TO_DO, tuple(checks)
        high = self._judge(self._raise(self._space.units), allowance, race=False)
        checks.append(GateCheck("everything one step up", high))
        cpu_plan = self._space.low_on_cpu
        if cpu_plan is not None:
            trial = self._oracle.sample(cpu_plan, pipeline, allowance)
            checks.append(GateCheck(f"everything at {cpu_plan.default}", trial))
            if trial.status is Status.PASS:
                return GateVerdict.NPU_DIFFERS, tuple(checks)
        if high.status is Status.PASS:
            return GateVerdict.QUANTISATION_BREAKS, tuple(checks)
        self._highest = True
        return GateVerdict.SIXTEEN_BITS_FAIL, tuple(checks)

    def find(self, allowance: float) -> Found:
        """Return a 1-minimal set of raised units whose loss is within the allowance."""
        if self._judge({}, allowance).status is Status.PASS:
            return self._found({}, ())
        self._listener.stage("culprits")
        order = [item.unit for item in self._suspicions]

        def test(units: frozenset[str]) -> Status:
            return self._judge(self._raise([name for name in order if name in units]), allowance).status

        length = shortest_prefix(order, test)
        if length is None and not self._highest:
            # The first rung cannot meet this allowance; float on the CPU can.
            self._highest = True
            length = shortest_prefix(order, test)
        if length is None:
            return self._found(self._raise(order), ())
        if length > AMBIGUOUS:
            order = self._measured(order, length)
            length = shortest_prefix(order, test) or len(order)
        self._listener.stage("minimise")
        minimal = minimise(order[:length], test)
        raised = self._raise(minimal.kept)
        if self._highest:
            raised = self._lower(raised, allowance)
        evidence = self._evidence(raised, allowance)
        return self._found(raised, evidence)

    def judge(self, raised: Mapping[str, Override], allowance: float) -> Trial:
        """Return the verdict on a plan that raises some units."""
        return self._judge(raised, allowance)

    def override(self, unit: str, placement: Placement) -> Override:
        """Return where a unit that breaks goes, with the reason."""
        return Override(placement, f"breaks at {self._space.low}: {self._reasons[unit]}")

    def answers(self, allowance: float) -> list[tuple[Mapping[str, Placement], Status]]:
        """Return every verdict at an allowance, with the placements of the raised units."""
        found = [(self._raised[digest], trial) for (digest, at), trial in self._verdicts.items() if at == allowance]
        return [({unit: item.placement for unit, item in raised.items()}, trial.status) for raised, trial in found]

    def placements(self) -> Mapping[str, Mapping[str, Placement]]:
        """Return where every plan that was judged has its raised units, by the plan's digest."""
        return {
            digest: {unit: item.placement for unit, item in raised.items()} for digest, raised in self._raised.items()
        }

    def trials(self) -> tuple[Trial, ...]:
        """Return the last trial of every plan that was judged."""
        return tuple(self._trials.values())

    def _measured(self, order: list[str], length: int) -> list[str]:
        """Order the suspects anew by what each does alone to the float model's outputs."""
        self._listener.stage("quantise-one")
        reach = min(len(order), 2 * length)
        damage = quantise_one(self._space, self._recorded, self._oracle.first_indices, order[:reach])
        return sorted(order[:reach], key=lambda unit: -damage[unit]) + order[reach:]

    def _lower(self, raised: Mapping[str, Override], allowance: float) -> dict[str, Override]:
        """Precision before place: give every unit the lowest rung at which the set still passes."""
        self._listener.stage("precision before place")
        chosen = dict(raised)
        for unit in reversed(tuple(raised)):
            for rung in self._space.ladders[unit][:-1]:
                trial = {**chosen, unit: Override(rung, chosen[unit].reason)}
                if self._judge(trial, allowance).status is Status.PASS:
                    chosen = trial
                    break
        return chosen

    def _evidence(self, raised: Mapping[str, Override], allowance: float) -> tuple[Evidence, ...]:
        """Return the trial of every single removal from the final set; all were or are now tested."""
        found: list[Evidence] = []
        for unit in raised:
            rest = {name: override for name, override in raised.items() if name != unit}
            found.append(Evidence(unit, self._judge(rest, allowance)))
        return tuple(found)

    def _raise(self, units: Sequence[str] | Mapping[str, object]) -> dict[str, Override]:
        return {
            unit: Override(self._space.rung(unit, self._highest), f"breaks at {self._space.low}: {self._reasons[unit]}")
            for unit in units
        }

    def _judge(self, raised: Mapping[str, Override], allowance: float, *, race: bool = True) -> Trial:
        plan = self._space.plan(raised)
        key = (plan.digest, allowance)
        known = self._verdicts.get(key)
        if known is not None and (known.complete or race):
            return known
        trial = self._oracle.judge(plan, tuple(raised), allowance, race=race)
        self._verdicts[key] = trial
        self._raised[plan.digest] = dict(raised)
        self._trials[plan.digest] = trial
        self._listener.trial(trial)
        return trial

    def _found(self, raised: Mapping[str, Override], evidence: tuple[Evidence, ...]) -> Found:
        plan = self._space.plan(raised)
        return Found(plan, raised, evidence, tuple(self._trials.values()))
