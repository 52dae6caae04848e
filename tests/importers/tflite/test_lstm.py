"""TFLite's integer LSTM: its facts travel with a node that works on reals, and its rules read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest

from dovetail.backend.arithmetic import EXACT, TFLITE
from dovetail.backends.reference import run_graph
from dovetail.backends.reference.gemmlowp_16 import logistic, tanh
from dovetail.errors import DeviceError
from dovetail.exporters import to_onnx
from dovetail.facts.tflite import lstm_facts
from dovetail.importers.tflite import load_tflite
from dovetail.ir import AnyArray, Graph, graph_from_bytes, graph_to_bytes, parse_graph, print_graph
from dovetail.passes import normalize
from dovetail.quantize import dequantize
from judges.tflite_cases import LiteCase
from judges.tflite_lstm_cases import lstm_cases
from judges.tflite_rules_judge import rules_score

CASES = {case.label.partition(".i8.")[2]: case for case in lstm_cases()}


def _graph(case: LiteCase) -> Graph:
    return load_tflite(case.operator.to_bytes())


def _feed(graph: Graph, case: LiteCase) -> dict[str, AnyArray]:
    return dict(zip(graph.inputs, case.feeds[0], strict=True))


def _found(graph: Graph, case: LiteCase) -> AnyArray:
    return run_graph(graph, _feed(graph, case), TFLITE)[graph.outputs[0]]


@pytest.mark.parametrize("name", CASES)
def test_every_element_is_that_of_litert(name: str) -> None:
    found = rules_score(CASES[name], 2000)
    assert found.equal == found.elements


@pytest.mark.parametrize("name", ["plain", "coupled", "peepholes", "coupled.peepholes", "time_major"])
def test_on_reals_it_is_near(name: str) -> None:
    case = CASES[name]
    graph = _graph(case)
    found = run_graph(graph, _feed(graph, case), EXACT)[graph.outputs[0]].astype(np.int64)
    steps = np.abs(found - case.expected()[0][0])
    assert steps.max() <= 3
    assert steps.mean() < 0.5


def test_the_functions_are_those_of_the_reals() -> None:
    x = np.arange(-32768, 32768)
    np.testing.assert_allclose(logistic(x) / 32768, 1 / (1 + np.exp(-x / 4096)), rtol=0, atol=2e-3)
    for bits in (0, 3, 6):
        np.testing.assert_allclose(tanh(x, bits) / 32768, np.tanh(x / 2.0 ** (15 - bits)), rtol=0, atol=2e-3)


def test_the_facts_survive_storage_text_and_passes() -> None:
    case = CASES["peepholes"]
    graph = _graph(case)
    want = case.expected()[0][0]
    again = [graph_from_bytes(graph_to_bytes(graph), "bytes"), parse_graph(print_graph(graph)), normalize(graph)]
    for other in again:
        np.testing.assert_array_equal(_found(other, case), want)


def test_a_float_model_has_no_facts() -> None:
    graph = dequantize(_graph(CASES["plain"])).graph
    assert [lstm_facts(node) for node in graph.nodes if node.op == "LSTM"] == [None]


def test_onnx_runtime_runs_it_without_them() -> None:
    case = CASES["coupled"]
    graph = _graph(case)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(to_onnx(graph).SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, _feed(graph, case))[0]
    assert np.abs(found.astype(np.int64) - case.expected()[0][0]).max() <= 3


def test_damaged_facts_are_refused() -> None:
    case = CASES["plain"]
    graph = _graph(case)
    nodes = [
        replace(node, attributes={**node.attributes, "tflite.scales": (1.0,)}) if node.op == "LSTM" else node
        for node in graph.nodes
    ]
    with pytest.raises(DeviceError, match="facts about its integers are damaged"):
        _found(graph.evolve(nodes=tuple(nodes)), case)


@pytest.mark.parametrize("missing", ["in18", "in19", "between4"])
def test_without_the_kernels_scales_it_stays_on_reals(missing: str) -> None:
    operator = CASES["plain"].operator
    inputs, between = (
        [replace(item, quant=None) if item is not None and item.name == missing else item for item in items]
        for items in (operator.inputs, operator.intermediates)
    )
    changed = replace(operator, inputs=inputs, intermediates=[item for item in between if item is not None])
    for other in (changed, replace(operator, intermediates=())):
        graph = load_tflite(other.to_bytes())
        assert [lstm_facts(node) for node in graph.nodes if node.op == "LSTM"] == [None]
