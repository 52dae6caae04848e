"""The evaluator of plans on a simulator: what it keeps between the blocks of a race."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dovetail.compare.task import Arrays, Reference, callable_metric
from dovetail.data import Sample
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.quantize.quantizer import Quantizer
from dovetail.search.evaluator import EvaluationData, Rewriter, Scorer
from dovetail.search.pipeline import Pipeline, PipelineOptions
from dovetail.search.samples import SampleSet
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

LOW, CPU = parse_placement("vsi:v853@u8"), parse_placement("cpu@fp32")


def _tanh() -> tuple[Graph, HeldSamples, EvaluationData]:
    net = Network()
    graph = net.graph(net.op("Tanh", net.op("Relu", net.conv(net.input("x", 1, 3, 8, 8), 4, 3))))
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(1, 3, 8, 8)).astype(np.float32) for _ in range(4)]
    held = HeldSamples([Sample(str(number), {"x": values}) for number, values in enumerate(inputs)])
    metric = callable_metric(lambda outputs, labels: 0.0, "none")
    return graph, held, EvaluationData(graph, SampleSet(graph, held), metric, "")


def test_a_plan_is_quantised_once_for_all_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, held, data = _tanh()
    rewriter = Rewriter(data, calibrate(graph, held).ranges, LOW.target)
    quantised: list[str] = []
    real = Quantizer.quantize

    def quantize(self: Quantizer, plan: Plan) -> object:
        quantised.append(plan.digest)
        return real(self, plan)

    monkeypatch.setattr(Quantizer, "quantize", quantize)
    low = Plan(graph.digest, LOW)
    raised = Plan(graph.digest, LOW, {graph.nodes[-1].name: Override(CPU, "")})
    first = [rewriter.outputs(low, block) for block in ((0, 1), (2, 3))]
    other = rewriter.outputs(raised, (0, 1))
    again = rewriter.outputs(low, (0, 1))
    assert quantised == [low.digest, raised.digest, low.digest]
    assert all(np.array_equal(first[0][name], again[name]) for name in graph.outputs)
    assert not any(np.array_equal(first[0][name], other[name]) for name in graph.outputs)


@dataclass(frozen=True)
class _Given:
    """A metric that gives these scores, and 7 for the whole set."""

    higher_is_better: bool
    alone: AnyArray | None
    name: str = "given"
    reference: Reference = Reference.LABELS

    def per_sample(self, outputs: Arrays, labels: Arrays) -> AnyArray | None:
        return self.alone

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return 7.0


@pytest.mark.parametrize("higher", [True, False])
def test_a_score_is_the_mean_of_the_samples_or_the_metrics_own_and_more_is_better(higher: bool) -> None:
    _, _, data = _tanh()
    sign = 1.0 if higher else -1.0
    alone = Scorer(replace(data, metric=_Given(higher, np.array([1.0, 2.0, 6.0])))).scores({}, (0, 1, 2))
    assert alone.score == sign * 3.0
    assert alone.per_sample is not None
    assert alone.per_sample.tolist() == [sign * 1.0, sign * 2.0, sign * 6.0]
    whole = Scorer(replace(data, metric=_Given(higher, None))).scores({}, (0, 1, 2))
    assert (whole.score, whole.per_sample) == (sign * 7.0, None)


def test_threads_give_the_bits_of_one_in_exact_arithmetic_too() -> None:
    graph, held, data = _tanh()
    ranges = calibrate(graph, held).ranges
    plan = Plan(graph.digest, LOW, {graph.nodes[1].name: Override(CPU, "")})
    alone, many = (Pipeline(data, ranges, PipelineOptions(threads=threads)) for threads in (1, 3))
    want, outputs = alone.outputs(plan, range(4)), many.outputs(plan, range(4))
    assert all(np.array_equal(want[name], outputs[name]) for name in graph.outputs)
    assert len(np.unique(want[graph.outputs[0]], axis=0)) == 4
