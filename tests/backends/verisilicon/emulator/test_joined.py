"""A sum joined to the convolution before it: what lowering decides, and that taps do not disturb it.

What the vendor gives for such graphs is in `test_whole.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.program import Program, ProgramOperator, Route
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.testing.agreement import load_on

BY_NAME = {target.name: target for target in VSI_PROFILES}
V853 = BY_NAME["vsi:v853"]


def residual(scale: float = 0.1, *, relu: bool = False) -> Graph:
    """Return `y = Conv(a) + a`, `a = Conv(Conv(x))` earlier, and a ReLU behind: every tensor of the sum lies inside."""
    random = np.random.default_rng(3)
    weight = TensorType(DType.I8, (4, 4, 1, 1), Quantization((float(np.float32(0.005)),), (0,)))

    def kind(step: float, zero: int) -> TensorType:
        return TensorType(DType.I8, (1, 4, 6, 6), Quantization((float(np.float32(step)),), (zero,)))

    types = {
        "x": kind(0.04, 3),
        "f": kind(0.05, -4),
        "u": weight,
        "v": weight,
        "w": weight,
        "a": kind(0.06, -20),
        "p": kind(0.07, 11),
    }
    types |= {"r": types["p"], "s": kind(scale, 5), "y": kind(scale, 5)}
    constants = {name: random.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8) for name in "uvw"}
    nodes = [Node("first", "Conv", ("x", "u"), ("f",)), Node("stem", "Conv", ("f", "v"), ("a",))]
    nodes.append(Node("conv", "Conv", ("a", "w"), ("p",)))
    if relu:
        nodes.append(Node("between", "Relu", ("p",), ("r",)))
    else:
        del types["r"]
    nodes += [Node("sum", "Add", ("a", "r" if relu else "p"), ("s",)), Node("end", "Relu", ("s",), ("y",))]
    return Graph("residual", tuple(nodes), ("x",), ("y",), types, constants)


def lowered(graph: Graph, target: str = "vsi:v853") -> Program:
    return lower_graph(graph, part_of(BY_NAME[target]))


def the_sum(graph: Graph, target: str = "vsi:v853") -> ProgramOperator:
    (found,) = (operator for operator in lowered(graph, target).operators if operator.kind == "add")
    return found


@pytest.mark.parametrize("relu", [False, True])
def test_taps_change_nothing(relu: bool) -> None:
    graph = residual(relu=relu)
    sample = {"x": np.random.default_rng(1).integers(-128, 128, (1, 4, 6, 6)).astype(np.int8)}
    run = load_on(simulator, graph, V853, CompileOptions())
    found = run.run(sample)
    inner = ("a", "p", *(("r",) if relu else ()), "s")
    tapped = run.run(sample, inner)
    assert list(tapped) == ["y", *inner]
    assert np.array_equal(tapped["y"], found["y"])
    for name in inner[1:]:
        assert np.array_equal(run.run(sample, (name,))[name], tapped[name])


def test_what_is_joined() -> None:
    program = lowered(residual(relu=True))
    (total,) = (operator for operator in program.operators if operator.kind == "add")
    assert [program.operators[index].node for index in total.joins] == ["conv", "between"]
    assert total.route is Route.ADDER
    plain = lowered(residual())
    (total,) = (operator for operator in plain.operators if operator.kind == "add")
    assert [plain.operators[index].node for index in total.joins] == ["conv"]


def test_a_sum_of_signed_bytes_behind_a_convolution_of_the_input_is_left_alone() -> None:
    """The newest parts make garbage of the joined one."""
    whole = residual()
    nodes = (Node("stem", "Conv", ("x", "v"), ("a",)), *whole.nodes[2:])
    graph = Graph("near", nodes, whole.inputs, whole.outputs, whole.types, whole.constants)
    assert the_sum(whole).joins
    assert the_sum(graph).joins == ()


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
    assert the_sum(graph).joins
    for target in ("vsi:a311d", "vsi:imx8mp"):
        assert the_sum(graph, target).joins == ()
        assert the_sum(graph, target).route is Route.ARRAY


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp", "vsi:v853"])
def test_unsigned_bytes_that_a_graph_takes_are_added_in_a_shader(target: str) -> None:
    inner = unsigned(residual())
    graph = Graph("sum", inner.nodes[3:], ("a", "p"), ("y",), {tensor: inner.types[tensor] for tensor in "apsy"}, {})
    assert the_sum(graph, target).route is Route.SHADER


def test_what_is_not_joined() -> None:
    assert the_sum(residual(), "vsi:a311d").joins == ()
    # An operand of more than two steps of the output is summed by a convolution with two weights.
    narrow = the_sum(residual(0.03))
    assert narrow.joins == ()
    assert narrow.route is Route.ARRAY
