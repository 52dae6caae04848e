"""Several subgraphs: If, While and Call, against LiteRT; the detectors' last operator."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from dovetail.backends.reference import run_graph
from dovetail.errors import LoadError
from dovetail.importers.tflite import load_tflite
from dovetail.ir import AnyArray, DType, Graph, read_tensors
from judges.tflite_graphs import LiteSubgraph, Step, build_model, run_lite
from judges.tflite_model import LiteTensor

_OP = schema.BuiltinOperator
_KIND = schema.BuiltinOptions


def _real(name: str, *shape: int) -> LiteTensor:
    return LiteTensor(name, DType.F32, shape)


def _binary(code: int, value: float) -> LiteSubgraph:
    constant = LiteTensor("c", DType.F32, (), None, np.array(value, np.float32))
    kind, options = (
        (_KIND.AddOptions, schema.AddOptionsT()) if code == _OP.ADD else (_KIND.MulOptions, schema.MulOptionsT())
    )
    return LiteSubgraph(
        [_real("x", 2, 3), constant, _real("y", 2, 3)], [Step(code, ("x", "c"), ("y",), kind, options)], ("x",), ("y",)
    )


def _if_model() -> bytes:
    options = schema.IfOptionsT()
    options.thenSubgraphIndex, options.elseSubgraphIndex = 1, 2
    flag = LiteTensor("flag", DType.BOOL, (1,))
    main = LiteSubgraph(
        [flag, _real("x", 2, 3), _real("y", 2, 3)],
        [Step(_OP.IF, ("flag", "x"), ("y",), _KIND.IfOptions, options)],
        ("flag", "x"),
        ("y",),
    )
    return build_model([main, _binary(_OP.ADD, 3.0), _binary(_OP.MUL, -2.0)])


def _while_model() -> bytes:
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = 1, 2
    number, limit, one = (
        LiteTensor("n", DType.I32, (1,)),
        LiteTensor("limit", DType.I32, (1,), None, np.array([5], np.int32)),
        LiteTensor("one", DType.I32, (1,), None, np.array([1], np.int32)),
    )
    more, doubled = LiteTensor("m", DType.I32, (1,)), _real("z", 2, 3)
    main = LiteSubgraph(
        [number, _real("x", 2, 3), more, _real("y", 2, 3)],
        [Step(_OP.WHILE, ("n", "x"), ("m", "y"), _KIND.WhileOptions, options)],
        ("n", "x"),
        ("m", "y"),
    )
    test = LiteSubgraph(
        [number, _real("x", 2, 3), limit, LiteTensor("go", DType.BOOL, (1,))],
        [Step(_OP.LESS, ("n", "limit"), ("go",))],
        ("n", "x"),
        ("go",),
    )
    steps = [
        Step(_OP.ADD, ("n", "one"), ("m",), _KIND.AddOptions, schema.AddOptionsT()),
        Step(_OP.ADD, ("x", "x"), ("z",), _KIND.AddOptions, schema.AddOptionsT()),
    ]
    body = LiteSubgraph([number, _real("x", 2, 3), one, more, doubled], steps, ("n", "x"), ("m", "z"))
    return build_model([main, test, body])


@pytest.mark.parametrize("flag", [True, False])
def test_if_runs_the_branch_that_litert_runs(flag: bool) -> None:
    content, x = _if_model(), np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = load_tflite(content)
    feeds = [np.array([flag]), x]
    found = run_graph(graph, dict(zip(graph.inputs, feeds, strict=True)))
    np.testing.assert_array_equal(found["y"], run_lite(content, feeds)[0])
    assert "x" in read_tensors(next(node for node in graph.nodes if node.op == "If"))


@pytest.mark.parametrize("start", [0, 3, 9])
def test_while_runs_as_often_as_litert(start: int) -> None:
    content, x = _while_model(), np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = load_tflite(content)
    feeds = [np.array([start], np.int32), x]
    found = run_graph(graph, dict(zip(graph.inputs, feeds, strict=True)))
    for name, want in zip(graph.outputs, run_lite(content, feeds), strict=True):
        np.testing.assert_array_equal(found[name], want)
    (loop,) = (node for node in graph.nodes if node.op == "Loop")
    assert all(isinstance(body, Graph) for body in loop.bodies())


def test_bodies_without_end_are_refused() -> None:
    options = schema.IfOptionsT()
    options.thenSubgraphIndex = options.elseSubgraphIndex = 1
    tensors = [LiteTensor("flag", DType.BOOL, (1,)), _real("x", 2), _real("y", 2)]
    step = Step(_OP.IF, ("flag", "x"), ("y",), _KIND.IfOptions, options)
    main = LiteSubgraph(tensors, [step], ("flag", "x"), ("y",))
    again = LiteSubgraph(
        [tensors[1], LiteTensor("f", DType.BOOL, (1,), None, np.array([True])), tensors[2]],
        [Step(_OP.IF, ("f", "x"), ("y",), _KIND.IfOptions, options)],
        ("x",),
        ("y",),
    )
    with pytest.raises(LoadError, match="deep"):
        load_tflite(build_model([main, again]))


def _post_process(regular: bool) -> tuple[bytes, list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]:
    rows, classes, generator = 12, 3, np.random.default_rng(5)
    corners = generator.uniform(0.2, 0.8, (rows, 4)).astype(np.float32)
    corners[:, 2:] = generator.uniform(0.1, 0.3, (rows, 2))
    options = {
        "max_detections": 5,
        "max_classes_per_detection": 1,
        "detections_per_class": 4,
        "use_regular_nms": regular,
        "num_classes": classes,
        "nms_score_threshold": 0.2,
        "nms_iou_threshold": 0.4,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
    }
    tensors = [
        _real("boxes", 1, rows, 4),
        _real("scores", 1, rows, classes + 1),
        LiteTensor("anchors", DType.F32, (rows, 4), None, corners),
        _real("out_boxes", 1, 5, 4),
        _real("out_classes", 1, 5),
        _real("out_scores", 1, 5),
        _real("count", 1),
    ]
    names = tuple(tensor.name for tensor in tensors)
    step = Step(
        _OP.CUSTOM,
        names[:3],
        names[3:],
        custom_name="TFLite_Detection_PostProcess",
        custom_options=bytes(flexbuffers.Dumps(options)),
    )
    content = build_model([LiteSubgraph(tensors, [step], names[:2], names[3:])])
    boxes = generator.normal(scale=0.5, size=(1, rows, 4)).astype(np.float32)
    scores = generator.uniform(size=(1, rows, classes + 1)).astype(np.float32)
    return content, [boxes, scores]


@pytest.mark.parametrize("regular", [False, True])
def test_detections_are_those_of_litert(regular: bool) -> None:
    content, feeds = _post_process(regular)
    graph = load_tflite(content)
    found = run_graph(graph, dict(zip(graph.inputs, feeds, strict=True)))
    wanted = run_lite(content, feeds)
    count = int(wanted[3][0])
    assert count > 1
    assert int(found["count"][0]) == count
    for name, want in zip(graph.outputs[:3], wanted[:3], strict=True):
        np.testing.assert_allclose(found[name][:, :count], want[:, :count], rtol=1e-5, err_msg=name)


def _inverted(custom: bool, same: bool, strides: tuple[int, int], window: tuple[int, int]) -> tuple[bytes, AnyArray]:
    """Return a transposed convolution with a bias: LiteRT's own operator, or MediaPipe's."""
    rng = np.random.default_rng(7)
    (high, wide), (rows, columns) = strides, window
    sizes = (5 * high, 4 * wide) if same else (4 * high + rows, 3 * wide + columns)
    shape = np.array([1, *sizes, 3], np.int32)
    tensors = [
        _real("x", 1, 5, 4, 2),
        LiteTensor(
            "w", DType.F32, (3, rows, columns, 2), None, rng.normal(size=(3, rows, columns, 2)).astype(np.float32)
        ),
        LiteTensor("b", DType.F32, (3,), None, rng.normal(size=3).astype(np.float32)),
        LiteTensor("shape", DType.I32, (4,), None, shape),
        _real("y", 1, *sizes, 3),
    ]
    options = schema.TransposeConvOptionsT()
    options.padding, options.strideW, options.strideH = int(not same), wide, high
    if custom:
        stated = np.array([1 if same else 2, wide, high], "<i4").tobytes()
        name = "Convolution2DTransposeBias"
        step = Step(_OP.CUSTOM, ("x", "w", "b"), ("y",), custom_name=name, custom_options=stated)
        tensors = [tensor for tensor in tensors if tensor.name != "shape"]
    else:
        step = Step(_OP.TRANSPOSE_CONV, ("shape", "w", "x", "b"), ("y",), _KIND.TransposeConvOptions, options)
    return build_model([LiteSubgraph(tensors, [step], ("x",), ("y",))]), rng.normal(size=(1, 5, 4, 2)).astype(
        np.float32
    )


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("strides", "window"), [((2, 2), (2, 2)), ((2, 2), (3, 3)), ((1, 2), (4, 4)), ((3, 2), (3, 5))]
)
def test_mediapipes_transposed_convolution_is_the_builtin_one(
    same: bool, strides: tuple[int, int], window: tuple[int, int]
) -> None:
    builtin, x = _inverted(False, same, strides, window)
    graph = load_tflite(_inverted(True, same, strides, window)[0])
    (wanted,) = run_lite(builtin, [x])
    np.testing.assert_allclose(run_graph(graph, {graph.inputs[0]: x})[graph.outputs[0]], wanted, rtol=1e-4, atol=1e-5)


def test_damaged_options_of_a_custom_operator_are_refused() -> None:
    content, _ = _inverted(True, True, (2, 2), (2, 2))
    stated = np.array([1, 2, 2], "<i4").tobytes()
    assert content.count(stated) == 1
    with pytest.raises(LoadError):
        load_tflite(content.replace(stated, np.array([1, 0, -1], "<i4").tobytes()))
