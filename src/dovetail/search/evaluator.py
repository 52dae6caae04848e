"""Evaluators: how well does a plan do on some samples.

The rewriter quantises the graph in memory from cached ranges and hands it to the simulator, piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Protocol

from dovetail.backend.protocols import Backend, CompileOptions, Executable, Fidelity, Signature
from dovetail.backend.registry import backend, backends_for, find_target, target_of
from dovetail.compare.task import Reference, TaskMetric
from dovetail.errors import DeviceNotFound
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Plan
from dovetail.quantize.calibrate import FLOAT_BACKEND, load_float
from dovetail.quantize.quantizer import Quantizer
from dovetail.quantize.ranges import Ranges
from dovetail.search.outputs import KeptOutputs
from dovetail.search.pieces import PiecedGraph, Pieces
from dovetail.search.policy import CutPolicy, EvaluationPolicy
from dovetail.search.samples import SampleSet, stack_outputs
from dovetail.search.trial import Scores

ORT_RULES = "reference:ort"
"""The target that is found under the name of the form that holds here."""


class Evaluator(Protocol):
    """Scores plans on samples."""

    @property
    def identity(self) -> str:
        """Return a text that changes whenever the same plan could score differently."""

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        """Return the scores of a plan; raise DovetailError when it cannot be compiled or run."""

    def outputs(self, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the outputs of a plan, stacked to `[N, ...]`."""

    def golden(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the float model's outputs."""


@dataclass(frozen=True, slots=True)
class EvaluationData:
    """What every evaluation needs."""

    graph: Graph
    samples: SampleSet
    metric: TaskMetric
    metric_identity: str
    policy: EvaluationPolicy = field(default_factory=EvaluationPolicy)
    source: Graph | None = None
    """The graph as shipped where `graph` is a repaired one: what float decides is its."""
    kept: KeptOutputs = field(default_factory=lambda: KeptOutputs(EvaluationPolicy().golden_bytes))
    """What models gave on these samples."""

    @property
    def shipped(self) -> Graph:
        """Return the graph whose float outputs are the reference."""
        return self.graph if self.source is None else self.source


def evaluation_identity(data: EvaluationData, ranges: Ranges, executor: Sequence[str]) -> str:
    """Return a text over everything that scores depend on, but for the plan.

    That is also what makes the golden outputs, and the form that ONNX Runtime's rules have on this processor.
    """
    golden = f"golden {FLOAT_BACKEND}:{backend(FLOAT_BACKEND).version}, {find_target(ORT_RULES).name}"
    repaired = () if data.source is None else (data.source.digest,)
    facts = (data.graph.digest, ranges.digest, data.samples.digest, data.metric_identity, *repaired)
    return "\n".join((*executor, golden, *facts))


class Scorer:
    """Turn outputs into scores."""

    def __init__(self, data: EvaluationData) -> None:
        self._data = data

    def scores(self, outputs: dict[str, AnyArray], indices: Sequence[int]) -> Scores:
        """Return the scores of stacked outputs."""
        metric = self._data.metric
        golden = metric.reference is Reference.GOLDEN
        labels = self.golden(indices) if golden else self._data.samples.labels(indices)
        per_sample = metric.per_sample(outputs, labels)
        score = metric.score(outputs, labels) if per_sample is None else float(per_sample.mean())
        sign = 1.0 if metric.higher_is_better else -1.0
        return Scores(sign * score, None if per_sample is None else sign * per_sample)

    def float_scores(self, plan: Plan, indices: Sequence[int]) -> Scores | None:
        """Return the scores of the plan that is float throughout; None for others, or where nothing was repaired.

        That is the model as shipped: no repair may move what it is held to.
        """
        if self._data.source is None or plan.overrides or plan.default != Placement(HOST, Precision.FP32):
            return None
        return self.scores(self.golden(indices), indices)

    def golden(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the float model's outputs."""
        return self._data.kept.rows(("float", self._data.shipped.digest), indices, self._run_float)

    def _run_float(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Run the float model sample by sample: the bits of one must not hang on what was asked for with it."""
        with closing(load_float(self._data.shipped)) as model:
            runs = [model.run(sample.inputs) for sample in self._data.samples.samples(indices)]
        return stack_outputs(self._data.graph, runs)


class Rewriter:
    """Evaluate plans on the simulator; what a plan has in common with earlier ones is kept."""

    def __init__(
        self, data: EvaluationData, ranges: Ranges, target: str, fidelity: Fidelity = Fidelity.FAST, threads: int = 1
    ) -> None:
        self._data = data
        self._fidelity = fidelity
        self._ranges = ranges
        self._quantizer = Quantizer(data.graph, ranges)
        # Exact simulation computes some operators together; a cut between them would give other integers.
        whole = replace(data.policy, cuts=CutPolicy(pieces=1))
        self._policy = data.policy if fidelity is Fidelity.FAST else whole
        self._scorer = Scorer(data)
        self._backend = simulator_of(target)
        simulated = target_of(self._backend, target)
        assert simulated is not None
        self._target = simulated
        self._pieces = Pieces(data.graph, self._built, self._policy, threads)
        self._loaded: tuple[str, PiecedGraph] | None = None

    @property
    def identity(self) -> str:
        """Return a text that changes whenever the same plan could score differently."""
        cuts = repr(self._policy.cuts)
        simulator = (self._backend.name, self._backend.version, self._fidelity.value, self._target.name, cuts)
        return evaluation_identity(self._data, self._ranges, simulator)

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        """Return the scores of a plan."""
        known = self._scorer.float_scores(plan, indices)
        return self._scorer.scores(self.outputs(plan, indices), indices) if known is None else known

    def outputs(self, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the outputs of a plan, stacked to `[N, ...]`."""
        runs = self._pieces.run(self._load(plan), indices, self._data.samples.batches(indices))
        return stack_outputs(self._data.graph, runs)

    def golden(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the float model's outputs."""
        return self._scorer.golden(indices)

    def _load(self, plan: Plan) -> PiecedGraph:
        """Return what a plan runs; the last is kept: a race evaluates block after block of the same plan."""
        if self._loaded is None or self._loaded[0] != plan.digest:
            self._loaded = plan.digest, self._pieces.cut(self._quantizer.quantize(plan).graph)
        return self._loaded[1]

    def _built(self, graph: Graph) -> Executable:
        blob = self._backend.compile(graph, self._target, CompileOptions(fidelity=self._fidelity))
        return self._backend.devices()[0].load(blob, Signature.of(graph))


def simulator_of(target: str) -> Backend:
    """Return the first backend that simulates a target, at a fidelity of choice; raise DeviceNotFound without one."""
    owners = backends_for(target)
    simulators = [owner for owner in owners if "fidelity" in owner.abilities().options]
    if not simulators:
        names = ", ".join(owner.name for owner in owners)
        raise DeviceNotFound(
            f"no backend simulates target '{target}' (it is served by: {names or 'none'}).",
            hint="Search for a target that is simulated; 'dovetail devices' lists them.",
        )
    return simulators[0]


def simulates_whole(graph: Graph, target: str) -> bool:
    """Tell whether the simulator takes a graph in one piece: it refuses what the target refuses even in float."""
    known = find_target(target)
    return all(known.verdict(graph, node, Precision.FP32).supported for node in graph.nodes)


def run_batches(executable: Executable, data: EvaluationData, indices: Sequence[int]) -> dict[str, AnyArray]:
    """Return the outputs of an executable over samples, stacked."""
    runs = [executable.run(batch.inputs) for batch in data.samples.batches(indices)]
    return stack_outputs(data.graph, runs)
