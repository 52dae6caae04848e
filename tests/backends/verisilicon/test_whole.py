"""Whole models on the vendor's simulator: every output element is that of the exact simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import backend
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.compare import random_samples
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.testing.agreement import load_on

from .conftest import target_named

pytestmark = [pytest.mark.sdk, pytest.mark.slow]

MODELS = {
    "ResNet8": "ic01_resnet8_cifar10/resnet8_int8.tflite",
    "DS-CNN": "kws01_dscnn/kws_ref_model_int8.tflite",
    "MobileNetV1": "mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite",
}


def differing(graphs: VsiBackend, graph: Graph, target: str, samples: list[Mapping[str, AnyArray]]) -> int:
    """Return how many output elements the vendor gives otherwise."""
    profile = target_named(target)
    theirs = load_on(graphs, graph, profile, CompileOptions())
    ours = load_on(backend("npusim"), graph, profile, CompileOptions())
    count = 0
    for sample in samples:
        found, wanted = theirs.run(sample), ours.run(sample)
        count += sum(int(np.count_nonzero(found[name] != wanted[name])) for name in graph.outputs)
    theirs.close()
    return count


@pytest.mark.models
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d"])
def test_every_output_of_a_model_is_equal(model: str, target: str, models: Path, graphs: VsiBackend) -> None:
    graph = dovetail.normalize(dovetail.load_model(models / MODELS[model]))
    assert differing(graphs, graph, target, random_samples(graph, 1, 0)) == 0


@dataclass(frozen=True, slots=True)
class Joint:
    """Describe a convolution before a sum."""

    position: int = 1
    per_channel: bool = True
    depthwise: bool = False
    relu: bool = False
    two: bool = False
    kernel: int = 1
    inner: bool = True
    """Something follows the sum."""
    dtype: DType = DType.I8

    def graph(self) -> Graph:
        """Return `[stem, convolution(s), sum, convolution]` in bytes."""
        random, types, constants, nodes = np.random.default_rng(7), {}, {}, []
        middle = 0 if self.dtype is DType.I8 else 128

        def tensor(name: str, scale: float, zero: int) -> None:
            quant = Quantization((float(np.float32(scale)),), (zero + middle,))
            types[name] = TensorType(self.dtype, (1, 8, 8, 8), quant)

        def convolve(name: str, source: str, made: tuple[str, float, int], *, depthwise: bool = False) -> None:
            shape = (8, 1 if depthwise else 8, self.kernel, self.kernel)
            scales = random.uniform(0.002, 0.006, 8 if self.per_channel else 1).astype(np.float32)
            axis, zeros = (0 if self.per_channel else None), (0,) * len(scales)
            data = types[source].quant
            assert data is not None
            sums = tuple(float(np.float32(scale * np.float32(data.scale[0]))) for scale in scales)
            types[f"{name}.w"] = TensorType(
                self.dtype, shape, Quantization(tuple(map(float, scales)), tuple(zero + middle for zero in zeros), axis)
            )
            types[f"{name}.b"] = TensorType(DType.I32, (8,), Quantization(sums, zeros, axis))
            constants[f"{name}.w"] = (random.integers(-127, 128, shape) + middle).astype(self.dtype.carrier)
            constants[f"{name}.b"] = random.integers(-2000, 2000, 8).astype(np.int32)
            tensor(*made)
            given = {"pads": (self.kernel // 2,) * 4, "group": 8 if depthwise else 1}
            nodes.append(Node(name, "Conv", (source, f"{name}.w", f"{name}.b"), (made[0],), given))

        tensor("x", 0.04, 3)
        convolve("stem", "x", ("a", 0.06, -20))
        convolve("first", "a", ("p", 0.07, 11), depthwise=self.depthwise)
        joined, other = "p", "a"
        if self.relu:
            types["r"], joined = types["p"], "r"
            nodes.append(Node("relu", "Relu", ("p",), ("r",)))
        if self.two:
            convolve("second", "a", ("o", 0.05, -7))
            other = "o"
        tensor("y", 0.1, 5)
        operands = (other, joined) if self.position else (joined, other)
        nodes.append(Node("sum", "Add", operands, ("y",)))
        if self.inner:
            convolve("last", "y", ("t", 0.2, 0))
        return Graph("joint", tuple(nodes), ("x",), ("t" if self.inner else "y",), types, constants)


PLAIN = Joint()
JOINTS: tuple[Callable[[Joint], Joint], ...] = (
    lambda joint: joint,
    lambda joint: replace(joint, position=0),
    lambda joint: replace(joint, per_channel=False),
    lambda joint: replace(joint, depthwise=True, kernel=3),
    lambda joint: replace(joint, relu=True),
    lambda joint: replace(joint, two=True),
    lambda joint: replace(joint, two=True, position=0),
    lambda joint: replace(joint, kernel=3),
    lambda joint: replace(joint, inner=False),
)


@pytest.mark.parametrize("target", ["vsi:v853", "vsi:t527"])
@pytest.mark.parametrize("change", range(len(JOINTS)))
def test_a_sum_joined_to_the_convolution_before_it_is_equal(change: int, target: str, graphs: VsiBackend) -> None:
    graph = JOINTS[change](PLAIN).graph()
    assert differing(graphs, graph, target, random_samples(graph, 1, change)) == 0


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("target", ["vsi:imx8mp", "vsi:rv1126"])
@pytest.mark.parametrize("change", [0, 3, 4, 6])
def test_signed_bytes_between_convolutions_are_equal_on_parts_that_convert_them(
    change: int, target: str, per_channel: bool, graphs: VsiBackend
) -> None:
    """Their array stores 127 throughout where an inner tensor's zero point is negative: tensors are kept in memory."""
    graph = JOINTS[change](replace(PLAIN, per_channel=per_channel)).graph()
    assert differing(graphs, graph, target, random_samples(graph, 1, change)) == 0


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:s905d3", "vsi:imx8mp", "vsi:v853", "vsi:t527"])
@pytest.mark.parametrize("change", [0, 1, 3, 4, 5, 6, 7, 8])
def test_a_sum_of_unsigned_bytes_between_convolutions_is_equal(change: int, target: str, graphs: VsiBackend) -> None:
    """Older parts make a convolution of it, the newest join it to the convolution before.

    The scales make ties: 0.07 * 1/255 / 0.1 in float32 decides them.
    """
    graph = JOINTS[change](replace(PLAIN, dtype=DType.U8, per_channel=False)).graph()
    assert differing(graphs, graph, target, random_samples(graph, 1, change)) == 0


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:t527", "vsi:imx8mp"])
def test_one_output_channel_with_a_bias_compiles_and_is_equal(target: str, relu: bool, graphs: VsiBackend) -> None:
    """A scale per channel of the one channel ends the compiler of VIP9000 parts: it is a scale of the tensor there."""
    quants = [
        Quantization((float(np.float32(scale)),), (zero,), axis)
        for scale, zero, axis in (
            (0.04, 3, None),
            (0.005, 0, 0),
            (float(np.float32(0.04) * np.float32(0.005)), 0, 0),
            (0.06, -20, None),
        )
    ]
    types = {
        "x": TensorType(DType.I8, (1, 8, 8, 8), quants[0]),
        "w": TensorType(DType.I8, (1, 8, 3, 3), quants[1]),
        "b": TensorType(DType.I32, (1,), quants[2]),
        "c": TensorType(DType.I8, (1, 1, 6, 6), quants[3]),
        "y": TensorType(DType.I8, (1, 1, 6, 6), quants[3]),
    }
    random = np.random.default_rng(5)
    constants: dict[str, AnyArray] = {
        "w": random.integers(-127, 128, (1, 8, 3, 3)).astype(np.int8),
        "b": np.array([900], np.int32),
    }
    nodes = (Node("n", "Conv", ("x", "w", "b"), ("c",)), Node("r", "Relu" if relu else "Identity", ("c",), ("y",)))
    graph = Graph("objectness", nodes, ("x",), ("y",), types, constants)
    assert differing(graphs, graph, target, random_samples(graph, 2, 0)) == 0
