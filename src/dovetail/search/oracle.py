"""The oracle: is a plan good enough; losers are rejected on the first samples that leave no doubt (see `race`).

A plan near the threshold is never rejected early: it gets all samples of the split. What passes has passed on all.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Plan
from dovetail.search.fanout.task import Job
from dovetail.search.journal import Journal, Scores
from dovetail.search.race import Race
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.trial import Status, Trial

FIRST_BLOCK = 16
"""Samples that every candidate is tried on first."""

GLANCE = 64
"""Samples of a first look, which is a hint and no verdict."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Bound the mean loss against float.

    With `losses_only`, samples that do better than float do not make up for those that do worse: on few samples such
    luck hides damage.
    """

    allowance: float
    losses_only: bool = False

    def counted(self, losses: AnyArray) -> AnyArray:
        """Return the losses that count."""
        return np.maximum(losses, 0.0) if self.losses_only else losses

    def met_by(self, loss: float) -> bool:
        """Tell whether a mean loss is within the bound."""
        return loss <= self.allowance + 1e-12


@dataclass(frozen=True, slots=True)
class Split:
    """Name a part of the samples, in the order in which they are used."""

    name: str
    indices: tuple[int, ...]

    @classmethod
    def shuffled(cls, name: str, indices: Sequence[int], seed: int) -> Split:
        """Return a split in random order: racing infers from the first samples, and data sets are often sorted."""
        # numpy's legacy generator: its stream is frozen, so that a journal stays good.
        order = np.random.RandomState(seed).permutation(len(indices))
        return cls(name, tuple(indices[position] for position in order))

    def blocks(self) -> list[tuple[int, ...]]:
        """Return the indices cut into blocks: each doubles what was seen before it."""
        found: list[tuple[int, ...]] = []
        start, stop = 0, max(1, min(FIRST_BLOCK, len(self.indices) // 4))
        while start < len(self.indices):
            if len(self.indices) - stop < stop // 2:
                stop = len(self.indices)
            found.append(self.indices[start:stop])
            start, stop = stop, stop * 2
        return found


class Oracle:
    """Judge plans on one split against the float plan."""

    def __init__(self, evaluator: RecordedEvaluator, journal: Journal, split: Split, float_plan: Plan) -> None:
        self._evaluator = evaluator
        self._journal = journal
        self._split = split
        self._blocks = split.blocks()
        self.ahead([float_plan])
        self._float = [evaluator.evaluate(float_plan, block) for block in self._blocks]
        if self._float[0].failure:
            raise DovetailError(f"the float model cannot be evaluated: {self._float[0].failure}")
        self._set_level = self._float[0].per_sample is None
        if self._set_level:
            self._blocks = [split.indices]
            self._float = [evaluator.evaluate(float_plan, split.indices)]
        self._race = None if self._set_level else Race.against(_joined(self._float))
        self._glance = 1 + sum(count < GLANCE for count in itertools.accumulate(map(len, self._blocks)))
        self._rejected: set[tuple[str, Bar]] = set()

    @property
    def float_score(self) -> float:
        """Return the float model's score on the split."""
        return _pooled(self._float)

    @property
    def scores_nothing(self) -> bool:
        """Tell whether the float model scores 0 on every sample."""
        return self.float_score == 0 and (self._set_level or not _joined(self._float).any())

    @property
    def is_perfect(self) -> bool:
        """Tell whether the float model reaches the best score there is on every sample."""
        return self._race is not None and bool((self._race.float_scores >= self._race.best).all())

    @property
    def sample_count(self) -> int:
        """Return the number of samples of the split."""
        return len(self._split.indices)

    @property
    def indices(self) -> tuple[int, ...]:
        """Return the samples of the split."""
        return self._split.indices

    @property
    def rejected_early(self) -> int:
        """Return how many verdicts rest on the race: each is wrong with a probability of at most `race.ALPHA`."""
        return len(self._rejected)

    @property
    def has_samples(self) -> bool:
        """Tell whether every sample has a score of its own."""
        return not self._set_level

    def judge(self, plan: Plan, raised: Sequence[str], bar: Bar, *, race: bool = True) -> Trial:
        """Return the verdict on a plan whose loss against float is held to a bar."""
        done, failure, lost = self._run(plan, self._blocks, bar if race else None)
        if failure:
            return self._trial(plan, raised, Status.CANNOT_TEST, done, failure)
        if lost:
            self._rejected.add((plan.digest, bar))
            reason = f"rejected after {sum(map(len, self._blocks[: len(done)]))} samples"
            return self._trial(plan, raised, Status.FAIL, done, reason)
        return self._trial(plan, raised, Status.PASS if bar.met_by(self._loss(done, bar)) else Status.FAIL, done)

    def losses(self, plan: Plan) -> AnyArray | None:
        """Return what a plan loses on every sample of the split; None without scores of samples, or if it fails."""
        done, failure, _ = self._run(plan, self._blocks, None)
        return None if failure or self._set_level else _joined(self._float) - _joined(done)

    def sample(self, plan: Plan, allowance: float, evaluator: RecordedEvaluator | None = None) -> Trial:
        """Return the verdict on a plan on the first samples only, by another evaluator where one is given."""
        done, failure, _ = self._run(plan, self._blocks[: self._glance], None, evaluator)
        if failure:
            return self._trial(plan, (), Status.CANNOT_TEST, done, failure)
        loss = _pooled(self._float[: len(done)]) - _pooled(done)
        return self._trial(plan, (), Status.PASS if loss <= allowance else Status.FAIL, done)

    def screen(self, plan: Plan, bar: Bar) -> Trial:
        """Return a failure where the first samples alone leave no doubt of it, else a pass."""
        self.ahead([plan])
        done, failure, lost = self._run(plan, self._blocks[: self._glance], bar)
        if failure:
            return self._trial(plan, (), Status.CANNOT_TEST, done, failure)
        if len(done) == len(self._blocks):
            lost = not bar.met_by(self._loss(done, bar))
        return self._trial(plan, (), Status.FAIL if lost else Status.PASS, done)

    def _run(
        self,
        plan: Plan,
        blocks: Sequence[tuple[int, ...]],
        bar: Bar | None,
        evaluator: RecordedEvaluator | None = None,
    ) -> tuple[list[Scores], str, bool]:
        """Return the scores on blocks, why they could not be had, and whether the race for a bar was lost."""
        done: list[Scores] = []
        maker = evaluator or self._evaluator
        if bar is None and maker.width > 1:
            maker.ahead([(Job.SCORE, plan, block) for block in blocks])
        for block in blocks:
            scores = maker.evaluate(plan, block)
            if scores.failure:
                return done, scores.failure, False
            done.append(scores)
            if bar is not None and len(done) < len(self._blocks) and self._lost(done, bar):
                return done, "", True
        return done, "", False

    def confirm(self, plan: Plan, bar: Bar, evaluator: RecordedEvaluator) -> tuple[Trial, AnyArray | None]:
        """Return the verdict of another evaluator on the whole split, and the loss of every sample where it has one."""
        scores = evaluator.evaluate(plan, self._split.indices)
        if scores.failure:
            return self._trial(plan, (), Status.CANNOT_TEST, [], scores.failure), None
        status = Status.PASS if bar.met_by(self.float_score - scores.score) else Status.FAIL
        trial = replace(self._trial(plan, (), status, self._float), score=scores.score)
        return trial, None if scores.per_sample is None else _joined(self._float) - scores.per_sample

    def _trial(self, plan: Plan, raised: Sequence[str], status: Status, done: Sequence[Scores], why: str = "") -> Trial:
        trial = Trial(
            plan_digest=plan.digest,
            raised=tuple(raised),
            status=status,
            score=_pooled(done) if done else float("nan"),
            float_score=_pooled(self._float[: len(done)]) if done else self.float_score,
            samples=sum(len(block) for block in self._blocks[: len(done)]),
            samples_total=len(self._split.indices),
            reason=why,
        )
        self._log(trial)
        return trial

    def ahead(self, plans: Sequence[Plan]) -> None:
        """Say which plans will be judged, the next first: workers that are idle begin with them."""
        if self._evaluator.width < 2:
            return
        turns = [(number + turn, number, turn) for number in range(len(plans)) for turn in range(len(self._blocks))]
        wanted = [(Job.SCORE, plans[number], self._blocks[turn]) for _, number, turn in sorted(turns)]
        self._evaluator.ahead(wanted)

    @property
    def width(self) -> int:
        """Return how many evaluations run at once."""
        return self._evaluator.width

    def _loss(self, done: Sequence[Scores], bar: Bar) -> float:
        if self._set_level:
            return self.float_score - _pooled(done)
        return float(bar.counted(_joined(self._float) - _joined(done)).mean())

    def _lost(self, done: Sequence[Scores], bar: Bar) -> bool:
        """Tell whether the loss is above the bar beyond doubt."""
        scores = _joined(done)
        return self._race is not None and self._race.rejects(scores, bar.allowance, losses_only=bar.losses_only)

    def _log(self, trial: Trial) -> None:
        fields = (
            trial.status.value,
            None if math.isnan(trial.score) else trial.score,
            trial.float_score,
            trial.samples,
            trial.samples_total,
            json.dumps(trial.raised),
            trial.reason,
        )
        self._journal.log_trial(self._split.name, trial.plan_digest, fields)


def _pooled(parts: Sequence[Scores]) -> float:
    if len(parts) == 1:
        return parts[0].score
    return float(_joined(parts).mean())


def _joined(parts: Sequence[Scores]) -> AnyArray:
    return np.concatenate([part.per_sample for part in parts if part.per_sample is not None])
