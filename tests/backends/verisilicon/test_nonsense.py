"""Nonsense graphs: a result or one line of reason; no hang, no crash of ours, nothing left behind."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backends.verisilicon.driver.process import DriverLimits
from dovetail.backends.verisilicon.driver.session import Settings, VendorSession
from dovetail.backends.verisilicon.lowering.table import LOWERINGS, lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.plugin import BlobForm, VsiBackend
from dovetail.backends.verisilicon.program import Code
from dovetail.errors import CompileError, DeviceError, GraphError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.cases import CASES, quantized

from .conftest import check_one_line, target_named, traces

LIMITS = DriverLimits(compile_s=4.0, run_s=4.0)
EXAMPLES = int(os.environ.get("DOVETAIL_NONSENSE", "100"))
"""How many graphs: a slice by default; 1000 takes some minutes."""
SPOILT = ("Conv", "Conv.depthwise", "Gemm", "Pad", "Slice", "Transpose", "Concat", "DepthToSpace", "Softmax", "Relu")

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)
small = st.integers(-2, 40)
axes = st.lists(small, min_size=0, max_size=4).map(tuple)
OPS = (*sorted(LOWERINGS), "NoSuchOperator")


@st.composite
def kinds(draw: st.DrawFn) -> TensorType:
    dtype = draw(st.sampled_from([DType.U8, DType.U8, DType.I8, DType.I16, DType.F32, DType.I32, DType.BOOL]))
    shape = draw(st.one_of(sizes, st.tuples(st.just(1), st.integers(1, 6), st.integers(1, 9), st.integers(1, 9))))
    if dtype not in (DType.U8, DType.I8, DType.I16):
        return TensorType(dtype, shape)
    scale = draw(st.sampled_from([2.0**-4, 1e-30, 3.0e38, float(np.float32(0.05)), 2.0**-140]))
    zero = 0 if dtype is DType.I16 else draw(st.integers(*dtype.integer_range))
    return TensorType(dtype, shape, Quantization((scale,), (zero,)))


@st.composite
def graphs_of_nonsense(draw: st.DrawFn) -> Graph | None:
    """Return one or two nodes that fit together only by accident, or None where not even a Graph can be made."""
    types: dict[str, TensorType] = {"x": draw(kinds())}
    constants = {}
    for name in ("w", "b"):
        types[name] = draw(kinds())
        shape = types[name].static_shape or ()
        constants[name] = np.zeros(shape, types[name].dtype.carrier) + draw(st.integers(0, 1)) * np.ones(
            shape, types[name].dtype.carrier
        ).astype(types[name].dtype.carrier)
        constants[name] = constants[name].astype(types[name].dtype.carrier)
    nodes: list[Node] = []
    before = "x"
    for index in range(draw(st.integers(1, 2))):
        op, made = draw(st.sampled_from(OPS)), f"y{index}"
        types[made] = replace(types["x"], shape=draw(sizes)) if draw(st.booleans()) else draw(kinds())
        if draw(st.booleans()):
            types[made] = types[before]
        inputs = (before, *draw(st.sampled_from([(), ("w",), ("w", "b"), (before,), ("", "w"), ("b", "b", "w")])))
        keys = ("kernel_shape", "strides", "pads", "dilations", "perm", "axes")
        attributes: dict[str, object] = {key: draw(axes) for key in keys if draw(st.booleans())}
        attributes |= {key: draw(small) for key in ("axis", "group", "blocksize", "transB") if draw(st.booleans())}
        domain = "dovetail" if op == "Requantize" else ""
        nodes.append(Node(f"n{index}", op, inputs, (made,), attributes, domain=domain))
        before = made
    try:
        return Graph("nonsense", tuple(nodes), ("x",), (before,), types, constants)
    except GraphError:
        return None


@settings(max_examples=5 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs_of_nonsense())
def test_nonsense_is_lowered_or_refused(graph: Graph | None) -> None:
    if graph is None:
        return
    try:
        lower_graph(graph, part_of(target_named("vsi:v853")))
    except CompileError as error:
        check_one_line(error)


@pytest.mark.sdk
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs_of_nonsense())
def test_nonsense_is_refused_or_run(graph: Graph | None, vendor: VsiBackend) -> None:
    if graph is None:
        return
    backend = VsiBackend(vendor.folder, BlobForm.GRAPH, LIMITS)
    target = target_named("vsi:v853")
    before = traces()
    try:
        blob = backend.compile(graph, target, CompileOptions())
        executable = backend.devices()[0].load(blob, Signature.of(graph))
    except (CompileError, DeviceError) as error:
        check_one_line(error)
    else:
        kind = graph.types["x"]
        sample = np.zeros(kind.static_shape or (), kind.dtype.carrier)
        try:
            found = executable.run({"x": sample})
        except DeviceError as error:
            check_one_line(error)
        else:
            for name, value in found.items():
                assert value.shape == graph.types[name].static_shape
                assert value.size == math.prod(value.shape)
        executable.close()
    assert traces() <= before


@pytest.mark.sdk
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nonsense_that_passes_our_checks_does_not_reach_us(data: st.DataObject, vendor: VsiBackend) -> None:
    """Spoil a program behind our checks: the vendor library may die of it, its worker with it, and nothing else."""
    case = data.draw(st.sampled_from([case for case in CASES if case.name in SPOILT]))
    program = lower_graph(quantized(case, Precision.U8).graph, part_of(target_named("vsi:v853")))
    which = data.draw(st.integers(0, len(program.operators) - 1))
    spoilt = program.operators[which]
    ints = list(spoilt.ints)
    if ints:
        ints[data.draw(st.integers(0, len(ints) - 1))] = data.draw(st.sampled_from([-1, 0, 7, 1000, 2**31 - 1]))
    operators = (*program.operators[:which], replace(spoilt, ints=tuple(ints)), *program.operators[which + 1 :])
    tensors = list(program.tensors)
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(tensors) - 1))
        code = data.draw(
            st.sampled_from([code for code in Code if code.size_bytes == tensors[at].form.code.size_bytes])
        )
        tensors[at] = replace(tensors[at], form=replace(tensors[at].form, code=code, zero_point=999))
    spoilt_program = replace(program, operators=operators, tensors=tuple(tensors))
    before = traces()
    try:
        session = VendorSession(spoilt_program, Settings(vendor.folder, LIMITS))
        session.compile()
        inputs = {
            name: np.zeros(tuple(reversed(tensors[tensor].shape)), np.uint8) for name, tensor in spoilt_program.inputs
        }
        outputs = {name: TensorType(DType.U8, tensors[tensor].shape) for name, tensor in spoilt_program.outputs}
        session.run(inputs, outputs)
        session.close()
    except (CompileError, DeviceError) as error:
        check_one_line(error)
        if traces() - before:
            session.close()
    assert traces() <= before
