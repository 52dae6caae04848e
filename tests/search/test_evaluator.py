"""The evaluator of plans on a simulator: what it keeps between the blocks of a race."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.compare.task import callable_metric
from dovetail.data import Sample
from dovetail.ir import Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.quantize.quantizer import Quantizer
from dovetail.search.evaluator import EvaluationData, Rewriter
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


def test_threads_give_the_bits_of_one_in_exact_arithmetic_too() -> None:
    graph, held, data = _tanh()
    ranges = calibrate(graph, held).ranges
    plan = Plan(graph.digest, LOW, {graph.nodes[1].name: Override(CPU, "")})
    alone, many = (Pipeline(data, ranges, PipelineOptions(threads=threads)) for threads in (1, 3))
    want, outputs = alone.outputs(plan, range(4)), many.outputs(plan, range(4))
    assert all(np.array_equal(want[name], outputs[name]) for name in graph.outputs)
    assert len(np.unique(want[graph.outputs[0]], axis=0)) == 4
