"""Every builtin operator against LiteRT's own kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dovetail.backend.arithmetic import EXACT
from dovetail.backends.reference import run_graph
from dovetail.importers.tflite import load_tflite
from dovetail.importers.tflite.convert import known_operators
from judges import tflite_float_cases, tflite_integer_cases
from judges.tflite_cases import LiteCase
from judges.tflite_rules_judge import rules_score

Cases = Callable[[], Iterator[LiteCase]]
_FLOAT: tuple[Cases, ...] = (
    tflite_float_cases.elementwise,
    tflite_float_cases.images,
    tflite_float_cases.products,
    tflite_float_cases.reductions,
    tflite_float_cases.moves,
    tflite_float_cases.picks,
)
_INTEGER: tuple[Cases, ...] = (
    tflite_integer_cases.accumulating,
    tflite_integer_cases.elementwise,
    tflite_integer_cases.windows,
)
_JUDGED_ELSEWHERE = {
    *("CALL", "Convolution2DTransposeBias", "DENSIFY", "IF", "WHILE", "TFLite_Detection_PostProcess"),
    *("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"),
    *("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"),
}


@pytest.mark.parametrize("cases", _FLOAT, ids=lambda item: item.__name__)
def test_float_operators_give_what_litert_gives(cases: Cases) -> None:
    for case in cases():
        graph = load_tflite(case.operator.to_bytes())
        for feed, expected in zip(case.feeds, case.expected(), strict=True):
            found = run_graph(graph, dict(zip(graph.inputs, feed, strict=True)))
            for name, want in zip(graph.outputs, expected, strict=True):
                assert found[name].dtype == want.dtype, case.label
                shape = graph.types[name].shape
                assert shape is not None
                assert found[name].shape == want.shape == shape or None in shape
                np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5, err_msg=case.label)


@pytest.mark.parametrize("cases", _INTEGER, ids=lambda item: item.__name__)
def test_integer_operators_give_the_same_integers_by_tflites_rules(cases: Cases) -> None:
    for case in cases():
        found = rules_score(case, 4000)
        # Float32 in LiteRT's softmax: one value in ten thousand may lie on the other side of a half.
        assert found.elements - found.equal <= found.elements // 10_000 + (case.builtin == "SOFTMAX"), case.label
        assert found.max_lsb <= 1, case.label


def test_exact_arithmetic_is_within_one_step_of_tflites() -> None:
    for case in tflite_integer_cases.accumulating():
        graph = load_tflite(case.operator.to_bytes())
        feed = dict(zip(graph.inputs, case.feeds[0], strict=True))
        found = run_graph(graph, feed, EXACT)[graph.outputs[0]].astype(np.int64)
        assert np.abs(found - case.expected()[0][0]).max() <= 1, case.label


def test_quantised_operators_arrive_quantised() -> None:
    for case in tflite_integer_cases.accumulating():
        graph = load_tflite(case.operator.to_bytes())
        reals = [name for name, kind in graph.types.items() if kind.dtype.is_float and name not in graph.constants]
        assert not reals, case.label
        assert graph.inputs == ("in0",) or len(graph.inputs) > 1 or case.builtin == "TRANSPOSE_CONV"
        assert graph.outputs == ("out0",)


def test_every_converter_is_judged() -> None:
    judged = {case.builtin for cases in (*_FLOAT, *_INTEGER) for case in cases()}
    assert not known_operators() - judged - _JUDGED_ELSEWHERE
    assert len(known_operators()) > 90
