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
from dovetail.errors import DovetailError, SearchError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.storage import graph_from_bytes, graph_to_bytes
from dovetail.plan.plan import plan_from_json
from dovetail.quantize.ranges import Ranges, ranges_from_json
from dovetail.search.drowned import measure_drowned
from dovetail.search.evaluator import EvaluationData, Evaluator, Rewriter
from dovetail.search.journal import Scores
from dovetail.search.pipeline import Pipeline, PipelineOptions
from dovetail.search.samples import SampleSet

_KEPT_WORKS = 2


class Job(Enum):
    """Say what is measured of a plan."""

    SCORE = "score"
    DROWNED = "drowned"


@dataclass(frozen=True, slots=True)
class Executor:
    """Name how plans are evaluated: on the simulator of one target, or as bundles where `whole` is false."""

    target: str
    whole: bool
    fidelity: Fidelity = Fidelity.FAST
    backends: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()

    def evaluator(self, data: EvaluationData, ranges: Ranges) -> Evaluator:
        """Return the evaluator."""
        if self.whole:
            return Rewriter(data, ranges, self.target, self.fidelity)
        return Pipeline(data, ranges, PipelineOptions(self.fidelity, self.backends, self.targets))


@dataclass(frozen=True, slots=True)
class _Item:
    id: str
    inputs: dict[str, AnyArray]
    labels: dict[str, AnyArray]


@dataclass(frozen=True)
class Work:
    """Hold everything that an evaluation needs but for the plan; plain values that go between processes."""

    graph: bytes
    ranges: str
    items: tuple[_Item, ...]
    samples_digest: str
    metric: TaskMetric
    metric_identity: str
    executor: Executor
    identity: str
    """What the evaluator of the search calls itself: a worker's has to be called the same."""

    @classmethod
    def of(cls, data: EvaluationData, ranges: Ranges, executor: Executor) -> Work:
        """Return the work of a search."""
        samples = data.samples.samples(range(data.samples.count))
        items = tuple(_Item(item.id, dict(item.inputs), dict(item.labels)) for item in samples)
        return cls(
            graph=graph_to_bytes(data.graph),
            ranges=ranges.to_json(),
            items=items,
            samples_digest=data.samples.digest,
            metric=data.metric,
            metric_identity=data.metric_identity,
            executor=executor,
            identity=executor.evaluator(data, ranges).identity,
        )

    @cached_property
    def key(self) -> str:
        """Return a digest of the work."""
        return hashlib.sha256(f"{self.executor!r}\n{self.identity}".encode()).hexdigest()

    def evaluator(self) -> Evaluator:
        """Return the evaluator, built anew; raise SearchError when it is not the same as that of the search."""
        graph = graph_from_bytes(self.graph, "work")
        samples = SampleSet(graph, _Items(self.items, self.samples_digest))
        data = EvaluationData(graph, samples, self.metric, self.metric_identity)
        found = self.executor.evaluator(data, ranges_from_json(self.ranges))
        if found.identity != self.identity:
            raise SearchError(f"this worker evaluates otherwise: {found.identity!r}, not {self.identity!r}.")
        return found


class _Items:
    """Show the items as a source of samples."""

    def __init__(self, items: Sequence[_Item], digest: str) -> None:
        self._items = items
        self.count: int | None = len(items)
        self.digest = digest

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(item.id, item.inputs, item.labels) for item in self._items)

    def subset(self, indices: Sequence[int]) -> _Items:
        return _Items([self._items[index] for index in indices], self.digest)


@dataclass(frozen=True, slots=True)
class Task:
    """Ask for one measurement of a plan."""

    key: str
    job: Job
    plan: str
    indices: tuple[int, ...]


class _Bench(threading.local):
    """The evaluators of one thread: they keep what they have loaded last, and are not for two threads."""

    def __init__(self) -> None:
        self.evaluators: dict[str, Evaluator] = {}


_bench = _Bench()


def run_task(task: Task, work: Work | None = None) -> Scores | None:
    """Return the scores, or None when this thread has not been sent the work."""
    known = _bench.evaluators
    evaluator = known.get(task.key)
    if evaluator is None:
        if work is None:
            return None
        while len(known) >= _KEPT_WORKS:
            del known[next(iter(known))]
        evaluator = known[task.key] = work.evaluator()
    plan = plan_from_json(task.plan)
    try:
        if task.job is Job.DROWNED:
            return measure_drowned(evaluator, plan, task.indices)
        return evaluator.evaluate(plan, task.indices)
    except DovetailError as error:
        return Scores(float("nan"), None, str(error))
