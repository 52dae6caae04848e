"""The exact simulation as a plug-in: blobs, taps, memory and control over threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.protocols import Blob, CompileOptions, Fidelity, Signature
from dovetail.backends.npusim import backend
from dovetail.backends.verisilicon.emulator.executable import build_steps
from dovetail.backends.verisilicon.emulator.matrix import multiply
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import DType, Graph, Node, TensorType, parse_graph
from dovetail.testing.agreement import load_on

V853 = next(profile for profile in VSI_PROFILES if profile.name == "vsi:v853")
TEXT = """graph "g" opset 21
input "x": u8["N", 4] q(scale=[0.5], zero=[10])
"a" = Relu("x") -> ("a": u8["N", 4] q(scale=[0.5], zero=[10]))
"b" = Sigmoid("a") -> ("b": u8["N", 4] q(scale=[0.00390625], zero=[0]))
"c" = Add("a", "b") -> ("c": u8["N", 4] q(scale=[0.25], zero=[3]))
output "c"
end
"""
GRAPH = parse_graph(TEXT)
SAMPLE = {"x": np.array([[0, 10, 12, 255]], np.uint8)}


def test_taps_are_the_stored_tensors() -> None:
    found = load_on(backend, GRAPH, V853, CompileOptions()).run(SAMPLE, ("a", "b", "x"))
    assert list(found) == ["c", "a", "b", "x"]
    assert found["a"].tolist() == [[10, 10, 12, 255]]
    wanted = np.rint(256.0 / (1.0 + np.exp(-(found["a"].astype(float) - 10) * 0.5))).clip(0, 255)
    np.testing.assert_array_equal(found["b"], wanted)


def test_tensors_die_after_their_last_use() -> None:
    program = lower_graph(GRAPH, part_of(V853))
    names = {tensor: name for name, tensor in (*program.inputs, *program.inner, *program.outputs)}
    dying = [{names[tensor] for tensor in step.dying} for step in build_steps(program)]
    assert dying == [{"x"}, set(), {"a", "b", "c"}]


def test_a_closed_executable_says_so() -> None:
    executable = load_on(backend, GRAPH, V853, CompileOptions())
    executable.close()
    with pytest.raises(DeviceError, match="closed"):
        executable.run(SAMPLE)


def test_a_refused_node_is_named() -> None:
    kind = TensorType(DType.F32, (1, 2))
    graph = Graph("g", (Node("odd one", "NonZero", ("x",), ("y",)),), ("x",), ("y",), {"x": kind, "y": kind})
    with pytest.raises(CompileError) as caught:
        backend.compile(graph, V853, CompileOptions())
    assert str(caught.value).startswith("node 'odd one' (NonZero): vsi:v853 cannot run it: the shape of its output")


@given(st.data())
def test_damaged_blobs_raise_nothing_but_device_errors(data: st.DataObject) -> None:
    blob = backend.compile(GRAPH, V853, CompileOptions(Fidelity.EXACT))
    payload = bytearray(blob.payload)
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    message = ""
    try:
        backend.devices()[0].load(Blob(blob.format, bytes(payload)), Signature.of(GRAPH))
    except DeviceError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize("scale", [b"0.0", b"-0.5", b"1e-300", b"1e300", b"1e-45"])
def test_a_scale_that_nothing_can_be_divided_by_is_damage(scale: bytes) -> None:
    """Nought, or what is nought or infinite in float32."""
    blob = backend.compile(GRAPH, V853, CompileOptions(Fidelity.EXACT))
    payload = blob.payload.replace(b"0.00390625", scale.ljust(10))
    assert payload != blob.payload
    message = ""
    try:
        backend.devices()[0].load(Blob(blob.format, payload), Signature.of(GRAPH)).run(SAMPLE)
    except DeviceError as error:
        message = str(error)
    assert "\n" not in message
    assert bool(message) == (float(scale) == 0.0)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_products(kind: type[np.generic]) -> None:
    generator = np.random.default_rng(0)
    left = generator.integers(-50, 50, (2, 1, 5, 7)).astype(kind)
    right = generator.integers(-50, 50, (3, 7, 4)).astype(kind)
    np.testing.assert_array_equal(multiply(left, right, 1), np.einsum("abij,cjk->acik", left, right))
    assert multiply(left[:0], right, 1).shape == (0, 3, 5, 4)
