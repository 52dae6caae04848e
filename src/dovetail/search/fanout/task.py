"""What a worker does: evaluate one plan on some samples.

A worker is sent the model and the samples once. A task names its work by a digest; a worker that does not have it says
so, and the task is sent again together with the work. So any executor will do, and workers may come and go.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from dovetail.backend.protocols import Fidelity
from dovetail.compare.task import TaskMetric
from dovetail.data.sample import Sample
from dovetail.errors import DovetailError, SearchError, lacks_memory
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.storage import graph_from_bytes, graph_to_bytes
from dovetail.plan.plan import Plan, plan_from_json
from dovetail.quantize.ranges import Range, Ranges, ranges_from_json
from dovetail.search.evaluator import EvaluationData, Evaluator, Rewriter
from dovetail.search.noise import measure_noise
from dovetail.search.outputs import KeptOutputs
from dovetail.search.pipeline import Pipeline, PipelineOptions
from dovetail.search.policy import EvaluationPolicy
from dovetail.search.samples import SampleSet
from dovetail.search.trial import Scores

_KEPT_WORKS = 2
"""Evaluators that a thread keeps: a search has a fast and an exact one."""


class Measure(Enum):
    """What is measured of a plan."""

    SCORE = "score"
    NOISE = "noise"


@dataclass(frozen=True, slots=True)
class Query:
    """What a search wants to know of a plan, on some samples."""

    plan: Plan
    indices: tuple[int, ...]
    measure: Measure = Measure.SCORE


@dataclass(frozen=True, slots=True)
class Executor:
    """How plans are evaluated: on the simulator of one target, or as bundles where `whole` is false."""

    target: str
    whole: bool
    fidelity: Fidelity = Fidelity.FAST
    backends: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    threads: int = 1
    """Samples that are computed at a time; the scores are the same for any number."""

    def evaluator(self, data: EvaluationData, ranges: Ranges) -> Evaluator:
        """Return the evaluator."""
        if self.whole:
            return Rewriter(data, ranges, self.target, self.fidelity, self.threads)
        return Pipeline(data, ranges, PipelineOptions(self.fidelity, self.backends, self.targets, self.threads))


@dataclass(frozen=True, slots=True)
class _SampleArrays:
    id: str
    inputs: dict[str, AnyArray]
    labels: dict[str, AnyArray]


@dataclass(frozen=True)
class Work:
    """Everything that an evaluation needs but for the plan: plain values that go between processes."""

    graph: bytes
    ranges: str
    items: tuple[_SampleArrays, ...]
    samples_digest: str
    metric: TaskMetric
    metric_identity: str
    policy: EvaluationPolicy
    executor: Executor
    identity: str
    """The identity of the search's evaluator: a worker's has to be the same."""
    source: bytes | None = None
    """The graph as shipped where `graph` is a repaired one."""
    needed: Mapping[str, Range] = field(default_factory=dict)
    """What is needed of the ranges of outputs: noise is measured within it."""

    @classmethod
    def of(
        cls,
        data: EvaluationData,
        ranges: Ranges,
        needed: Mapping[str, Range],
        executor: Executor,
    ) -> Work:
        """Return the work of a search."""
        samples = data.samples.samples(range(data.samples.count))
        items = tuple(_SampleArrays(item.id, dict(item.inputs), dict(item.labels)) for item in samples)
        return cls(
            graph=graph_to_bytes(data.graph),
            ranges=ranges.to_json(),
            items=items,
            samples_digest=data.samples.digest,
            metric=data.metric,
            metric_identity=data.metric_identity,
            policy=data.policy,
            executor=executor,
            identity=executor.evaluator(data, ranges).identity,
            source=None if data.source is None else graph_to_bytes(data.source),
            needed=dict(needed),
        )

    @cached_property
    def key(self) -> str:
        """Return a digest of the work."""
        return hashlib.sha256(f"{self.executor!r}\n{self.identity}".encode()).hexdigest()

    def evaluator(self) -> Evaluator:
        """Return the evaluator, built anew; raise SearchError when it is not the same as that of the search."""
        graph = graph_from_bytes(self.graph, "work")
        samples = SampleSet(graph, _Items(self.items, self.samples_digest))
        source = None if self.source is None else graph_from_bytes(self.source, "work")
        kept = KeptOutputs(self.policy.golden_bytes)
        data = EvaluationData(graph, samples, self.metric, self.metric_identity, self.policy, source, kept)
        evaluator = self.executor.evaluator(data, ranges_from_json(self.ranges))
        if evaluator.identity != self.identity:
            raise SearchError(f"this worker evaluates otherwise: {evaluator.identity!r}, not {self.identity!r}.")
        return evaluator


class _Items:
    """A source of the samples that a work carries."""

    def __init__(self, items: Sequence[_SampleArrays], digest: str) -> None:
        self._items = items
        self.count: int | None = len(items)
        self.digest = digest

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(item.id, item.inputs, item.labels) for item in self._items)

    def subset(self, indices: Sequence[int]) -> _Items:
        return _Items([self._items[index] for index in indices], self.digest)


@dataclass(frozen=True, slots=True)
class Task:
    """One measurement of a plan, for the work with this key."""

    key: str
    measure: Measure
    plan: str
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TaskError:
    """What a task raised in another process: that is no verdict on its plan."""

    kind: str
    message: str
    lacks_memory: bool

    def error(self) -> Exception:
        """Return it as an error of this process."""
        return MemoryError(self.message) if self.lacks_memory else RuntimeError(f"{self.kind}: {self.message}")


class _Evaluators(threading.local):
    """The evaluators of one thread: they keep what they have loaded last, and are not for two threads."""

    def __init__(self) -> None:
        self.by_key: dict[str, tuple[Evaluator, Mapping[str, Range]]] = {}


_evaluators = _Evaluators()


def run_task(task: Task, work: Work | None = None) -> Scores | None:
    """Return the scores, or None when this thread has not been sent the work."""
    known = _evaluators.by_key
    ready = known.get(task.key)
    if ready is None:
        if work is None:
            return None
        while len(known) >= _KEPT_WORKS:
            del known[next(iter(known))]
        ready = known[task.key] = work.evaluator(), work.needed
    evaluator, needed = ready
    plan = plan_from_json(task.plan)
    try:
        if task.measure is Measure.NOISE:
            return measure_noise(evaluator, plan, task.indices, needed)
        return evaluator.evaluate(plan, task.indices)
    except DovetailError as error:
        if lacks_memory(error):
            # It is no verdict on the plan: on record it would be believed where there is enough.
            raise MemoryError(str(error)) from error
        return Scores.failed(str(error))
