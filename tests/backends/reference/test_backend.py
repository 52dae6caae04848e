"""The plug-in: compiling, refusing, running, tapping, damaged blobs, control flow."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.arithmetic import Arithmetic, Rounding, Tie, ZeroPointOrder
from dovetail.backend.protocols import Blob, CompileOptions, Signature
from dovetail.backend.target import TargetProfile
from dovetail.backends.reference import REFERENCE, backend
from dovetail.backends.reference.blob import FORMAT, program_from_bytes
from dovetail.backends.reference.kernels import KERNELS
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, parse_graph
from dovetail.ir.precision import Precision

TEXT = """
graph "main" opset 21
input "x": f32["N", 4]
constant "w": f32[4, 2] = base64 "AACAPwAAAAAAAAAAAACAPwAAgD8AAAAAAAAAAAAAgD8="
"m" = MatMul("x", "w") -> ("h": f32["N", 2])
"r" = Relu("h") -> ("y": f32["N", 2])
output "y"
end
"""


def _signature(graph: Graph) -> Signature:
    return Signature.of(graph)


def _one(op: str, domain: str = "", **attributes: object) -> Graph:
    kinds = {"x": TensorType(DType.F32, (2, 3)), "y": TensorType(DType.F32, None)}
    return Graph("g", (Node("n", op, ("x",), ("y",), attributes, domain),), ("x",), ("y",), kinds)


def test_runs_and_taps_any_tensor() -> None:
    graph = parse_graph(TEXT.strip())
    device = backend.devices()[0]
    executable = device.load(backend.compile(graph, REFERENCE, CompileOptions()), _signature(graph))
    x = np.array([[1, 2, 3, -9]], np.float32)
    found = executable.run({"x": x}, taps=("h", "w", "x"))
    assert found["h"].tolist() == [[4, -7]]
    assert found["y"].tolist() == [[4, 0]]
    assert found["w"].shape == (4, 2)
    assert found["x"] is x
    executable.close()
    executable.close()


def test_compiled_bytes_are_deterministic_and_carry_the_target() -> None:
    graph = parse_graph(TEXT.strip())
    for target in (*VSI_PROFILES, REFERENCE):
        blob = backend.compile(graph, target, CompileOptions())
        assert blob == backend.compile(graph, target, CompileOptions())
        program = program_from_bytes(blob.payload)
        assert program.target == target.name
        assert program.graph == graph
        assert (program.arithmetic.default, program.arithmetic.multiplier_bits, dict(program.arithmetic.by_op)) == (
            target.arithmetic.default,
            target.arithmetic.multiplier_bits,
            dict(target.arithmetic.by_op),
        )
        assert backend.devices()[0].accepts(target.name)


def test_another_target_runs_with_its_own_rounding() -> None:
    source = TensorType(DType.I8, (3,), Quantization((1.0,), (0,)))
    result = TensorType(DType.I8, (3,), Quantization((2.0,), (0,)))
    node = Node("n", "Neg", ("x",), ("y",))
    graph = Graph("g", (node,), ("x",), ("y",), {"x": source, "y": result})
    rules = Arithmetic(by_op={("Neg", DType.I8): Rounding(Tie.AWAY, ZeroPointOrder.BEFORE)})
    target = TargetProfile("made-up", "", tuple(Precision), (), rules)
    device = backend.devices()[0]
    x = np.array([1, 3, -1], np.int8)
    away = device.load(backend.compile(graph, target, CompileOptions()), _signature(graph)).run({"x": x})
    even = device.load(backend.compile(graph, REFERENCE, CompileOptions()), _signature(graph)).run({"x": x})
    assert away["y"].tolist() == [-1, -2, 1]
    assert even["y"].tolist() == [0, -2, 0]


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (_one("NoSuchThing"), "there is no kernel for it"),
        (_one("Relu", "com.example"), "domain 'com.example' is not known"),
        (_one("Pad", mode="mirror"), "mode='mirror'"),
        (_one("LSTM", activations=("Sigmoid", "Wave", "Tanh")), "'Wave'"),
    ],
)
def test_refuses_when_compiling(graph: Graph, reason: str) -> None:
    with pytest.raises(CompileError, match=reason) as raised:
        backend.compile(graph, REFERENCE, CompileOptions())
    assert "node 'n'" in str(raised.value)
    verdict = REFERENCE.verdict(graph, graph.nodes[0], Precision.FP32)
    assert not verdict.supported
    assert reason in verdict.reason or "the target has no operator" in verdict.reason


def test_refuses_scales_that_do_not_follow_the_output_channels() -> None:
    data = TensorType(DType.I8, (2, 3), Quantization((0.1,), (0,)))
    weight = TensorType(DType.I8, (3, 4), Quantization((0.1, 0.2, 0.3), (0, 0, 0), axis=0))
    kinds = {"x": data, "w": weight, "y": TensorType(DType.I8, (2, 4), Quantization((0.1,), (0,)))}
    graph = Graph("g", (Node("n", "MatMul", ("x", "w"), ("y",)),), ("x", "w"), ("y",), kinds)
    with pytest.raises(CompileError, match="scales along axis 0, not along its output channels"):
        backend.compile(graph, REFERENCE, CompileOptions())


def test_reference_supports_its_kernels_at_every_precision() -> None:
    assert len(KERNELS) >= 140
    graph = _one("Sigmoid")
    assert all(REFERENCE.verdict(graph, graph.nodes[0], precision).supported for precision in Precision)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({}, "'x' is missing"),
        ({"x": np.zeros((1, 4))}, "float64"),
        ({"x": np.zeros((1, 5), np.float32)}, "5"),
        ({"x": np.zeros(4, np.float32)}, "'x'"),
    ],
)
def test_wrong_inputs_are_told(inputs: dict[str, np.ndarray], reason: str) -> None:
    graph = parse_graph(TEXT.strip())
    executable = backend.devices()[0].load(backend.compile(graph, REFERENCE, CompileOptions()), _signature(graph))
    with pytest.raises(DeviceError, match=reason):
        executable.run(inputs)


def test_unknown_tap_and_run_time_failure_are_told() -> None:
    graph = parse_graph(TEXT.strip())
    executable = backend.devices()[0].load(backend.compile(graph, REFERENCE, CompileOptions()), _signature(graph))
    with pytest.raises(DeviceError, match="no tensor 'z' to tap"):
        executable.run({"x": np.zeros((1, 4), np.float32)}, taps=("z",))
    kinds = {"x": TensorType(DType.F32, None), "i": TensorType(DType.I64, None), "y": TensorType(DType.F32, None)}
    graph = Graph("g", (Node("pick", "Gather", ("x", "i"), ("y",)),), ("x", "i"), ("y",), kinds)
    executable = backend.devices()[0].load(backend.compile(graph, REFERENCE, CompileOptions()), _signature(graph))
    with pytest.raises(DeviceError, match=r"node 'pick' \(Gather\): cannot run on these values"):
        executable.run({"x": np.zeros(3, np.float32), "i": np.array([7])})


def test_other_formats_and_signatures_are_refused() -> None:
    graph = parse_graph(TEXT.strip())
    blob = backend.compile(graph, REFERENCE, CompileOptions())
    device = backend.devices()[0]
    with pytest.raises(DeviceError, match="format"):
        device.load(Blob("something", blob.payload), _signature(graph))
    with pytest.raises(DeviceError, match="inputs"):
        device.load(blob, Signature({}, {"y": graph.types["y"]}))


@given(st.data())
def test_damaged_blobs_never_escape_as_other_errors(data: st.DataObject) -> None:
    payload = bytearray(backend.compile(parse_graph(TEXT.strip()), REFERENCE, CompileOptions()).payload)
    if data.draw(st.booleans()):
        payload = payload[: data.draw(st.integers(0, len(payload) - 1))]
    else:
        place = data.draw(st.integers(0, len(payload) - 1))
        payload[place] = data.draw(st.integers(0, 255))
    graph = parse_graph(TEXT.strip())
    with contextlib.suppress(DeviceError):
        backend.devices()[0].load(Blob(FORMAT, bytes(payload)), _signature(graph))


def _add(names: tuple[str, str], result: str) -> Node:
    return Node(f"add_{result}", "Add", names, (result,))


def test_loop_counts_carries_and_collects() -> None:
    scalar, flag, number = TensorType(DType.F32, ()), TensorType(DType.BOOL, ()), TensorType(DType.I64, ())
    body = Graph(
        "body",
        (
            _add(("v", "step"), "next"),
            Node("id", "Identity", ("c",), ("go",)),
            Node("k", "Identity", ("next",), ("s",)),
        ),
        ("i", "c", "v"),
        ("go", "next", "s"),
        {"i": number, "c": flag, "v": scalar, "next": scalar, "go": flag, "s": scalar, "step": scalar},
        captures=("step",),
    )
    node = Node("loop", "Loop", ("trips", "", "v0"), ("last", "all"), {"body": body})
    kinds = {"trips": number, "v0": scalar, "step": scalar, "last": scalar, "all": TensorType(DType.F32, (None,))}
    graph = Graph("g", (node,), ("trips", "v0", "step"), ("last", "all"), kinds)
    executable = backend.devices()[0].load(backend.compile(graph, REFERENCE, CompileOptions()), _signature(graph))
    feed = {"trips": np.array(3), "v0": np.array(1, np.float32), "step": np.array(2, np.float32)}
    found = executable.run(feed)
    assert found["last"] == 7
    assert found["all"].tolist() == [3, 5, 7]
    assert executable.run(feed | {"trips": np.array(0)})["all"].shape == (0,)


def test_a_body_with_an_unknown_operator_is_refused_when_compiling() -> None:
    kind, flag = TensorType(DType.F32, (2,)), TensorType(DType.BOOL, ())
    branch = Graph("b", (Node("odd", "Oddity", ("x",), ("z",)),), (), ("z",), {"x": kind, "z": kind}, captures=("x",))
    node = Node("if", "If", ("c",), ("y",), {"then_branch": branch, "else_branch": branch})
    graph = Graph("g", (node,), ("c", "x"), ("y",), {"c": flag, "x": kind, "y": kind})
    with pytest.raises(CompileError, match=r"its body holds node 'odd' \(Oddity\)"):
        backend.compile(graph, REFERENCE, CompileOptions())
