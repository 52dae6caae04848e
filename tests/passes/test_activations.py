"""HardSwish and HardSigmoid are recognised in the forms that exporters write, and only there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import dovetail
from dovetail.ir import Graph
from dovetail.passes import FuseHardSwish, normalize
from dovetail.testing.running import run_graph, run_model

_CONSTANTS = "<float three = {3}, float six = {6}, float zero = {0}, float sixth = {0.16666667}, float two = {2}>"
_SWISH = {
    "Paddle": "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
    "PyTorch before 1.8": "a = Add(three, x) c = Clip(a, zero, six) d = Div(c, six) y = Mul(d, x)",
    "TensorFlow": "a = Add(x, three) c = Clip(a, zero, six) d = Mul(c, sixth) y = Mul(x, d)",
    "the sixth last": "a = Add(x, three) c = Clip(a, zero, six) m = Mul(c, x) y = Mul(sixth, m)",
    "PyTorch": "h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, h)",
}
_OTHERS = {
    "another reach": "a = Add(x, two) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
    "another roof": "a = Add(x, three) c = Clip(a, zero, three) m = Mul(x, c) y = Div(m, six)",
    "another floor": "a = Add(x, three) c = Clip(a, two, six) m = Mul(x, c) y = Div(m, six)",
    "no floor": "a = Add(x, three) c = Clip(a, , six) m = Mul(x, c) y = Div(m, six)",
    "another divisor": "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, three)",
    "turned round": "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(six, m)",
    "another factor": "n = Neg(x) a = Add(x, three) c = Clip(a, zero, six) m = Mul(n, c) y = Div(m, six)",
    "the default slope": "h = HardSigmoid(x) y = Mul(x, h)",
    "read elsewhere": "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) d = Div(m, six) y = Add(d, c)",
}


def _model(body: str, opset: int = 17) -> bytes:
    signature = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[2, 3, 5] x) => (float[2, 3, 5] y)'
    made = parser.parse_model(f"{signature} {_CONSTANTS} {{ {body} }}")
    return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


def _both(model: bytes, graph: Graph) -> None:
    feeds = {"x": np.linspace(-5, 5, 30, dtype=np.float32).reshape(2, 3, 5)}
    (expected,) = run_model(model, feeds, optimise=False)
    np.testing.assert_allclose(run_graph(graph, feeds)[0], expected, rtol=1e-5, atol=1e-6)


def _loaded(model: bytes, folder: Path) -> Graph:
    path = folder / "net.onnx"
    path.write_bytes(model)
    return dovetail.load_model(path)


@pytest.mark.parametrize("form", _SWISH)
def test_every_form_becomes_one_operator_that_knows_where_it_is_from(form: str, tmp_path: Path) -> None:
    model = _model(_SWISH[form])
    graph = _loaded(model, tmp_path)
    (node,) = normalize(graph).nodes
    assert (node.op, node.inputs, node.outputs) == ("HardSwish", ("x",), ("y",))
    assert node.origin == tuple(one.name for one in graph.nodes)
    _both(model, normalize(graph))


@pytest.mark.parametrize("form", _OTHERS)
def test_what_only_looks_like_it_stays(form: str, tmp_path: Path) -> None:
    model = _model(_OTHERS[form])
    normal = normalize(_loaded(model, tmp_path))
    assert "HardSwish" not in {node.op for node in normal.nodes}
    _both(model, normal)


def test_hard_sigmoid_alone_is_recognised(tmp_path: Path) -> None:
    model = _model("a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)")
    normal = normalize(_loaded(model, tmp_path))
    assert [node.op for node in normal.nodes] == ["HardSigmoid"]
    _both(model, normal)


def test_bounds_as_attributes_of_old_opsets_are_read(tmp_path: Path) -> None:
    model = _model("a = Add(x, three) c = Clip <min = 0.0, max = 6.0> (a) m = Mul(x, c) y = Div(m, six)", 10)
    normal = normalize(_loaded(model, tmp_path))
    assert [node.op for node in normal.nodes] == ["HardSwish"]
    _both(model, normal)


def test_an_inner_tensor_that_the_caller_wants_stays(tmp_path: Path) -> None:
    graph = _loaded(_model(_SWISH["Paddle"]), tmp_path)
    clipped = graph.nodes[1].outputs[0]
    wanted = graph.evolve(outputs=(*graph.outputs, clipped))
    assert FuseHardSwish()(wanted) is wanted


def test_a_constant_that_widens_the_result_stays(tmp_path: Path) -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[5] x) => (float[1, 5] y) '
        "<float[1, 1] three = {3}, float zero = {0}, float six = {6}> "
        "{ a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six) }"
    )
    graph = _loaded(bytes(parser.parse_model(text).SerializeToString()), tmp_path)
    assert "HardSwish" not in {node.op for node in normalize(graph).nodes}
