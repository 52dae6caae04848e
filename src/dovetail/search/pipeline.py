"""The whole pipeline as an evaluator: quantise, partition, compile, run on devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.backend.failures import FailureMemory
from dovetail.backend.protocols import CompileOptions, Fidelity
from dovetail.compile import CompileRequest, choose_backend, compile_model, named_error
from dovetail.errors import CompileError
from dovetail.ir.dtypes import AnyArray
from dovetail.partition import ReductionBudget
from dovetail.partition.schedule import partition
from dovetail.plan.plan import Plan
from dovetail.quantize.quantizer import Quantizer
from dovetail.quantize.ranges import Ranges
from dovetail.runtime.session import open_session
from dovetail.sdk.location import failures_folder
from dovetail.search.evaluator import EvaluationData, Scorer, evaluation_identity
from dovetail.search.samples import stack_outputs
from dovetail.search.threads import Threads
from dovetail.search.trial import Scores

_NAMING = ReductionBudget(40, 120.0)
"""To find the smallest part that a vendor's compiler crashes on: twice halving 500 nodes, and what then remains."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """How plans are compiled."""

    fidelity: Fidelity = Fidelity.EXACT
    """What simulators are asked for."""
    backends: Mapping[str, str] = field(default_factory=dict)
    """The backend of a target where several could serve it."""
    targets: tuple[str, ...] = ()
    """The targets that the plans may name: the versions of their backends belong to the identity."""
    threads: int = 1
    """Samples that are computed at a time, where the executables allow it."""


class Pipeline:
    """Evaluate plans as they will be deployed: one compiled partition after the other."""

    def __init__(self, data: EvaluationData, ranges: Ranges, options: PipelineOptions | None = None) -> None:
        self._data = data
        self._ranges = ranges
        self._options = options or PipelineOptions()
        self._quantizer = Quantizer(data.graph, ranges)
        self._scorer = Scorer(data)
        self._threads = Threads(self._options.threads)

    @property
    def identity(self) -> str:
        """Return a text that changes whenever the same plan could score differently."""
        served = sorted({*self._options.backends, *self._options.targets})
        owners = [(target, choose_backend(target, self._options.backends)) for target in served]
        names = [f"{target}={owner.name}:{owner.version}" for target, owner in owners]
        return evaluation_identity(self._data, self._ranges, ("pipeline", self._options.fidelity.value, *names))

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        """Return the scores of a plan."""
        known = self._scorer.float_scores(plan, indices)
        return self._scorer.scores(self.outputs(plan, indices), indices) if known is None else known

    def outputs(self, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the outputs of a plan, stacked to `[N, ...]`.

        Those of exact simulation are kept: they take seconds, and never come out otherwise.
        """
        if self._options.fidelity is not Fidelity.EXACT or self._options.backends:
            return self._run(plan, indices)
        key = ("exact", self._ranges.digest, plan.digest)
        return self._data.kept.whole(key, indices, lambda wanted: self._run(plan, wanted))

    def _run(self, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        partitioned = partition(self._quantizer.quantize(plan))
        request = self._request({part.target for part in partitioned.partitions})
        try:
            bundle = compile_model(partitioned, request)
        except CompileError as error:
            if not self._options.backends:
                raise
            # A vendor's judgement of the one plan that is left: which node it dies of is worth some compilations.
            raise named_error(request, partitioned, error, self._data.graph, _NAMING) from error
        with open_session(bundle) as session:
            batches = self._data.samples.batches(indices)
            runs = list(self._threads.map(lambda batch: session.run(batch.inputs).outputs, batches))
        return stack_outputs(self._data.graph, runs)

    def _request(self, targets: Iterable[str]) -> CompileRequest:
        """Return how plans are compiled: a plan may have no simulated target, and then nothing obeys the fidelity."""
        chosen = self._options.backends
        simulated = [item for item in targets if "fidelity" in choose_backend(item, chosen).abilities().options]
        return CompileRequest(
            backends=chosen,
            per_target=dict.fromkeys(simulated, CompileOptions(self._options.fidelity)),
            memory=FailureMemory(failures_folder()) if chosen else None,
        )

    def golden(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the float model's outputs."""
        return self._scorer.golden(indices)
