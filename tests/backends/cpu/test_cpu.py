"""The CPU backend: what it supports, that its sums do not saturate, and what it needs at run time."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.cpu import backend
from dovetail.backends.cpu.target import CPU
from dovetail.backends.sessions import read_metadata
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, parse_graph, quantize_array, save_graph
from dovetail.ir.precision import Precision
from dovetail.testing.agreement import load_on

OPTIONS = CompileOptions(threads=1)


def saturating() -> Graph:
    """Return a u8 x s8 product whose pairwise sums pass 32767, as unsigned bytes of 255 and weights of 127 do."""
    types = {
        "x": TensorType(DType.U8, ("N", 64), Quantization((1.0,), (0,))),
        "w": TensorType(DType.I8, (64, 8), Quantization((1.0,), (0,))),
        "y": TensorType(DType.U8, ("N", 8), Quantization((16384.0,), (0,))),
    }
    node = Node("product", "MatMul", ("x", "w"), ("y",))
    return Graph("g", (node,), ("x",), ("y",), types, {"w": np.full((64, 8), 127, np.int8)})


def test_a_scalar_stays_a_scalar_where_outputs_are_written_in_place() -> None:
    types = {"rate": TensorType(DType.I64, ()), "real": TensorType(DType.F32, ())}
    graph = Graph("g", (Node("cast", "Cast", ("rate",), ("real",), {"to": 1}),), ("rate",), ("real",), types, {})
    loaded = load_on(backend, graph, CPU, OPTIONS)
    in_place = loaded.abilities().in_place
    assert in_place is not None
    for rate in (16000, 8000):
        written = in_place.empty("real", None)
        in_place.run({"rate": np.array(rate, np.int64)}, {"real": written})
        assert written.shape == ()
        assert float(written) == rate


def test_sums_do_not_saturate() -> None:
    found = load_on(backend, saturating(), CPU, OPTIONS).run({"x": np.full((3, 64), 255, np.uint8)})["y"]
    assert np.all(found == round(64 * 255 * 127 / 16384))


@pytest.mark.parametrize("zero", [-128, 0, 5])
def test_readers_share_a_constant_whose_zero_point_is_any(zero: int) -> None:
    """The grid of a detector's places is subtracted from and added to; the sums are compared with sums by hand."""
    step = Quantization((0.5,), (3,))
    types = {
        **dict.fromkeys(("x", "minus", "plus"), TensorType(DType.I8, ("N", 8), step)),
        "grid": TensorType(DType.I8, (8,), Quantization((0.5,), (zero,))),
    }
    nodes = (
        Node("before", "Sub", ("grid", "x"), ("minus",)),
        Node("behind", "Add", ("grid", "x"), ("plus",)),
    )
    grid = np.linspace(-128, 127, 8).astype(np.int8)
    graph = Graph("g", nodes, ("x",), ("minus", "plus"), types, {"grid": grid})
    x = np.arange(-12, 12, dtype=np.int8).reshape(3, 8)
    found = load_on(backend, graph, CPU, OPTIONS).run({"x": x})
    places, real = (grid.astype(float) - zero) * 0.5, (x.astype(float) - 3) * 0.5
    for name, exact in (("minus", places - real), ("plus", places + real)):
        assert np.array_equal(found[name], np.clip(np.rint(exact / 0.5) + 3, -128, 127).astype(np.int8))


@pytest.mark.parametrize(
    ("precision", "supported"),
    [
        (Precision.FP32, True),
        (Precision.U8, True),
        (Precision.I8PC, True),
        (Precision.I16, False),
        (Precision.FP16, False),
    ],
)
def test_precisions(precision: Precision, supported: bool) -> None:
    graph = parse_graph('graph "g" opset 21\ninput "x": f32[3]\n"n" = Sigmoid("x") -> ("y": f32[3])\noutput "y"\nend\n')
    verdict = CPU.verdict(graph, graph.nodes[0], precision)
    assert verdict.supported is supported
    if precision is Precision.I16:
        assert "no 16-bit integer kernels" in verdict.reason


