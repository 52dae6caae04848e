"""A sum joined to the convolution before it: the simulation and the reference agree, and taps do not disturb it."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.arithmetic import Vip
from dovetail.backend.protocols import CompileOptions
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.reference import backend as reference
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.vip.scene import Scene
from dovetail.backends.vip.sums import joined_sum, sum_rule
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.testing.agreement import load_on

V853 = next(target for target in VSI_PROFILES if target.name == "vsi:v853")


def residual(scale: float = 0.1, *, relu: bool = False) -> Graph:
    """Return `y = Conv(x) + a`, `a = Conv(x)` earlier, and a ReLU behind: every tensor of the sum lies inside."""
    random = np.random.default_rng(3)
    weight = TensorType(DType.I8, (4, 4, 1, 1), Quantization((float(np.float32(0.005)),), (0,)))

    def kind(step: float, zero: int) -> TensorType:
        return TensorType(DType.I8, (1, 4, 6, 6), Quantization((float(np.float32(step)),), (zero,)))

    types = {"x": kind(0.04, 3), "v": weight, "w": weight, "a": kind(0.06, -20), "p": kind(0.07, 11)}
    types |= {"r": types["p"], "s": kind(scale, 5), "y": kind(scale, 5)}
    constants = {name: random.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8) for name in "vw"}
    nodes = [Node("stem", "Conv", ("x", "v"), ("a",)), Node("conv", "Conv", ("a", "w"), ("p",))]
    if relu:
        nodes.append(Node("between", "Relu", ("p",), ("r",)))
    else:
        del types["r"]
    nodes += [Node("sum", "Add", ("a", "r" if relu else "p"), ("s",)), Node("end", "Relu", ("s",), ("y",))]
    return Graph("residual", tuple(nodes), ("x",), ("y",), types, constants)


@pytest.mark.parametrize("relu", [False, True])
def test_both_of_ours_agree_and_taps_change_nothing(relu: bool) -> None:
    graph = residual(relu=relu)
    sample = {"x": np.random.default_rng(1).integers(-128, 128, (1, 4, 6, 6)).astype(np.int8)}
    runs = [load_on(one, graph, V853, CompileOptions()) for one in (simulator, reference)]
    found = [run.run(sample) for run in runs]
    assert np.array_equal(found[0]["y"], found[1]["y"])
    inner = ("a", "p", *(("r",) if relu else ()), "s")
    tapped = [run.run(sample, inner) for run in runs]
    for name in ("y", *inner):
        assert np.array_equal(tapped[0][name], tapped[1][name])
    assert np.array_equal(tapped[0]["y"], found[0]["y"])


def test_what_is_joined() -> None:
    graph = residual(relu=True)
    joined = joined_sum(graph, graph.nodes[3], Vip.VIP9000)
    assert joined is not None
    assert joined.convolution.name == "conv"
    assert joined.between == ("p", "r")
    assert joined.other == "a"
    assert joined.limits[0] == 0.0


def unsigned(graph: Graph) -> Graph:
    """Return a graph of signed bytes in unsigned ones, 128 higher."""
    types = {
        name: TensorType(DType.U8, kind.shape, Quantization(kind.quant.scale, (kind.quant.zero_point[0] + 128,)))
        for name, kind in graph.types.items()
        if kind.quant is not None
    }
    constants = {name: (value.astype(np.int16) + 128).astype(np.uint8) for name, value in graph.constants.items()}
    return Graph(graph.name, graph.nodes, graph.inputs, graph.outputs, types, constants)


def test_unsigned_bytes_inside_a_graph_are_not_added_in_a_shader() -> None:
    graph = unsigned(residual())
    total = graph.nodes[2]
    assert joined_sum(graph, total, Vip.VIP9000) is not None
    for vip in (Vip.V7, Vip.VIP8000):
        assert joined_sum(graph, total, vip) is None
        assert sum_rule(Scene(graph, total, vip)) is not None


@pytest.mark.parametrize("name", ["V7", "VIP8000", "VIP9000"])
def test_unsigned_bytes_that_a_graph_takes_are_added_in_a_shader(name: str) -> None:
    inner = unsigned(residual())
    graph = Graph("sum", inner.nodes[2:], ("a", "p"), ("y",), {tensor: inner.types[tensor] for tensor in "apsy"}, {})
    assert sum_rule(Scene(graph, graph.nodes[0], Vip[name])) is None


def test_what_is_not_joined() -> None:
    graph = residual()
    assert joined_sum(graph, graph.nodes[2], Vip.V7) is None
    assert joined_sum(graph, graph.nodes[1], Vip.VIP9000) is None
    # An operand of more than two steps of the output is summed by a convolution with two weights.
    narrow = residual(0.03)
    assert joined_sum(narrow, narrow.nodes[2], Vip.VIP9000) is None
