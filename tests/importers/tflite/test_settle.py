"""Bounds that a file computes from shapes, and shapes that it leaves open, against LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from dovetail.backends.reference import run_graph
from dovetail.errors import LoadError
from dovetail.importers.tflite import load_tflite
from dovetail.ir import AnyArray, DType
from judges.tflite_graphs import LiteSubgraph, Step, build_model, run_lite
from judges.tflite_model import LiteTensor

_OP = schema.BuiltinOperator
_KIND = schema.BuiltinOptions


def _real(name: str, *shape: int, open_at: Sequence[int] = (), kind: str = "") -> LiteTensor:
    """Describe a computed tensor; open sizes are stored as 1, as converters do."""
    stated = tuple(1 if axis in open_at else size for axis, size in enumerate(shape))
    signature = tuple(-1 if axis in open_at else size for axis, size in enumerate(shape)) if open_at else ()
    return LiteTensor(name, DType.F32, stated, kind=kind, signature=signature)


def _ints(name: str, values: Sequence[int] | int) -> LiteTensor:
    array = np.asarray(values, np.int32)
    return LiteTensor(name, DType.I32, array.shape, None, array)


def _slice(source: str, begin: str, end: str, result: str) -> Step:
    return Step(
        _OP.STRIDED_SLICE,
        (source, begin, end, "ones"),
        (result,),
        _KIND.StridedSliceOptions,
        schema.StridedSliceOptionsT(),
    )


def _shape(source: str, result: str) -> Step:
    options = schema.ShapeOptionsT()
    options.outType = schema.TensorType.INT32
    return Step(_OP.SHAPE, (source,), (result,), _KIND.ShapeOptions, options)


def _half() -> bytes:
    """Return a model that takes the first halves of its axes: the bounds are the shape by two."""
    tensors = [
        _real("x", 6, 10),
        LiteTensor("sizes", DType.I32, (2,)),
        LiteTensor("halves", DType.I32, (2,)),
        *(_ints(name, value) for name, value in (("two", 2), ("zeros", [0, 0]), ("ones", [1, 1]))),
        _real("y", 3, 5),
    ]
    steps = [
        _shape("x", "sizes"),
        Step(_OP.FLOOR_DIV, ("sizes", "two"), ("halves",), _KIND.FloorDivOptions, schema.FloorDivOptionsT()),
        _slice("x", "zeros", "halves", "y"),
    ]
    return build_model([LiteSubgraph(tensors, steps, ("x",), ("y",))])


def test_bounds_computed_from_shapes_are_known() -> None:
    x = np.random.default_rng(0).normal(size=(6, 10)).astype(np.float32)
    graph = load_tflite(_half())
    assert [node.op for node in graph.nodes] == ["Slice"]
    assert graph.types["y"].shape == (3, 5)
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], run_lite(_half(), [x])[0])


def test_bounds_that_data_decide_are_refused() -> None:
    tensors = [
        _real("x", 6, 10),
        LiteTensor("end", DType.I32, (2,)),
        *(_ints(name, value) for name, value in (("zeros", [0, 0]), ("ones", [1, 1]))),
        _real("y", 6, 10),
    ]
    content = build_model([LiteSubgraph(tensors, [_slice("x", "zeros", "end", "y")], ("x", "end"), ("y",))])
    with pytest.raises(LoadError, match="bounds are computed at run time"):
        load_tflite(content)


def _padded(rng: np.random.Generator) -> bytes:
    """Return a convolution with SAME behind a cut whose size the file leaves open, and the shape behind it."""
    options = schema.Conv2DOptionsT()
    options.padding, options.strideH, options.strideW, options.dilationHFactor, options.dilationWFactor = 0, 2, 2, 1, 1
    weight, bias = rng.normal(size=(3, 3, 4, 2)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    tensors = [
        _real("x", 1, 9, 7, 2),
        *(_ints(name, value) for name, value in (("begin", [0, 1, 0, 0]), ("one", [0, 1, 1, 0]), ("ones", [1] * 4))),
        *(LiteTensor(name, DType.I32, (4,)) for name in ("sizes", "end", "behind")),
        _real("cut", 1, 8, 6, 2, open_at=(1, 2)),
        LiteTensor("w", DType.F32, weight.shape, None, weight),
        LiteTensor("b", DType.F32, bias.shape, None, bias),
        _real("y", 1, 4, 3, 3, open_at=(1, 2)),
        LiteTensor("later", DType.I32, (4,)),
    ]
    steps = [
        _shape("x", "sizes"),
        Step(_OP.SUB, ("sizes", "one"), ("end",), _KIND.SubOptions, schema.SubOptionsT()),
        _slice("x", "begin", "end", "cut"),
        Step(_OP.CONV_2D, ("cut", "w", "b"), ("y",), _KIND.Conv2DOptions, options),
        _shape("y", "behind"),
        Step(_OP.MUL, ("behind", "ones"), ("later",), _KIND.MulOptions, schema.MulOptionsT()),
    ]
    return build_model([LiteSubgraph(tensors, steps, ("x",), ("y", "later"))])


def test_paddings_and_shapes_go_by_the_sizes_that_the_data_have() -> None:
    """The file states a placeholder of 1 for them, by which SAME pads otherwise and shapes are wrong."""
    rng = np.random.default_rng(1)
    content, x = _padded(rng), rng.normal(size=(1, 9, 7, 2)).astype(np.float32)
    graph = load_tflite(content)
    found = run_graph(graph, {"x": x})
    for name, want in zip(graph.outputs, run_lite(content, [x]), strict=True):
        assert graph.types[name].shape == want.shape
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)


def _spectrum(what: int, width: int, length: int) -> bytes:
    """Return frames `[2, 3, width]` as a part of their spectra."""
    bins = length // 2 + 1
    squeeze = schema.SqueezeOptionsT()
    squeeze.squeezeDims = [2]
    options = {
        _OP.COMPLEX_ABS: (_KIND.NONE, None),
        _OP.REAL: (_KIND.NONE, None),
        _OP.IMAG: (_KIND.NONE, None),
        _OP.CAST: (_KIND.CastOptions, schema.CastOptionsT()),
    }
    tensors = [
        _real("x", 2, 3, width),
        _ints("axis", -2),
        _ints("lengths", [1, length]),
        _real("rows", 2, 3, 1, width),
        _real("complex", 2, 3, 1, bins, kind="COMPLEX64"),
        _real("flat", 2, 3, bins, kind="COMPLEX64"),
        _real("y", 2, 3, bins),
    ]
    steps = [
        Step(_OP.EXPAND_DIMS, ("x", "axis"), ("rows",), _KIND.ExpandDimsOptions, schema.ExpandDimsOptionsT()),
        Step(_OP.RFFT2D, ("rows", "lengths"), ("complex",), _KIND.Rfft2dOptions, schema.Rfft2dOptionsT()),
        Step(_OP.SQUEEZE, ("complex",), ("flat",), _KIND.SqueezeOptions, squeeze),
        Step(what, ("flat",), ("y",), *options[what]),
    ]
    return build_model([LiteSubgraph(tensors, steps, ("x",), ("y",))])


@pytest.mark.parametrize("what", [_OP.COMPLEX_ABS, _OP.REAL, _OP.IMAG, _OP.CAST])
@pytest.mark.parametrize(("width", "length"), [(16, 16), (10, 16), (20, 16), (512, 512)])
def test_spectra_of_rows_are_litert_s(what: int, width: int, length: int) -> None:
    content = _spectrum(what, width, length)
    x = np.random.default_rng(width).normal(size=(2, 3, width)).astype(np.float32)
    (want,) = run_lite(content, [x])
    found = run_graph(load_tflite(content), {"x": x})["y"]
    np.testing.assert_allclose(found, want, rtol=0, atol=2e-6 * float(np.abs(want).max()))


def _unsaid() -> list[tuple[str, bytes]]:
    whole = LiteSubgraph(
        [_real("x", 2, 4), _ints("lengths", [2, 4]), _real("c", 2, 3, kind="COMPLEX64"), _real("y", 2, 3)],
        [
            Step(_OP.RFFT2D, ("x", "lengths"), ("c",), _KIND.Rfft2dOptions, schema.Rfft2dOptionsT()),
            Step(_OP.REAL, ("c",), ("y",)),
        ],
        ("x",),
        ("y",),
    )
    fed = LiteSubgraph(
        [_real("x", 2, 3), _real("y", 2, 3)],
        [Step(_OP.REAL, ("x",), ("y",))],
        ("x",),
        ("y",),
    )
    return [("along two axes", build_model([whole])), ("no transform", build_model([fed]))]


@pytest.mark.parametrize(("words", "content"), _unsaid(), ids=lambda item: item if isinstance(item, str) else "")
def test_other_complex_numbers_are_refused(words: str, content: bytes) -> None:
    with pytest.raises(LoadError, match=words):
        load_tflite(content)


def test_a_folded_output_keeps_its_name() -> None:
    tensors = [_real("x", 3, 4), LiteTensor("sizes", DType.I32, (2,)), _real("y", 3, 4)]
    steps = [_shape("x", "sizes"), Step(_OP.ABS, ("x",), ("y",))]
    graph = load_tflite(build_model([LiteSubgraph(tensors, steps, ("x",), ("y", "sizes"))]))
    assert graph.outputs == ("y", "sizes")
    x: AnyArray = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["sizes"], [3, 4])
