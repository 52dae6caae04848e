"""The shipped operator cases are many, deterministic and well typed at every precision."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.reference import REFERENCE, backend, run_graph
from dovetail.exporters import to_onnx
from dovetail.ir import DType
from dovetail.ir.precision import Precision
from dovetail.ir.roles import weight_layout
from dovetail.testing.cases import CASES, quantized
from dovetail.testing.operator_case import OperatorCase

ids = [case.name for case in CASES]


def test_there_are_many_cases_with_names_of_their_own() -> None:
    assert len({case.op for case in CASES}) >= 60
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_float_graph_agrees_with_onnx_runtime(case: OperatorCase) -> None:
    graph = case.graph()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(to_onnx(graph).SerializeToString(), options, providers=["CPUExecutionProvider"])
    for sample in case.samples():
        expected = session.run(list(graph.outputs), dict(sample))
        found = run_graph(graph, sample)
        for name, want in zip(graph.outputs, expected, strict=True):
            assert found[name].dtype == want.dtype
            np.testing.assert_allclose(found[name], want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_every_precision_compiles_and_runs_to_the_declared_types(case: OperatorCase) -> None:
    for precision in Precision:
        made = quantized(case, precision)
        backend.compile(made.graph, REFERENCE, CompileOptions())
        assert len(made.inputs) == 6
        for feed in made.inputs:
            found = run_graph(made.graph, feed)
            for name in (*made.graph.inputs, *made.graph.outputs):
                kind = made.graph.types[name]
                assert found[name].dtype == kind.dtype.carrier
                assert tuple(found[name].shape) == kind.shape


@pytest.mark.parametrize("precision", [item for item in Precision if item.is_quantized])
def test_weights_and_biases_have_the_formats_of_the_precision(precision: Precision) -> None:
    (case,) = (case for case in CASES if case.name == "Conv")
    graph = quantized(case, precision).graph
    node = graph.nodes[0]
    assert weight_layout(case.graph(), case.graph().nodes[0]) is not None
    data, weight, bias = (graph.types[name] for name in node.inputs)
    assert data.dtype is precision.activation.dtype
    assert weight.dtype is precision.weight.dtype
    assert data.quant is not None
    assert weight.quant is not None
    assert bias.quant is not None
    assert weight.quant.per_channel == precision.weight.per_channel
    assert bias.dtype is (DType.I64 if precision in (Precision.I16, Precision.W8A16) else DType.I32)
    wanted = [np.float32(data.quant.scale[0] * scale) for scale in weight.quant.scale]
    assert [np.float32(scale) for scale in bias.quant.scale] == wanted


def test_the_same_case_is_made_twice() -> None:
    for case in CASES[::10]:
        one, other = quantized(case, Precision.I8PC), quantized(case, Precision.I8PC)
        assert one.graph == other.graph
        for left, right in zip(one.inputs, other.inputs, strict=True):
            assert all(np.array_equal(left[name], right[name]) for name in left)


def test_inputs_hold_the_ends_of_the_stored_range() -> None:
    (case,) = (case for case in CASES if case.name == "Tanh")
    made = quantized(case, Precision.I16)
    lowest, highest = made.inputs[4]["x0"], made.inputs[5]["x0"]
    assert (lowest == -32768).all()
    assert (highest == 32767).all()
    assert {-32768, 0, 32767} == set(made.inputs[3]["x0"].reshape(-1).tolist())
