"""Operators that are lowered to others: on the simulator against exact arithmetic, with the steps that may differ."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.reference import run_graph
from dovetail.backends.verisilicon.lowering.table import LOWERINGS, lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.agreement import load_on
from dovetail.testing.cases import CASES, quantized

from .conftest import target_named

SIZES = (3, 4, 2, 5)
PARTS = [profile.name for profile in VSI_PROFILES]
CHOICES = ("Mean", "Shrink", "ThresholdedRelu", "Trilu")
_STEP = Quantization((0.0625,), (100,))


def picking(op: str, indices: AnyArray, more: tuple[int, ...], made: tuple[int, ...], **attributes: object) -> Graph:
    """Return a graph of one operator: data, constant indices, and a second input where `more` gives its shape."""
    kinds = {
        "x": TensorType(DType.U8, SIZES, _STEP),
        "i": TensorType(DType.I64, indices.shape),
        "y": TensorType(DType.U8, made, _STEP),
    }
    inputs: tuple[str, ...] = ("x", "i")
    if more:
        kinds["u"] = TensorType(DType.U8, more, _STEP)
        inputs = (*inputs, "u")
    node = Node("node", op, inputs, ("y",), attributes)
    edges = tuple(name for name in inputs if name != "i")
    return Graph(op, (node,), edges, ("y",), kinds, {"i": indices.astype(np.int64)})


GRAPHS = {
    "whole index": picking("GatherND", np.array([[0, 3, 1, 4], [-1, -4, 0, 0]]), (), (2,)),
    "slices": picking("GatherND", np.array([[[0, 3]], [[2, -1]]]), (), (2, 1, 2, 5)),
    "one axis": picking("GatherND", np.array([[2], [0], [2]]), (), (3, 4, 2, 5)),
    "scattered slices": picking("ScatterND", np.array([[2, 1], [0, -1]]), (2, 2, 5), SIZES),
    "scattered values": picking("ScatterND", np.array([[2, 1, 0, 4], [0, 0, 0, 0]]), (2,), SIZES),
    "time first": picking("ReverseSequence", np.array([1, 2, 3, 3]), (), SIZES, time_axis=0, batch_axis=1),
    "batch first": picking("ReverseSequence", np.array([1, 4, 3]), (), SIZES, time_axis=1, batch_axis=0),
}


@pytest.mark.sdk
@pytest.mark.parametrize("name", GRAPHS)
def test_values_arrive_where_they_belong(name: str, graphs: VsiBackend) -> None:
    graph, target = GRAPHS[name], target_named("vsi:v853")
    random = np.random.default_rng(5)
    sample = {
        one: random.integers(0, 256, graph.types[one].static_shape or ()).astype(np.uint8) for one in graph.inputs
    }
    executable = load_on(graphs, graph, target, CompileOptions())
    found = executable.run(sample)["y"]
    executable.close()
    assert np.array_equal(found, run_graph(graph, sample)["y"])


@pytest.mark.sdk
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I16, Precision.FP16])
@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_exact(name: str, precision: Precision, graphs: VsiBackend) -> None:
    _compare(name, precision, 0, graphs)


@pytest.mark.sdk
@pytest.mark.slow
@pytest.mark.parametrize("target", [name for name in PARTS if name != "vsi:v853"])
@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_what_every_part_gives(name: str, target: str, graphs: VsiBackend) -> None:
    """On the newest part a mean is off by one now and then."""
    _compare(name, Precision.U8, int((name, target) == ("Mean", "vsi:a733")), graphs, target)


@pytest.mark.sdk
@pytest.mark.slow
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I16])
def test_the_length_is_within_one_step(precision: Precision, graphs: VsiBackend) -> None:
    """Its shader takes the root of a float32 sum: a tie may fall to the other side."""
    _compare("ReduceL2", precision, 1, graphs)


def _compare(name: str, precision: Precision, steps: int, graphs: VsiBackend, part: str = "vsi:v853") -> None:
    target = target_named(part)
    case = quantized(next(case for case in CASES if case.name == name), precision)
    executable = load_on(graphs, case.graph, target, CompileOptions())
    for sample in case.inputs[:4]:
        wanted = run_graph(case.graph, dict(sample), target.arithmetic)
        for output, value in executable.run(sample).items():
            gap = np.abs(value.astype(np.float64) - wanted[output].astype(np.float64)).max()
            assert gap <= steps
    executable.close()


@pytest.mark.sdk
@pytest.mark.slow
def test_a_remainder_has_the_sign_of_its_dividend(graphs: VsiBackend) -> None:
    kinds = {name: TensorType(DType.F32, (2, 3, 4)) for name in ("x", "d", "y")}
    graph = Graph("mod", (Node("node", "Mod", ("x", "d"), ("y",), {"fmod": 1}),), ("x", "d"), ("y",), kinds, {})
    random = np.random.default_rng(6)
    # Multiples of an eighth: every step of a remainder is exact, so that no rounding hides a wrong sign.
    sample = {
        "x": (random.integers(-80, 80, (2, 3, 4)) / 8).astype(np.float32),
        "d": (random.choice([-1, 1], (2, 3, 4)) * random.integers(5, 20, (2, 3, 4)) / 4).astype(np.float32),
    }
    executable = load_on(graphs, graph, target_named("vsi:v853"), CompileOptions())
    found = executable.run(sample)["y"]
    executable.close()
    assert np.allclose(found, np.fmod(sample["x"], sample["d"]), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (picking("GatherND", np.array([[3, 0]]), (), (1, 2, 5)), "outside"),
        (picking("GatherND", np.array([[0, -5]]), (), (1, 2, 5)), "outside"),
        (picking("GatherND", np.array([[0, 1]]), (), (1, 2, 5), batch_dims=1), "batch dimensions"),
        (picking("ScatterND", np.array([[0, 1], [0, 1]]), (2, 2, 5), SIZES), "the same place"),
        (picking("ScatterND", np.array([[0, 1]]), (1, 2, 5), SIZES, reduction="add"), "reduction='add'"),
        (picking("ScatterND", np.array([[0, 1]]), (2, 2, 5), SIZES), "do not fit"),
        (picking("ReverseSequence", np.array([1, 2, 3, 9]), (), SIZES, time_axis=0, batch_axis=1), "lengths"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(graph: Graph, reason: str) -> None:
    with pytest.raises(CompileError, match=reason):
        lower_graph(graph, part_of(target_named("vsi:v853")))


def test_at_least_a_hundred_operators_are_lowered() -> None:
    assert len(LOWERINGS) >= 100
    assert len({op for op in LOWERINGS if op[:1].isupper()}) == len(LOWERINGS)