@pytest.mark.parametrize("move", ["Transpose", "Reshape"])
def test_reals_of_int8_that_are_moved_reach_a_float_operator(move: str) -> None:
    types = {
        "x": TensorType(DType.I8, (3, 4), Quantization((0.1,), (-3,))),
        "shape": TensorType(DType.I64, (2,)),
        "r": TensorType(DType.F32, (3, 4)),
        "m": TensorType(DType.F32, (4, 3)),
        "y": TensorType(DType.F32, (4, 3)),
    }
    nodes = (
        Node("back", "DequantizeLinear", ("x",), ("r",)),
        Node("move", move, ("r",) if move == "Transpose" else ("r", "shape"), ("m",), {}),
        Node("end", "Erf", ("m",), ("y",)),
    )
    graph = Graph("g", nodes, ("x",), ("y",), types, {"shape": np.array([4, 3])})
    x = np.arange(12, dtype=np.int8).reshape(3, 4)
    real = (x.astype(np.float64) + 3) * 0.1
    moved = real.T if move == "Transpose" else real.reshape(4, 3)
    found = load_on(backend, graph, CPU, OPTIONS).run({"x": x})["y"]
    np.testing.assert_allclose(found, [[math.erf(value) for value in row] for row in moved], rtol=1e-5)


def test_shapes_run_in_float_only() -> None:
    graph = parse_graph('graph "g" opset 21\ninput "x": f32[3]\n"n" = Shape("x") -> ("y": i64[1])\noutput "y"\nend\n')
    assert CPU.verdict(graph, graph.nodes[0], Precision.FP32).supported
    assert not CPU.verdict(graph, graph.nodes[0], Precision.U8).supported


def test_a_bad_graph_is_refused_in_one_line() -> None:
    kinds = {"x": TensorType(DType.F32, (3,)), "y": TensorType(DType.F32, (3,))}
    graph = Graph("g", (Node("n", "NoSuchOperator", ("x",), ("y",)),), ("x",), ("y",), kinds)
    with pytest.raises(CompileError) as caught:
        backend.compile(graph, CPU, OPTIONS)
    assert "\n" not in str(caught.value)


def test_inner_tensors_can_be_tapped() -> None:
    quant = Quantization((0.5,), (3,))
    kinds = {"x": TensorType(DType.F32, (4,)), "q": TensorType(DType.U8, (4,), quant), "y": TensorType(DType.F32, (4,))}
    nodes = (Node("q", "QuantizeLinear", ("x",), ("q",)), Node("d", "DequantizeLinear", ("q",), ("y",)))
    graph = Graph("g", nodes, ("x",), ("y",), kinds)
    sample = np.array([-9.0, 0.24, 0.26, 300.0], np.float32)
    found = load_on(backend, graph, CPU, OPTIONS).run({"x": sample}, ("q", "x"))
    np.testing.assert_array_equal(found["q"], quantize_array(sample, DType.U8, quant))
    np.testing.assert_array_equal(found["x"], sample)


def test_running_needs_no_onnx(tmp_path: Path) -> None:
    blob = backend.compile(saturating(), CPU, OPTIONS)
    (tmp_path / "model.onnx").write_bytes(blob.payload)
    save_graph(saturating(), tmp_path / "graph")
    script = """
import sys, numpy as np
sys.modules["onnx"] = None
from pathlib import Path
from dovetail.backend.protocols import Blob, Signature
from dovetail.backends.cpu import backend
from dovetail.errors import DeviceError
from dovetail.ir import load_graph
types = load_graph(Path(sys.argv[1]) / "graph").types
blob = Blob("onnx", (Path(sys.argv[1]) / "model.onnx").read_bytes())
ready = backend.devices()[0].load(blob, Signature({"x": types["x"]}, {"y": types["y"]}))
sample = {"x": np.zeros((1, 64), np.uint8)}
print(ready.run(sample)["y"].shape)
try:
    ready.run(sample, ("inside",))
except DeviceError as error:
    print(error)
"""
    run = [sys.executable, "-c", script, str(tmp_path)]
    output = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert "(1, 8)" in output
    assert "Install the onnx package" in output


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=300), max_size=4))
def test_metadata_is_read_as_onnx_writes_it(facts: dict[str, str]) -> None:
    model = onnx.ModelProto(ir_version=10, producer_name="x" * 200)
    model.graph.name = "g"
    for key, value in facts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    assert read_metadata(model.SerializeToString()) == facts


@given(st.binary(max_size=60))
def test_garbage_is_no_metadata(data: bytes) -> None:
    try:
        found = read_metadata(data)
    except ValueError:
        return
    assert all(isinstance(value, str) for value in found.values())


def test_a_wrong_blob_is_a_device_error() -> None:
    from dovetail.backend.protocols import Blob, Signature

    with pytest.raises(DeviceError, match="Compile the model again"):
        backend.devices()[0].load(Blob("onnx", b"\x08\x0a"), Signature({}, {}))
