"""The evaluator of plans on a simulator: what it keeps between the blocks of a race."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.compare.task import callable_metric
from dovetail.data import Sample
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.quantize.quantizer import Quantizer
from dovetail.search.evaluator import EvaluationData, Rewriter
from dovetail.search.samples import SampleSet
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

LOW, CPU = parse_placement("vsi:v853@u8"), parse_placement("cpu@fp32")


def test_a_plan_is_quantised_once_for_all_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Network()
    graph = net.graph(net.op("Tanh", net.op("Relu", net.conv(net.input("x", 1, 3, 8, 8), 4, 3))))
    rng = np.random.default_rng(0)
    held = HeldSamples(
        [Sample(str(index), {"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)}) for index in range(4)]
    )
    metric = callable_metric(lambda outputs, labels: 0.0, "none")
    rewriter = Rewriter(
        EvaluationData(graph, SampleSet(graph, held), metric, ""), calibrate(graph, held).ranges, LOW.target
    )
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
