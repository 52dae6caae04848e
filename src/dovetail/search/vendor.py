"""The vendor's own simulator as the last judge of a plan, on a few samples: it is slow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.backend.protocols import Fidelity
from dovetail.backend.registry import backend
from dovetail.errors import DeviceNotFound
from dovetail.ir.dtypes import AnyArray
from dovetail.plan.placement import HOST
from dovetail.plan.plan import Plan
from dovetail.quantize.ranges import Ranges
from dovetail.search.evaluator import EvaluationData, Scorer
from dovetail.search.fanout.task import Query
from dovetail.search.journal import Journal
from dovetail.search.pipeline import Pipeline, PipelineOptions
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.trial import Scores


@dataclass(frozen=True, slots=True)
class VendorCheck:
    """The vendor's backend that is asked before a plan is accepted, and on how many samples of the hold-out split."""

    backend: str = "vsi"
    samples: int = 4


@dataclass(frozen=True, slots=True)
class VendorFinding:
    """What the vendor's backend gave: the share of equal elements, and its loss beside ours on the same samples."""

    accepted: bool
    summary: str


class VendorJudge:
    """Run plans on the vendor's backend and on our exact simulation, on the same samples."""

    def __init__(self, data: EvaluationData, ranges: Ranges, check: VendorCheck, journal: Journal) -> None:
        served = {item.name for item in backend(check.backend).targets()}
        if not served:
            raise DeviceNotFound(f"backend '{check.backend}' serves no target.")
        self._check = check
        self._scorer = Scorer(data)
        self._ours = Pipeline(data, ranges, PipelineOptions(Fidelity.EXACT))
        self._theirs = Pipeline(data, ranges, PipelineOptions(Fidelity.EXACT, dict.fromkeys(served, check.backend)))
        mark = hashlib.sha256(self._theirs.identity.encode()).hexdigest()[:16]
        kinds = ("equal", "theirs", "ours")
        self._records = {
            kind: RecordedEvaluator(self._theirs, journal, f"{check.backend} {mark} {kind}") for kind in kinds
        }
        self._kept: dict[str, _Outputs] = {}

    def judge(self, plan: Plan, holdout: Sequence[int], allowance: float) -> VendorFinding:
        """Return whether the vendor's score keeps within what the goal allows, beside ours on the same samples."""
        name, indices = self._check.backend, list(holdout[: self._check.samples])
        if not set(plan.targets) - {HOST}:
            return VendorFinding(True, f"nothing runs on {name}")
        equal = self._once("equal", plan, indices, lambda: Scores(self._outputs(plan, indices).equal_share, None))
        if equal.failure:
            return VendorFinding(False, f"{name} cannot test it: {equal.failure}")
        theirs = self._once("theirs", plan, indices, lambda: self._score(self._outputs(plan, indices).theirs, indices))
        ours = self._once("ours", plan, indices, lambda: self._score(self._outputs(plan, indices).ours, indices))
        failure = theirs.failure or ours.failure
        if failure:
            return VendorFinding(False, f"{name} cannot test it: {failure}")
        lost = ours.score - theirs.score
        summary = f"{name} on {len(indices)} samples: {equal.score:.2%} of elements equal, loss {lost:.4g} beside ours"
        agrees = lost <= allowance + 1e-12
        return VendorFinding(agrees, summary if agrees else f"{summary}: suspect a kernel or the driver")

    def _once(self, kind: str, plan: Plan, indices: Sequence[int], measure: Callable[[], Scores]) -> Scores:
        return self._records[kind].once(Query(plan, tuple(indices)), measure)

    def _score(self, outputs: dict[str, AnyArray], indices: Sequence[int]) -> Scores:
        return self._scorer.scores(outputs, indices)

    def _outputs(self, plan: Plan, indices: Sequence[int]) -> _Outputs:
        if plan.digest not in self._kept:
            self._kept = {plan.digest: _Outputs(self._ours.outputs(plan, indices), self._theirs.outputs(plan, indices))}
        return self._kept[plan.digest]


@dataclass(frozen=True, slots=True)
class _Outputs:
    ours: dict[str, AnyArray] = field(default_factory=dict)
    theirs: dict[str, AnyArray] = field(default_factory=dict)

    @property
    def equal_share(self) -> float:
        pairs = [(self.theirs[name], value) for name, value in self.ours.items()]
        count = sum(value.size for _, value in pairs)
        return sum(int(np.count_nonzero(theirs == ours)) for theirs, ours in pairs) / max(count, 1)
