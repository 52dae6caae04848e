"""Run a model that came quantised where its nodes are placed, and score what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.backend.registry import backends_for
from dovetail.compare.judgement import JudgedScore
from dovetail.compile import compile_model
from dovetail.errors import CompileError, DataError, DeviceError
from dovetail.fit.listener import FitListener
from dovetail.fit.metric import ChosenMetric
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType, quantize_array
from dovetail.partition.schedule import partition
from dovetail.plan.quantized import QuantizedGraph
from dovetail.runtime import open_session
from dovetail.search.evaluator import EvaluationData, Scorer
from dovetail.search.samples import SampleSet, stack_outputs


@dataclass(frozen=True, slots=True)
class DeployedModel:
    """A placed model, the samples for it, and the graph whose outputs it is compared with."""

    quantized: QuantizedGraph
    samples: SampleSet
    reference: Graph


class JudgedMetric:
    """A metric over all samples, beside the float model that counts as right."""

    def __init__(self, reference: Graph, samples: SampleSet, chosen: ChosenMetric) -> None:
        self._indices = range(samples.count)
        self._scorer = Scorer(EvaluationData(reference, samples, chosen.metric, chosen.identity))

    def score(self, outputs: dict[str, AnyArray]) -> float:
        """Return the score of outputs `[N, ...]`; more is better."""
        return self._scorer.scores(outputs, self._indices).score

    def float_score(self) -> float:
        """Return the score of the float model itself."""
        return self.score(self.golden())

    def golden(self) -> dict[str, AnyArray]:
        """Return what the float model computes."""
        return self._scorer.golden(self._indices)


def score_deployed(model: DeployedModel, metric: JudgedMetric, progress: FitListener) -> JudgedScore:
    """Return the score of a placed model; the reason where it cannot be compiled or run.

    Raises DataError where its outputs are not those of the reference.
    """
    names = output_names(model.quantized.graph, model.reference)
    runs: list[dict[str, AnyArray]] = []
    try:
        with open_session(compile_model(partition(model.quantized))) as session:
            done = 0
            for batch in model.samples.batches(range(model.samples.count)):
                run = session.run(_stored(model.quantized.graph, batch.inputs))
                runs.append({theirs: run.real(ours) for ours, theirs in names.items()})
                done += len(batch.samples)
                progress.advance(done)
    except (CompileError, DeviceError) as error:
        return JudgedScore(None, str(error))
    return JudgedScore(metric.score(stack_outputs(model.reference, runs)))


def output_names(graph: Graph, reference: Graph) -> Mapping[str, str]:
    """Map a model's outputs to those of its reference: by name where they have the same, else in order."""
    if set(graph.outputs) == set(reference.outputs):
        return {name: name for name in graph.outputs}
    if len(graph.outputs) != len(reference.outputs):
        raise DataError(
            f"'{graph.name}' has {len(graph.outputs)} outputs and the float model {len(reference.outputs)}.",
            hint="Give the float model that it was made from.",
            option="float_model",
        )
    return dict(zip(graph.outputs, reference.outputs, strict=True))


def arithmetic_of(target: str) -> str:
    """Return in words whose arithmetic a target's score rests on."""
    owners = backends_for(target)
    if not owners:
        return "nothing compiles for it here"
    simulated = "fidelity" in owners[0].abilities().options
    return f"{'exact simulation' if simulated else 'backend'} {owners[0].name} {owners[0].version}"


def _stored(graph: Graph, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Return real inputs as the model stores them."""
    return {name: _as(graph.types[name], value) for name, value in inputs.items()}


def _as(kind: TensorType, value: AnyArray) -> AnyArray:
    return value if kind.quant is None else quantize_array(value, kind.dtype, kind.quant)
