"""Variables that TFLite keeps between calls: states that come in and go out, against LiteRT call by call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from dovetail.backends.reference import run_graph
from dovetail.errors import LoadError
from dovetail.importers.options import LoadOptions
from dovetail.importers.survey import survey_tflite
from dovetail.importers.tflite import load_tflite
from dovetail.importers.tflite.reader import read_model
from dovetail.ir import AnyArray, DType, Quantization
from judges.tflite_graphs import LiteSubgraph, Step, build_model
from judges.tflite_model import LiteTensor

_OP = schema.BuiltinOperator
_KIND = schema.BuiltinOptions
_BYTES = Quantization((0.5,), (-3,))


def _real(name: str, *shape: int) -> LiteTensor:
    return LiteTensor(name, DType.F32, shape)


def _resource(name: str) -> LiteTensor:
    return LiteTensor(name, DType.I32, (), kind="RESOURCE")


def _handle(name: str, variable: str) -> Step:
    options = schema.VarHandleOptionsT()
    options.container, options.sharedName = "", variable
    return Step(_OP.VAR_HANDLE, (), (name,), _KIND.VarHandleOptions, options)


def _once(subgraph: int) -> Step:
    options = schema.CallOnceOptionsT()
    options.initSubgraphIndex = subgraph
    return Step(_OP.CALL_ONCE, (), (), _KIND.CallOnceOptions, options)


def _read(handle: str, tensor: str) -> Step:
    return Step(_OP.READ_VARIABLE, (handle,), (tensor,), _KIND.ReadVariableOptions, schema.ReadVariableOptionsT())


def _assign(handle: str, tensor: str) -> Step:
    return Step(_OP.ASSIGN_VARIABLE, (handle, tensor), (), _KIND.AssignVariableOptions, schema.AssignVariableOptionsT())


def _add(first: str, second: str, total: str) -> Step:
    return Step(_OP.ADD, (first, second), (total,), _KIND.AddOptions, schema.AddOptionsT())


def _begin(values: dict[str, AnyArray], more: Sequence[Step] = ()) -> LiteSubgraph:
    """Return a subgraph that gives variables their first values."""
    tensors: list[LiteTensor] = []
    steps: list[Step] = list(more)
    for name, value in values.items():
        dtype = DType.I8 if value.dtype == np.int8 else DType.F32
        quant = _BYTES if dtype is DType.I8 else None
        tensors += [_resource(f"h_{name}"), LiteTensor(f"v_{name}", dtype, value.shape, quant, value)]
        steps += [_handle(f"h_{name}", name), _assign(f"h_{name}", f"v_{name}")]
    return LiteSubgraph(tensors, steps, (), ())


def _running(first: AnyArray, scale: AnyArray) -> bytes:
    """Return a model that adds up what it is given, times a variable that nothing changes."""
    tensors = [
        _real("x", 2, 3),
        _resource("sum"),
        _resource("by"),
        *(_real(name, 2, 3) for name in ("old", "new", "factor", "y")),
    ]
    steps = [
        _once(1),
        _handle("sum", "running/total"),
        _handle("by", "factor"),
        _read("sum", "old"),
        _add("old", "x", "new"),
        _assign("sum", "new"),
        _read("by", "factor"),
        Step(_OP.MUL, ("new", "factor"), ("y",), _KIND.MulOptions, schema.MulOptionsT()),
    ]
    begin = _begin({"running/total": first, "factor": scale})
    return build_model([LiteSubgraph(tensors, steps, ("x",), ("y",)), begin])


def _window() -> bytes:
    """Return a streaming model in bytes: the last two of three frames are kept."""
    options = schema.ConcatenationOptionsT()
    options.axis = 1
    cut = schema.StridedSliceOptionsT()
    cut.beginMask, cut.endMask = 1, 3
    tensors = [
        LiteTensor("x", DType.I8, (1, 1), _BYTES),
        _resource("h"),
        LiteTensor("kept", DType.I8, (1, 2), _BYTES),
        LiteTensor("frames", DType.I8, (1, 3), _BYTES),
        LiteTensor("later", DType.I8, (1, 2), _BYTES),
        *(
            LiteTensor(name, DType.I32, (2,), None, np.array(value, np.int32))
            for name, value in (("begin", [0, -2]), ("end", [0, 0]), ("by", [1, 1]))
        ),
    ]
    steps = [
        _once(1),
        _handle("h", "stream/states"),
        _read("h", "kept"),
        Step(_OP.CONCATENATION, ("kept", "x"), ("frames",), _KIND.ConcatenationOptions, options),
        Step(_OP.STRIDED_SLICE, ("frames", "begin", "end", "by"), ("later",), _KIND.StridedSliceOptions, cut),
        _assign("h", "later"),
    ]
    begin = _begin({"stream/states": np.array([[-3, 7]], np.int8)})
    return build_model([LiteSubgraph(tensors, steps, ("x",), ("frames",)), begin])


def _streamed(content: bytes, calls: Sequence[AnyArray]) -> list[AnyArray]:
    """Return what LiteRT gives call by call."""
    runner = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    runner.allocate_tensors()
    found: list[AnyArray] = []
    for x in calls:
        runner.set_tensor(runner.get_input_details()[0]["index"], x)
        runner.invoke()
        found.append(np.array(runner.get_tensor(runner.get_output_details()[0]["index"])))
    return found


def test_a_total_goes_out_and_comes_in_again() -> None:
    rng = np.random.default_rng(0)
    first, scale = (rng.normal(size=(2, 3)).astype(np.float32) for _ in range(2))
    content = _running(first, scale)
    graph = load_tflite(content)
    # The factor is assigned in the beginning only: it is a constant.
    assert graph.inputs == ("x", "running/total")
    assert graph.outputs == ("y", "running/total/next")
    calls = [rng.normal(size=(2, 3)).astype(np.float32) for _ in range(5)]
    state = first
    for x, want in zip(calls, _streamed(content, calls), strict=True):
        found = run_graph(graph, {"x": x, "running/total": state})
        np.testing.assert_allclose(found["y"], want, rtol=1e-6)
        state = found["running/total/next"]


def test_bytes_keep_their_scale() -> None:
    content = _window()
    graph = load_tflite(content)
    assert graph.inputs == ("x", "stream/states")
    assert graph.types["stream/states"] == graph.types["stream/states/next"]
    assert graph.types["stream/states"].quant == _BYTES
    calls = [np.array([[value]], np.int8) for value in (1, -5, 100, -128)]
    state = np.array([[-3, 7]], np.int8)
    for x, want in zip(calls, _streamed(content, calls), strict=True):
        found = run_graph(graph, {"x": x, "stream/states": state})
        np.testing.assert_array_equal(found["frames"], want)
        state = found["stream/states/next"]


def test_the_survey_says_what_goes_back_in() -> None:
    found = survey_tflite(read_model(_window(), LoadOptions()))
    assert not found.unsupported
    (note,) = found.notes
    assert "'stream/states/next'" in note
    assert "goes back in" in note
    zeros = np.zeros((2, 3), np.float32)
    (note,) = survey_tflite(read_model(_running(zeros, zeros), LoadOptions())).notes
    assert "all hold 0.0 at first" in note


def _broken(kind: str) -> bytes:
    tensors = [_real("x", 2), _resource("h"), _real("old", 2), _real("y", 2), _real("z", 2, 1)]
    start = np.zeros(3 if kind == "shape" else 2, np.float32)
    steps = [_once(1), _handle("h", "s"), _read("h", "old"), _add("old", "x", "y")]
    begin = _begin({"s": start})
    if kind == "handle":
        steps.pop(1)
    if kind == "left":
        steps.append(_assign("h", "z"))
        steps.insert(0, Step(_OP.EXPAND_DIMS, ("x", "axis"), ("z",)))
        tensors.append(LiteTensor("axis", DType.I32, (1,), None, np.array([1], np.int32)))
    if kind == "options":
        steps[0] = Step(_OP.CALL_ONCE, (), (), _KIND.AddOptions, schema.AddOptionsT())
    if kind == "name":
        steps[1] = Step(_OP.VAR_HANDLE, (), ("h",), _KIND.AddOptions, schema.AddOptionsT())
        begin = _begin({"variable": start})
        tensors[2] = _real("old", 2, 1)
    if kind == "index":
        steps[0] = _once(7)
    if kind == "computed":
        begin = LiteSubgraph([*begin.tensors, _real("twice", 2)], [_add("v_s", "v_s", "twice"), *begin.steps], (), ())
    return build_model([LiteSubgraph(tensors, steps, ("x",), ("y",)), begin])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("handle", "no VAR_HANDLE"),
        ("shape", r"begins with the shape \[3\]"),
        ("left", "comes in as .* left as"),
        ("index", "subgraph 7 of 2"),
        ("options", "contradict"),
        ("name", "begins with the shape"),
        ("computed", r"is computed \(ADD\)"),
    ],
)
def test_what_cannot_be_said_is_refused(kind: str, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        load_tflite(_broken(kind))


def test_a_state_inside_a_body_is_refused() -> None:
    options = schema.IfOptionsT()
    options.thenSubgraphIndex = options.elseSubgraphIndex = 1
    step = Step(_OP.IF, ("flag", "x"), ("y",), _KIND.IfOptions, options)
    main = LiteSubgraph(
        [LiteTensor("flag", DType.BOOL, (1,)), _real("x", 2), _real("y", 2)], [step], ("flag", "x"), ("y",)
    )
    body = LiteSubgraph(
        [_real("x", 2), _resource("h"), _real("old", 2), _real("y", 2)],
        [_handle("h", "s"), _read("h", "old"), _add("old", "x", "y")],
        ("x",),
        ("y",),
    )
    with pytest.raises(LoadError, match="inside a body of control flow"):
        load_tflite(build_model([main, body]))
