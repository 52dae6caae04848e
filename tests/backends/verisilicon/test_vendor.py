"""The vendor's simulator against arithmetic that we state: exactly equal where the profile says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.backend.protocols import Blob, CompileOptions, Signature
from dovetail.backend.registry import backend
from dovetail.backend.target import TargetProfile
from dovetail.backends.reference import run_graph
from dovetail.backends.verisilicon.blob import program_from_bytes, program_to_bytes
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.plugin import NBG, VsiBackend, VsiExecutable, sealed, unsealed
from dovetail.compare.steps import Steps, compare_steps
from dovetail.errors import DeviceError
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.sdk.nbg import read_facts
from dovetail.testing.agreement import agreement, load_on
from dovetail.testing.cases import CASES, quantized

from .conftest import target_named

pytestmark = [pytest.mark.sdk, pytest.mark.usefixtures("traceless")]

EXACT_U8 = (
    *("Conv", "Conv.no_bias", "Conv.stride", "Conv.same_upper", "Conv.dilated", "Conv.pointwise", "Conv.depthwise"),
    *("Conv.grouped", "Conv.1d", "ConvTranspose", "Gemm", "Gemm.transposed", "MatMul", "Max", "Min", "Relu", "Abs"),
    *("Neg", "LeakyRelu", "Tanh", "MaxPool", "Split", "Slice", "Reshape", "Transpose", "Flatten"),
    *("Squeeze", "Unsqueeze", "Pad", "Pad.value", "Pad.reflect", "DepthToSpace", "DepthToSpace.crd", "SpaceToDepth"),
    *("Identity", "Requantize", "GatherElements", "ReduceMax", "ReduceMin", "ArgMax", "Add"),
)
"""Not one element differs on vsi:v853."""

WITHIN_ONE = {"Sigmoid": 0.99, "Gelu": 0.99, "HardSwish": 0.99, "Concat": 0.99, "AveragePool": 0.95, "Elu": 0.99}
"""Differ by at most 1; the share of equal elements that is asked for. Tables, and ties of products."""


def measured(vendor: VsiBackend, name: str, precision: Precision, target: TargetProfile) -> Steps:
    """Return how far the vendor agrees with the emulator."""
    case = quantized({case.name: case for case in CASES}[name], precision)
    executable = load_on(vendor, case.graph, target, CompileOptions())
    # What the profile refuses can be compared all the same.
    ours = Emulation(lower_graph(case.graph, part_of(target)), Signature.of(case.graph))
    total = agreement(executable, ours, case.inputs)
    executable.close()
    return total


@pytest.mark.parametrize("name", EXACT_U8)
def test_bytes_are_exact(name: str, graphs: VsiBackend) -> None:
    found = measured(graphs, name, Precision.U8, target_named("vsi:v853"))
    assert found.largest == 0, f"{found.differing} of {found.elements} differ, by up to {found.largest}"


@pytest.mark.parametrize("name", WITHIN_ONE)
def test_tables_differ_by_one_step(name: str, graphs: VsiBackend) -> None:
    found = measured(graphs, name, Precision.U8, target_named("vsi:v853"))
    assert found.largest <= 1
    assert found.share >= WITHIN_ONE[name]


@pytest.mark.parametrize("name", ["Conv", "Conv.depthwise", "Gemm", "Relu", "Transpose", "ReduceMin"])
@pytest.mark.parametrize("precision", [Precision.I8, Precision.I8PC, Precision.I8DFP, Precision.I16])
def test_other_precisions_are_exact(name: str, precision: Precision, graphs: VsiBackend) -> None:
    assert measured(graphs, name, precision, target_named("vsi:v853")).largest == 0


@pytest.mark.parametrize("target", ["vsi:s905d3", "vsi:v853", "vsi:t527"])
@pytest.mark.parametrize("name", ["ConvTranspose.padded", "Softmax.channels", "InstanceNormalization", "Resize.linear"])
def test_shaders_of_16_bits_are_exact(name: str, target: str, graphs: VsiBackend) -> None:
    assert measured(graphs, name, Precision.I16, target_named(target)).largest == 0


@pytest.mark.parametrize("name", ["Conv", "Conv.no_bias", "Conv.dilated", "ConvTranspose"])
def test_convolutions_of_16_bits_in_a_shader_are_exact(name: str, graphs: VsiBackend) -> None:
    assert measured(graphs, name, Precision.I16, target_named("vsi:s905d3")).largest == 0


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp"])
@pytest.mark.parametrize("name", ["Conv", "Conv.pointwise", "Gemm", "Relu", "Transpose"])
def test_other_parts_are_exact(name: str, target: str, graphs: VsiBackend) -> None:
    assert measured(graphs, name, Precision.U8, target_named(target)).largest == 0


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp", "vsi:v853", "vsi:a733"])
@pytest.mark.parametrize(
    "scales", [(0.05, 0.01, 0.001), (0.03, 0.01, 0.0006), (0.07, 0.01, 0.0014), (0.09, 0.01, 0.0024)]
)
def test_multipliers_near_a_half_decide_ties_as_the_array_does(
    scales: tuple[float, float, float], target: str, graphs: VsiBackend
) -> None:
    """Decimal scales give multipliers near 1/2 and 3/8: float32 decides whether sums are ties."""
    data, weight, made = (float(np.float32(scale)) for scale in scales)
    bias = float(np.float32(data) * np.float32(weight))
    types = {
        "x": TensorType(DType.U8, (1, 1, 16, 16), Quantization((data,), (120,))),
        "w": TensorType(DType.U8, (4, 1, 1, 1), Quantization((weight,), (128,))),
        "b": TensorType(DType.I32, (4,), Quantization((bias,), (0,))),
        "y": TensorType(DType.U8, (1, 4, 16, 16), Quantization((made,), (131,))),
    }
    constants: dict[str, AnyArray] = {
        "w": np.array([129, 131, 127, 133], np.uint8).reshape(4, 1, 1, 1),
        "b": np.zeros(4, np.int32),
    }
    graph = Graph("ties", (Node("conv", "Conv", ("x", "w", "b"), ("y",)),), ("x",), ("y",), types, constants)
    profile, sample = target_named(target), {"x": np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)}
    theirs = load_on(graphs, graph, profile, CompileOptions())
    ours = load_on(backend("npusim"), graph, profile, CompileOptions())
    assert agreement(theirs, ours, [sample]).largest == 0
    theirs.close()


@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:imx8mp"])
def test_the_exact_simulation_is_the_vendors(target: str, graphs: VsiBackend) -> None:
    profile = target_named(target)
    for name in ("Conv", "Concat", "Conv.depthwise"):
        case = quantized({case.name: case for case in CASES}[name], Precision.U8)
        theirs = load_on(graphs, case.graph, profile, CompileOptions())
        ours = load_on(backend("npusim"), case.graph, profile, CompileOptions())
        found = agreement(theirs, ours, case.inputs)
        theirs.close()
        assert found.largest <= (1 if name == "Concat" else 0), f"{name}: {found}"


def chain() -> Graph:
    """Return a small u8 network of several operators on different engines."""
    steps = ((0.05, 120), (0.08, 110), (0.08, 110), (0.09, 100))
    quant = [Quantization((float(np.float32(scale)),), (zero,)) for scale, zero in steps]
    image = [TensorType(DType.U8, (1, 4, 8, 8), item) for item in quant]
    scale = float(np.float32(np.float32(0.05) * np.float32(0.02)))
    kinds = {
        "x": image[0],
        "w": TensorType(DType.U8, (4, 4, 3, 3), Quantization((float(np.float32(0.02)),), (128,))),
        "b": TensorType(DType.I32, (4,), Quantization((scale,), (0,))),
        "c": image[1],
        "r": image[2],
        "p": TensorType(DType.U8, (1, 4, 4, 4), quant[2]),
        "y": TensorType(DType.U8, (1, 8, 4, 4), quant[3]),
    }
    random = np.random.default_rng(4)
    constants: dict[str, AnyArray] = {
        "w": random.integers(0, 256, (4, 4, 3, 3)).astype(np.uint8),
        "b": random.integers(-500, 500, 4).astype(np.int32),
    }
    nodes = (
        Node("conv", "Conv", ("x", "w", "b"), ("c",), {"pads": (1, 1, 1, 1)}),
        Node("relu", "Relu", ("c",), ("r",)),
        Node("pool", "MaxPool", ("r",), ("p",), {"kernel_shape": (2, 2), "strides": (2, 2)}),
        Node("join", "Concat", ("p", "p"), ("y",), {"axis": 1}),
    )
    return Graph("chain", nodes, ("x",), ("y",), kinds, constants)


@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:imx8mp"])
def test_a_binary_network_gives_what_its_graph_gives(target: str, vendor: VsiBackend, graphs: VsiBackend) -> None:
    graph, profile = chain(), target_named(target)
    assert profile.hardware is not None
    blob = vendor.compile(graph, profile, CompileOptions())
    facts = read_facts(program_from_bytes(unsealed(blob.payload, "")).binary or b"")
    assert f"{facts.pid:X}" == profile.hardware.sdk_name.rpartition("_PID0X")[2]
    assert (facts.inputs, facts.outputs) == (1, 1)
    binary = vendor.devices()[0].load(blob, Signature.of(graph))
    direct = load_on(graphs, graph, profile, CompileOptions())
    assert isinstance(direct, VsiExecutable)
    assert binary.process_id != direct.process_id
    random = np.random.default_rng(1)
    for _ in range(3):
        sample = {"x": random.integers(0, 256, (1, 4, 8, 8)).astype(np.uint8)}
        assert np.array_equal(binary.run(sample)["y"], direct.run(sample)["y"])
    binary.close()
    direct.close()


@pytest.mark.parametrize("order", [("Add", "Sub"), ("Sub", "Add"), ("Add", "Add")])
@pytest.mark.parametrize("dtype", [DType.I8, DType.U8])
def test_sums_and_differences_in_one_graph_do_not_mix(order: tuple[str, str], dtype: DType, graphs: VsiBackend) -> None:
    lowest, highest = dtype.integer_range

    def kind(scale: float, zero: int) -> TensorType:
        return TensorType(dtype, (1, 4, 8, 8), Quantization((float(np.float32(scale)),), (lowest + zero,)))

    nodes = (Node("a", order[0], ("x", "w"), ("y",)), Node("s", order[1], ("x", "w"), ("z",)))
    types = {"x": kind(0.021, 120), "w": kind(0.033, 100), "y": kind(0.05, 128), "z": kind(0.05, 128)}
    graph, profile = Graph("g", nodes, ("x", "w"), ("y", "z"), types), target_named("vsi:v853")
    executable = load_on(graphs, graph, profile, CompileOptions())
    random = np.random.default_rng(5)
    sample = {name: random.integers(lowest, highest + 1, (1, 4, 8, 8)).astype(dtype.carrier) for name in "xw"}
    found, wanted = executable.run(sample), run_graph(graph, dict(sample), profile.arithmetic)
    executable.close()
    for name in ("y", "z"):
        # One step at ties: the array adds the zero point before it rounds, the shaders add in float32.
        assert compare_steps(found[name], wanted[name]).largest <= 1


@pytest.mark.parametrize("op", ["Max", "ReduceMax", "Mul", "Softmax"])
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d"])
def test_signed_bytes_reach_shader_kernels_whole(op: str, target: str, graphs: VsiBackend) -> None:
    kind = TensorType(DType.I8, (1, 4, 8, 8), Quantization((0.0625,), (-8,)))
    reduced = op == "ReduceMax"
    types = {"x": kind, "z": kind, "y": replace(kind, shape=(1, 4, 1, 1)) if reduced else kind}
    constants = {"axes": np.array([2, 3])} if reduced else {}
    if reduced:
        types["axes"] = TensorType(DType.I64, (2,))
    inputs = {"ReduceMax": ("z", "axes"), "Softmax": ("z",)}.get(op, ("z", "x"))
    nodes = (Node("relu", "Relu", ("x",), ("z",)), Node("n", op, inputs, ("y",)))
    graph, profile = Graph("g", nodes, ("x",), ("y",), types, constants), target_named(target)
    executable = load_on(graphs, graph, profile, CompileOptions())
    sample = {"x": np.random.default_rng(6).integers(-128, 128, (1, 4, 8, 8)).astype(np.int8)}
    found = executable.run(sample)["y"]
    executable.close()
    assert compare_steps(found, run_graph(graph, dict(sample), profile.arithmetic)["y"]).largest == 0


def test_taps_tell_inner_tensors(graphs: VsiBackend) -> None:
    graph, profile = chain(), target_named("vsi:v853")
    executable = load_on(graphs, graph, profile, CompileOptions())
    sample = {"x": np.random.default_rng(2).integers(0, 256, (1, 4, 8, 8)).astype(np.uint8)}
    found = executable.run(sample, ("c", "p"))
    wanted = run_graph(graph, dict(sample), profile.arithmetic)
    for name in ("c", "p", "y"):
        assert compare_steps(found[name], wanted[name]).largest <= (1 if name == "y" else 0)
    executable.close()


def test_wrong_and_damaged_binaries_are_refused_and_the_process_lives(vendor: VsiBackend) -> None:
    graph, device = chain(), vendor.devices()[0]
    blobs = {name: vendor.compile(graph, target_named(name), CompileOptions()) for name in ("vsi:v853", "vsi:a311d")}
    mine, other = (program_from_bytes(unsealed(blobs[name].payload, "")) for name in blobs)
    assert mine.binary is not None
    assert other.binary is not None
    damaged = mine.binary[:200] + bytes([mine.binary[200] ^ 1]) + mine.binary[201:]
    for binary, reason in (
        (other.binary, "for the part with PID 0x88, not for 0xee"),
        (mine.binary[:-40], "cut short"),
        (damaged, "checksum"),
        (b"garbage" * 100, "not a binary network"),
    ):
        payload = sealed(program_to_bytes(replace(mine, binary=binary)))
        with pytest.raises(DeviceError) as caught:
            device.load(Blob(NBG, payload), Signature.of(graph))
        assert reason in caught.value.message
    device.load(blobs["vsi:v853"], Signature.of(graph)).close()


def test_a_depthwise_convolution_of_16_bits_without_a_bias_is_no_garbage(graphs: VsiBackend) -> None:
    target = target_named("vsi:s905d3")
    kinds = {
        "x": TensorType(DType.I16, (1, 4, 9, 8), Quantization((2.0**-13,), (0,))),
        "w": TensorType(DType.I16, (4, 1, 3, 3), Quantization((2.0**-15,), (0,))),
        "y": TensorType(DType.I16, (1, 4, 7, 6), Quantization((2.0**-12,), (0,))),
    }
    random = np.random.default_rng(3)
    weight = random.integers(-9000, 9000, (4, 1, 3, 3)).astype(np.int16)
    graph = Graph("g", (Node("n", "Conv", ("x", "w"), ("y",), {"group": 4}),), ("x",), ("y",), kinds, {"w": weight})
    sample = {"x": random.integers(-32768, 32768, (1, 4, 9, 8)).astype(np.int16)}
    executable = load_on(graphs, graph, target, CompileOptions())
    found = executable.run(sample)["y"].astype(int)
    executable.close()
    # The order of its float32 sums may move a result across a tie.
    assert np.abs(found - run_graph(graph, sample, target.arithmetic)["y"]).max() <= 1
