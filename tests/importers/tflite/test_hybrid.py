"""Hybrid kernels (dynamic range): float data is quantised as it runs, in the order of TFLite's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dovetail.backend.arithmetic import EXACT, TFLITE, Arithmetic
from dovetail.backends.reference import run_graph
from dovetail.facts.tflite import hybrid_facts
from dovetail.importers import load_model
from dovetail.importers.tflite import load_tflite
from dovetail.ir import AnyArray, graph_from_bytes, graph_to_bytes
from dovetail.quantize.calibrate import load_float
from judges import tflite_hybrid_cases
from judges.tflite_cases import LiteCase
from judges.tflite_graphs import run_lite

Cases = Callable[[], Iterator[LiteCase]]


def _pairs(case: LiteCase, arithmetic: Arithmetic = TFLITE) -> Iterator[tuple[AnyArray, AnyArray]]:
    graph = load_tflite(case.operator.to_bytes())
    for feed, expected in zip(case.feeds, case.expected(), strict=True):
        yield run_graph(graph, dict(zip(graph.inputs, feed, strict=True)), arithmetic)[graph.outputs[0]], expected[0]


@pytest.mark.parametrize("cases", [tflite_hybrid_cases.convolutions, tflite_hybrid_cases.products])
def test_convolutions_and_products_give_litert_s_very_floats(cases: Cases) -> None:
    for case in cases():
        for found, want in _pairs(case):
            np.testing.assert_array_equal(found, want, err_msg=case.label)


def test_recurrent_kernels_differ_in_the_last_bit_of_exponentials() -> None:
    for case in tflite_hybrid_cases.recurrent():
        for found, want in _pairs(case):
            np.testing.assert_allclose(found, want, rtol=0, atol=1e-6 * float(np.abs(want).max()), err_msg=case.label)
        # With the weights as floats it is near, and not the same.
        far = max(float(np.abs(found - want).max()) for found, want in _pairs(case, EXACT))
        assert 1e-5 < far < 0.02, case.label


def test_a_sample_of_zeros_is_no_division_by_zero() -> None:
    for case in (*tflite_hybrid_cases.convolutions(), *tflite_hybrid_cases.products()):
        if case.builtin == "EMBEDDING_LOOKUP":
            continue
        graph = load_tflite(case.operator.to_bytes())
        feeds = [np.zeros_like(item) for item in case.feeds[0]]
        found = run_graph(graph, dict(zip(graph.inputs, feeds, strict=True)), TFLITE)[graph.outputs[0]]
        np.testing.assert_array_equal(found, case.operator.run([feeds])[0], err_msg=case.label)


def test_the_facts_of_recurrent_kernels_survive_storage() -> None:
    for case in tflite_hybrid_cases.recurrent():
        graph = load_tflite(case.operator.to_bytes())
        (node,) = (node for node in graph.nodes if node.op in ("LSTM", "RNN"))
        (again,) = (
            node for node in graph_from_bytes(graph_to_bytes(graph), "bytes").nodes if node.op in ("LSTM", "RNN")
        )
        facts = hybrid_facts(node)
        assert facts is not None
        assert facts == hybrid_facts(again)
        assert facts.asymmetric == case.label.endswith(".asymmetric")


@pytest.mark.models
@pytest.mark.slow
def test_the_keyword_model_gives_litert_s_numbers_everywhere(models: Path) -> None:
    path = models / "kws01_dscnn/kws_ref_model_float32.tflite"
    graph, content = load_model(path), path.read_bytes()
    processor = load_float(graph, 1)
    with np.load(models / "data_speech_commands/mfcc_int8_kws01.npz", allow_pickle=False) as file:
        stored = file["x"][~file["holdout"]][180:400]
    for sample in stored:
        feed = {graph.inputs[0]: ((sample.astype(np.float32) - 83) * np.float32(0.5847)).reshape(1, 49, 10, 1)}
        (want,) = run_lite(content, list(feed.values()))
        largest = float(np.abs(want).max())
        found = run_graph(graph, feed, TFLITE)[graph.outputs[0]]
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-6 * largest)
        usual = processor.run(feed)[graph.outputs[0]]
        np.testing.assert_allclose(usual, want, rtol=0, atol=1e-2 * largest)
