"""The oracle: is a plan good enough; losers are rejected on the first samples that leave no doubt (see `race`).

A plan near the threshold is never rejected early: it gets all samples of the split. What passes has passed on all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.errors import DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Plan
from dovetail.search.bounds import LossRange
from dovetail.search.fanout.task import Query
from dovetail.search.policy import RacePolicy
from dovetail.search.race import Race
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Scores, Status, Trial


@dataclass(frozen=True, slots=True)
class Split:
    """A part of the samples, in the order in which they are used."""

    name: str
    indices: tuple[int, ...]

    @classmethod
    def shuffled(cls, name: str, indices: Sequence[int], seed: int) -> Split:
        """Return a split in random order: racing infers from the first samples, and data sets are often sorted."""
        # numpy's legacy generator: its stream is frozen, so that a journal stays good.
        order = np.random.RandomState(seed).permutation(len(indices))
        return cls(name, tuple(indices[position] for position in order))

    def blocks(self, policy: RacePolicy) -> list[tuple[int, ...]]:
        """Return the indices cut into blocks: each doubles what was seen before it."""
        blocks: list[tuple[int, ...]] = []
        start, stop = 0, max(1, min(policy.first_block, int(len(self.indices) * policy.first_share)))
        while start < len(self.indices):
            if len(self.indices) - stop < stop // 2:
                stop = len(self.indices)
            blocks.append(self.indices[start:stop])
            start, stop = stop, stop * 2
        return blocks


@dataclass(slots=True)
class _Progress:
    """How far the evaluation of one plan got."""

    done: list[Scores] = field(default_factory=list)
    failure: str = ""
    lost: bool = False


class Oracle:
    """Judge plans on one split against the float plan."""

    def __init__(
        self, evaluator: RecordedEvaluator, split: Split, float_plan: Plan, policy: RacePolicy | None = None
    ) -> None:
        self._evaluator = evaluator
        self._split = split
        self._policy = policy or RacePolicy()
        self._blocks = split.blocks(self._policy)
        self.expect([float_plan])
        self._float = [_whole(evaluator.evaluate(float_plan, block)) for block in self._blocks]
        self._set_level = self._float[0].per_sample is None
        if self._set_level:
            self._blocks = [split.indices]
            self._float = [_whole(evaluator.evaluate(float_plan, split.indices))]
        self._race = None if self._set_level else Race.against(_joined(self._float), self._policy)
        counts = itertools.accumulate(map(len, self._blocks))
        seen = tuple(counts)
        self._screened, self._previewed = (
            1 + sum(count < least for count in seen) for least in (self._policy.preview, self._policy.glance)
        )
        self._rejected: set[tuple[str, Tolerance]] = set()

    @property
    def float_score(self) -> float:
        """Return the float model's score on the split."""
        return _pooled(self._float)

    @property
    def scores_nothing(self) -> bool:
        """Tell whether the float model scores 0 on every sample."""
        return self.float_score == 0 and (self._set_level or not _joined(self._float).any())

    @property
    def loss_range(self) -> LossRange | None:
        """Return what one sample can lose; None where nothing says so. Where float is perfect none can gain."""
        return None if self._race is None else self._race.loss_range

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
        """Return how many verdicts rest on the race: each is wrong with a probability of at most alpha."""
        return len(self._rejected)

    @property
    def width(self) -> int:
        """Return how many evaluations run at once."""
        return self._evaluator.width

    def judge(self, plan: Plan, raised: Sequence[str], tolerance: Tolerance, *, race: bool = True) -> Trial:
        """Return the verdict on a plan whose loss against float is held to a tolerance."""
        progress = self._run(plan, self._blocks, tolerance if race else None)
        if progress.lost:
            self._rejected.add((plan.digest, tolerance))
            reason = f"rejected after {sum(map(len, self._blocks[: len(progress.done)]))} samples"
            return self._trial(plan, raised, Status.FAIL, progress.done, reason)
        return self._verdict(plan, raised, progress, tolerance)

    def scores(self, plan: Plan) -> Scores:
        """Return the scores of a plan on the whole split; NaN with the reason where it cannot be tested."""
        progress = self._run(plan, self._blocks, None)
        if progress.failure:
            return Scores.failed(progress.failure)
        return progress.done[0] if self._set_level else Scores(_pooled(progress.done), _joined(progress.done))

    def losses(self, plan: Plan) -> AnyArray | None:
        """Return what a plan loses on every sample of the split; None without scores of samples, or if it fails."""
        progress = self._run(plan, self._blocks, None)
        return None if progress.failure or self._set_level else _joined(self._float) - _joined(progress.done)

    def preview(self, plan: Plan, tolerance: Tolerance, evaluator: RecordedEvaluator) -> Trial:
        """Return the verdict of another evaluator on the first samples only."""
        return self._verdict(plan, (), self._run(plan, self._blocks[: self._previewed], None, evaluator), tolerance)

    def screen(self, plan: Plan, tolerance: Tolerance) -> Trial:
        """Return a failure where the first samples alone leave no doubt of it, else a pass."""
        self.expect([plan])
        progress = self._run(plan, self._blocks[: self._screened], tolerance)
        if progress.failure or progress.lost:
            return self._verdict(plan, (), progress, tolerance)
        return self._trial(plan, (), Status.PASS, progress.done)

    def confirm(self, plan: Plan, tolerance: Tolerance, evaluator: RecordedEvaluator) -> tuple[Trial, AnyArray | None]:
        """Return the verdict of another evaluator on the whole split, and the loss of every sample where it has one."""
        scores = evaluator.evaluate(plan, self._split.indices)
        if scores.failure:
            return self._trial(plan, (), Status.CANNOT_TEST, [], scores.failure), None
        status = Status.PASS if tolerance.met_by(self.float_score - scores.score) else Status.FAIL
        trial = replace(self._trial(plan, (), status, self._float), score=scores.score)
        return trial, None if scores.per_sample is None else _joined(self._float) - scores.per_sample

    def expect(self, plans: Sequence[Plan]) -> None:
        """Announce which plans will be judged, the next first: workers that are idle begin with them."""
        if self._evaluator.width < 2:
            return
        turns = [(number + turn, number, turn) for number in range(len(plans)) for turn in range(len(self._blocks))]
        self._evaluator.expect([Query(plans[number], self._blocks[turn]) for _, number, turn in sorted(turns)])

    def _run(
        self,
        plan: Plan,
        blocks: Sequence[tuple[int, ...]],
        tolerance: Tolerance | None,
        evaluator: RecordedEvaluator | None = None,
    ) -> _Progress:
        """Evaluate a plan block by block, until it fails or loses the race for a tolerance."""
        progress = _Progress()
        chosen = evaluator or self._evaluator
        if tolerance is None and chosen.width > 1:
            chosen.expect([Query(plan, block) for block in blocks])
        for block in blocks:
            scores = chosen.evaluate(plan, block)
            if scores.failure:
                progress.failure = scores.failure
                break
            progress.done.append(scores)
            unfinished = len(progress.done) < len(self._blocks)
            if tolerance is not None and unfinished and self._lost(progress.done, tolerance):
                progress.lost = True
                break
        return progress

    def _verdict(self, plan: Plan, raised: Sequence[str], progress: _Progress, tolerance: Tolerance) -> Trial:
        """Return the verdict on what was evaluated."""
        done = progress.done
        if progress.failure:
            return self._trial(plan, raised, Status.CANNOT_TEST, done, progress.failure)
        passes = not progress.lost and tolerance.met_by(self._loss(done))
        return self._trial(plan, raised, Status.PASS if passes else Status.FAIL, done)

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
        self._evaluator.log_trial(self._split.name, trial)
        return trial

    def _loss(self, done: Sequence[Scores]) -> float:
        if self._set_level:
            return self.float_score - _pooled(done)
        return float((_joined(self._float[: len(done)]) - _joined(done)).mean())

    def _lost(self, done: Sequence[Scores], tolerance: Tolerance) -> bool:
        """Tell whether the loss is above the tolerance beyond doubt."""
        return self._race is not None and self._race.rejects(_joined(done), tolerance.allowance)


def _whole(scores: Scores) -> Scores:
    """Return what the float model scores; raise DovetailError where it could not be evaluated."""
    if scores.failure:
        raise DovetailError(f"the float model cannot be evaluated: {scores.failure}")
    return scores


def _pooled(parts: Sequence[Scores]) -> float:
    if len(parts) == 1:
        return parts[0].score
    return float(_joined(parts).mean())


def _joined(parts: Sequence[Scores]) -> AnyArray:
    return np.concatenate([part.per_sample for part in parts if part.per_sample is not None])
