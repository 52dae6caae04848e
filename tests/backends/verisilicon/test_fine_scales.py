"""Functions of every stored number whose steps are finer than the tensor processor's tables are made for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.emulator.executable import Emulation, Signature
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import VsiProfile, profile_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.backends.verisilicon.program import Route
from dovetail.compare.steps import Steps, compare_steps
from dovetail.ir import DType, Graph, Node, Quantization, TensorType

from .conftest import target_named

pytestmark = pytest.mark.sdk

_SHADED = ("HardSwish", "LeakyRelu", "Mul", "Sigmoid", "Tanh")
_LISTED = ("Atan", "HardSigmoid", "Mish", "Neg", "Reciprocal")
_BITS = ((16, 16), (16, 13), (19, 19), (22, 25))
"""Bits behind the points of the input and of the output."""
_COARSE = ((11, 14), (11, 19), (15, 25))


def function_graph(op: str, bits: tuple[int, int]) -> Graph:
    """Return a function of 256 by 256 numbers of 16 bits; a product is that of the input with itself."""
    kinds = [TensorType(DType.I16, (256, 256), Quantization((2.0**-count,), (0,))) for count in bits]
    attributes = {"alpha": 0.1} if op == "LeakyRelu" else {}
    node = Node("n", op, ("x", "x") if op == "Mul" else ("x",), ("y",), attributes)
    return Graph("function", (node,), ("x",), ("y",), {"x": kinds[0], "y": kinds[1]}, {})


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d"])
def bench(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[tuple[VsiProfile, GraphBench]]:
    profile = profile_of(target_named(request.param))
    simulator = GraphBench(profile.part.sdk_name, Settings(vendor.folder))
    yield profile, simulator
    simulator.close()


def _compared(graph: Graph, bench: tuple[VsiProfile, GraphBench]) -> Steps:
    """Return what differs over all stored numbers."""
    profile, simulator = bench
    program = lower_graph(graph, profile.part)
    sample = {"x": np.arange(-(2**15), 2**15).astype(np.int16).reshape(256, 256)}
    found = simulator.measure(program, [sample], {"y": graph.types["y"]}).results[0]["y"]
    return compare_steps(Emulation(program, Signature.of(graph)).run(sample)["y"], found)


@pytest.mark.parametrize("op", _SHADED)
def test_functions_of_the_drivers_are_shaders(op: str, bench: tuple[VsiProfile, GraphBench]) -> None:
    for bits in _BITS:
        graph = function_graph(op, bits)
        assert lower_graph(graph, bench[0].part).operators[-1].route is Route.SHADER
        assert _compared(graph, bench).differing == 0, f"{bits}"


@pytest.mark.parametrize("op", _LISTED)
def test_functions_of_ovxlib_get_room(op: str, bench: tuple[VsiProfile, GraphBench]) -> None:
    for bits in _BITS:
        assert _compared(function_graph(op, bits), bench).differing == 0, f"{bits}"


@pytest.mark.parametrize("op", ["LeakyRelu", "Mul", "Sigmoid", "Tanh"])
def test_tables_lose_what_is_below_their_smallest_entry(op: str, bench: tuple[VsiProfile, GraphBench]) -> None:
    for bits in _COARSE:
        assert _compared(function_graph(op, bits), bench).differing == 0, f"{bits}"


@pytest.mark.parametrize("apart", [14, 15, 16])
def test_sums_of_steps_far_apart(apart: int, bench: tuple[VsiProfile, GraphBench]) -> None:
    """With 15 bits between them the array would take a weight of 1 for -1."""
    profile, simulator = bench
    kinds = [TensorType(DType.I16, (1, 4, 8, 8), Quantization((2.0**-bits,), (0,))) for bits in (apart, 0, 0)]
    nodes = (Node("f", "Abs", ("x",), ("a",)), Node("g", "Abs", ("z",), ("b",)), Node("s", "Add", ("a", "b"), ("y",)))
    types = {"x": kinds[0], "a": kinds[0], "z": kinds[1], "b": kinds[1], "y": kinds[2]}
    graph = Graph("sum", nodes, ("x", "z"), ("y",), types, {})
    program, rng = lower_graph(graph, profile.part), np.random.default_rng(apart)
    sample = {name: rng.integers(-(2**13), 2**13, (1, 4, 8, 8)).astype(np.int16) for name in graph.inputs}
    found = simulator.measure(program, [sample], {"y": types["y"]}).results[0]["y"]
    assert compare_steps(Emulation(program, Signature.of(graph)).run(sample)["y"], found).largest == 0
    assert np.abs(found.astype(int) - np.abs(sample["z"].astype(int))).max() <= 1
