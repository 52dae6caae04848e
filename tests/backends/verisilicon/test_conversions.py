"""Conversions between 8 and 16 bits and slopes of bytes by themselves: random scales, single elements too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import draws
import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import VsiProfile, profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import DOVETAIL_DOMAIN, AnyArray, DType, Graph, Node, Quantization, TensorType

from .conftest import target_named

pytestmark = pytest.mark.sdk

Bench = tuple[VsiProfile, GraphBench]
_SHAPES = ((1,), (1, 1, 1, 1), (1, 5), (1, 8, 6, 6))
_ENDS = {DType.U8: (0, 255), DType.I8: (-128, 127)}
_SAMPLES = 64
_CONVERSIONS = (
    (DType.U8, DType.I16, ""),
    (DType.U8, DType.I16, "Abs"),
    (DType.U8, DType.I16, "SiLU"),
    (DType.I8, DType.I16, ""),
    (DType.I8, DType.I16, "Abs"),
    (DType.I8, DType.I16, "SiLU"),
    (DType.I16, DType.U8, ""),
    (DType.I16, DType.I8, ""),
    (DType.U8, DType.U8, ""),
)
"""From and to what, and what reads the result inside the graph."""


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:s905d3", "vsi:t527", "vsi:a733"])
def bench(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[Bench]:
    profile = profile_of(target_named(request.param))
    with GraphBench(profile.part.sdk_name, Settings(vendor.folder)) as found:
        yield profile, found


def _kind(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> TensorType:
    if dtype is DType.I16:
        return TensorType(dtype, shape, Quantization((2.0 ** -int(rng.integers(9, 14)),), (0,)))
    low, high = _ENDS[dtype]
    scale = float(np.float32(rng.uniform(0.004, 0.06)))
    return TensorType(dtype, shape, Quantization((scale,), (int(rng.integers(low, high + 1)),)))


def _values(rng: np.random.Generator, kind: TensorType) -> AnyArray:
    low, high = kind.dtype.integer_range
    return np.asarray(rng.integers(low, high + 1, kind.static_shape)).astype(kind.dtype.carrier)


def _graph(data: TensorType, made: TensorType, reader: str) -> Graph:
    nodes = [Node("convert", "Requantize", ("x",), ("y",), {}, DOVETAIL_DOMAIN)]
    types = {"x": data, "y": made}
    if reader == "SiLU":
        # With what goes in the compiler does otherwise.
        nodes = [Node("before", "Abs", ("x",), ("b",), {}), replace(nodes[0], inputs=("b",))]
        types["b"] = data
        nodes += [Node("gate", "Sigmoid", ("y",), ("g",), {}), Node("read", "Mul", ("y", "g"), ("z",), {})]
        types["g"] = types["z"] = made
    elif reader:
        nodes.append(Node("read", reader, ("y",), ("z",), {}))
        types["z"] = made
    return Graph("conversion", tuple(nodes), ("x",), nodes[-1].outputs, types, {})


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize(("read", "stored", "reader"), _CONVERSIONS)
def test_conversions_are_equal(read: DType, stored: DType, reader: str, shape: tuple[int, ...], bench: Bench) -> None:
    """A shader keeps 16 bits of its multiplier: for single elements, and in older parts for what stays inside.

    A sigmoid and the product that it gates read as one.
    """
    profile, simulator = bench
    seed = draws.seed_here()
    rng = np.random.default_rng(seed)
    graph = _graph(_kind(rng, read, shape), _kind(rng, stored, shape), reader)
    program = lower_graph(graph, profile.part)
    samples = [{"x": _values(rng, graph.types["x"])} for _ in range(_SAMPLES if max(shape) == 1 else 4)]
    (name,) = graph.outputs
    theirs = simulator.measure(program, samples, {name: graph.types[name]}).results
    emulation = Emulation(program, Signature.of(graph))
    for sample, found in zip(samples, theirs, strict=True):
        np.testing.assert_array_equal(emulation.run(sample)[name], found[name], err_msg=f"seed {seed}")


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8])
@pytest.mark.parametrize("again", range(3))
def test_slopes_are_equal_for_every_byte(again: int, dtype: DType, bench: Bench) -> None:
    """Two products, each rounded to the processor's floats: one of 15,360 bytes was seen to be off by a step."""
    profile, simulator = bench
    seed = draws.seed_here()
    rng = np.random.default_rng(seed)
    types = {"x": _kind(rng, dtype, (1, 1, 16, 16)), "y": _kind(rng, dtype, (1, 1, 16, 16))}
    slope = float(rng.choice([0.01, 0.1, 0.2, 0.3, rng.uniform(0.0, 0.5)]))
    graph = Graph("slope", (Node("n", "LeakyRelu", ("x",), ("y",), {"alpha": slope}),), ("x",), ("y",), types, {})
    program = lower_graph(graph, profile.part)
    low, high = dtype.integer_range
    sample = {"x": np.arange(low, high + 1).astype(dtype.carrier).reshape(1, 1, 16, 16)}
    found = simulator.measure(program, [sample], {"y": types["y"]}).results[0]["y"].astype(np.int64)
    steps = np.abs(Emulation(program, Signature.of(graph)).run(sample)["y"].astype(np.int64) - found)
    assert int(steps.max()) <= 1, f"seed {seed}"
    assert int((steps > 0).sum()) <= 1, f"seed {seed}"


@pytest.mark.parametrize("op", ["Conv", "Relu", "Gemm"])
@pytest.mark.parametrize("shift", [1, 4, 8])
def test_results_finer_than_their_sums_are_equal(shift: int, op: str, bench: Bench) -> None:
    """The array of v7 parts makes the least number of negative sums that it would shift to the left."""
    profile, simulator = bench
    seed = draws.seed_here()
    rng = np.random.default_rng(seed)
    plane = () if op == "Gemm" else (4, 5)
    ones = (1,) * len(plane)
    most = max(1, 2000 >> shift)
    value = rng.integers(-most, most + 1, (6, 4, *ones)).astype(np.int16)
    steps = [Quantization((2.0**-bits,), (0,)) for bits in (2, 12, 14 + shift)]
    types = {
        name: TensorType(DType.I16, shape, quant)
        for name, shape, quant in zip("xwy", ((1, 4, *plane), value.shape, (1, 6, *plane)), steps, strict=True)
    }
    product = "Gemm" if op == "Gemm" else "Conv"
    nodes = [Node("n", product, ("x", "w"), ("y",), {"transB": 1} if op == "Gemm" else {})]
    if op == "Relu":
        nodes.append(Node("r", "Relu", ("y",), ("z",), {}))
        types["z"] = types["y"]
    (name,) = nodes[-1].outputs
    graph = Graph("fine", tuple(nodes), ("x",), (name,), types, {"w": value})
    program = lower_graph(graph, profile.part)
    samples = [{"x": np.asarray(rng.integers(-4, 5, (1, 4, *plane))).astype(np.int16)} for _ in range(4)]
    theirs = simulator.measure(program, samples, {name: types[name]}).results
    emulation = Emulation(program, Signature.of(graph))
    for sample, found in zip(samples, theirs, strict=True):
        np.testing.assert_array_equal(emulation.run(sample)[name], found[name], err_msg=f"seed {seed}")
