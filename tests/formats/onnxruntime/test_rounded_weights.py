"""ONNX Runtime rounds float weights between pairs as it loads a file: ours are kept from it, others are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.data import Sample
from dovetail.exporters import to_onnx
from dovetail.fit import HandedRequest, read_scored
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, find_consumer
from dovetail.ir import Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate, quantize
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples
from dovetail.testing.running import random_feeds

SAMPLES = 12


def _chain(seed: int) -> Graph:
    """Return convolutions of which those in the middle stand between pairs."""
    net = Network(seed)
    last = net.input("x", 1, 3, 8, 8)
    for _ in range(4):
        last = net.op("Relu", net.conv(last, 8, 3))
    return net.graph(net.conv(last, 4))


def _handed(name: str, place: str, seed: int) -> tuple[ConsumerReading, float, float]:
    """Return what the reader of a format makes of a plan with a layer elsewhere, the prediction and its score."""
    graph, form, consumer = _chain(seed), find_format(name), find_consumer(name)
    assert consumer is not None
    # The second convolution and its clamp stand between pairs.
    away = {node.name: Override(parse_placement(place), "a test") for node in graph.nodes[2:4]}
    plan = Plan(graph.digest, parse_placement("vsi:v853@i8pc"), away)
    samples = HeldSamples([Sample(str(index), random_feeds(graph, index)) for index in range(SAMPLES)])
    ranges = calibrate(graph, samples).ranges
    written = form.write(WriteRequest(plan, graph, quantized=quantize(graph, plan, ranges)))
    request = ConsumerRequest(graph, plan, written, to_onnx(graph).SerializeToString())
    reading, score = read_scored(consumer, request, HandedRequest(graph, samples, ranges=ranges, metric="noise"))
    assert score.predicted.value is not None
    return reading, score.predicted.value, score.given


@pytest.mark.parametrize("place", ["cpu@fp32", "vsi:v853@i16"])
def test_a_file_of_pairs_computes_what_is_predicted_in_a_session_as_users_open_it(place: str) -> None:
    reading, predicted, given = _handed("onnx-qdq", place, 5)
    assert not reading.disobeyed
    assert "disabled_optimizers" not in reading.consumer
    assert given == pytest.approx(predicted, abs=1e-6)


def test_float_layers_of_the_quantiser_need_an_option_and_the_reader_says_so() -> None:
    reading, predicted, given = _handed("onnxruntime", "cpu@fp32", 5)
    assert not reading.disobeyed
    assert reading.consumer.endswith('with disabled_optimizers=["WeightBiasQuantization"]')
    assert given == pytest.approx(predicted, abs=0.01)
    assert np.isfinite(given)


def test_without_float_layers_it_needs_none() -> None:
    reading, *_ = _handed("onnxruntime", "vsi:v853@i16", 5)
    assert "disabled_optimizers" not in reading.consumer
