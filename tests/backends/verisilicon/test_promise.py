"""What a verdict accepts is lowered: every kind of operator, with attributes, shapes and ranges that nobody picked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backends.verisilicon.lowering import trial
from dovetail.backends.verisilicon.lowering.table import LOWERINGS, lower_graph, lower_node
from dovetail.backends.verisilicon.lowering.view import ProgramDraft
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import VsiProfile
from dovetail.errors import CompileError
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.quantize.quantizer import Quantizer
from dovetail.quantize.ranges import Range, Ranges
from dovetail.testing.networks import Network
from dovetail.testing.wild import WILD_OPERATORS, wild_operator, wild_range


class Promises:
    """Ask every part about one graph at every precision, and hold it to its word."""

    def __init__(self, graph: Graph, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ranges = {name: Range(*wild_range(rng)) for name, kind in graph.types.items() if kind.holds_reals}
        self.graph = graph
        self.quantizer = Quantizer(graph, Ranges(graph.digest, "random", 1, ranges))
        self.asked = self.accepted = 0
        self.broken: list[str] = []

    def check(self, profile: VsiProfile) -> None:
        """Ask one part, and lower what it accepts."""
        for precision in profile.precisions:
            self.asked += 1
            if profile.verdict(self.graph, self.graph.nodes[0], precision).supported:
                self.accepted += 1
                self._lower(profile, precision)

    def _lower(self, profile: VsiProfile, precision: Precision) -> None:
        plan = Plan(self.graph.digest, Placement(profile.name, precision))
        for part in partition(self.quantizer.quantize(plan)).partitions:
            if part.target != profile.name:
                continue
            try:
                lower_graph(part.graph, profile.part)
            except CompileError as error:
                self.broken.append(f"{self.graph.name} at {precision.value}: {error}")


@settings(max_examples=150)
@given(op=st.sampled_from(WILD_OPERATORS), seed=st.integers(0, 2**32 - 1))
def test_nothing_that_a_verdict_accepts_is_refused_later(op: str, seed: int) -> None:
    promises = Promises(wild_operator(op, seed).graph(), seed)
    for profile in VSI_PROFILES:
        promises.check(profile)
    assert not promises.broken


@pytest.mark.parametrize("op", WILD_OPERATORS)
def test_no_operator_breaks_its_word(op: str) -> None:
    drawn = [Promises(wild_operator(op, seed).graph(), seed) for seed in range(12)]
    for promises in drawn:
        promises.check(VSI_PROFILES[0])
    assert not [text for promises in drawn for text in promises.broken]


def test_every_operator_of_the_rules_is_drawn_or_cannot_be_lowered() -> None:
    listed = {op for profile in VSI_PROFILES for rule in profile.rules for op in rule.ops}
    of_truths_and_types = {"And", "Cast", "Not", "Or"}
    assert (listed & LOWERINGS.keys()) - of_truths_and_types <= set(WILD_OPERATORS)


V853 = next(profile for profile in VSI_PROFILES if profile.name == "vsi:v853")


def _reason(graph: Graph, precision: Precision = Precision.U8) -> str:
    return V853.verdict(graph, graph.nodes[-1], precision).reason


def _convolution(kernel: int, size: int, shape: tuple[int, ...], **attributes: object) -> Graph:
    net = Network()
    weight = net.uniform(6, 4, kernel, kernel)
    return net.graph(net.op("Conv", net.input("x", 1, 4, size, size), weight, shape=shape, **attributes))


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (_convolution(256, 300, (1, 6, 45, 45)), "kernel 256x256 > 15"),
        (_convolution(1, 8, (1, 6, 10, 10), pads=(1, 1, 1, 1)), "[1, 1, 1, 1] around 1x1 (narrower ones"),
    ],
)
def test_a_refusal_names_the_shape_the_limit_and_what_is_possible(graph: Graph, reason: str) -> None:
    assert reason in _reason(graph)


def test_a_power_of_what_is_never_negative_is_lowered_whatever_its_range() -> None:
    net = Network()
    graph = net.graph(
        net.op(
            "Pow",
            net.op("GlobalAveragePool", net.op("Relu", net.input("x", 1, 4, 8, 8)), shape=(1, 4, 1, 1)),
            net.constant(0.3),
        )
    )
    assert _reason(graph) == ""
    assert "(whole ones and 0.5 are possible" in _reason(graph, Precision.I16)
    ranges = {name: Range(-1.0, 1.0) for name, kind in graph.types.items() if kind.holds_reals}
    plan = Plan(graph.digest, Placement(V853.name, Precision.U8))
    quantised = Quantizer(graph, Ranges(graph.digest, "wrong", 1, ranges)).quantize(plan)
    for part in partition(quantised).partitions:
        if part.target == V853.name:
            assert lower_graph(part.graph, V853.part).operators


def test_a_reduction_over_a_symbolic_batch_is_refused() -> None:
    net = Network()
    assert "first size only" in _reason(net.graph(net.op("ReduceMax", net.input("x", "N", 4), shape=(1, 1))))
    net = Network()
    assert _reason(net.graph(net.op("Relu", net.input("x", "N", 4)))) == ""


def test_a_verdict_reads_no_element_of_a_weight() -> None:
    """Weights of 64 TiB: nothing could read or copy them."""
    many = 1 << 22
    shape = (many, many, 1, 1)
    weight = np.broadcast_to(np.float32(0.5), shape)
    types = {"x": (1, many, 1, 1), "w": shape, "y": (1, many, 1, 1)}
    node = Node("n", "Conv", ("x", "w"), ("y",))
    kinds = {name: TensorType(DType.F32, size) for name, size in types.items()}
    graph = Graph("g", (node,), ("x",), ("y",), kinds, {"w": weight})
    assert "more than 268435456 elements" in _reason(graph)
    assert "more than 268435456 elements" in _reason(graph, Precision.FP32)


def test_equal_nodes_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict on 10,000 nodes has to stay below a second."""
    tried: list[Node] = []

    def counted(draft: ProgramDraft, node: Node) -> None:
        tried.append(node)
        lower_node(draft, node)

    monkeypatch.setattr(trial, "lower_node", counted)
    net = Network()
    last = net.input("x", 1, 3, 19, 23)
    for _ in range(300):
        last = net.op("Mul", net.op("Sigmoid", last), last)
    graph = net.graph(last)
    assert all(V853.verdict(graph, node, Precision.U8).supported for node in graph.nodes)
    assert len(tried) <= 2


@pytest.mark.parametrize("precision", [Precision.I8, Precision.I8PC], ids=lambda found: found.value)
def test_what_is_always_nothing_is_not_taken_for_fixed_point(precision: Precision) -> None:
    """A bias of local responses has no form in dynamic fixed point; a step of 1 is not one of it."""
    kinds = {name: TensorType(DType.F32, (1, 3, 4, 4)) for name in ("x", "y")}
    node = Node("n", "LRN", ("x",), ("y",), {"size": 3, "bias": 2.0})
    graph = Graph("nothing", (node,), ("x",), ("y",), kinds, {})
    ranges = Ranges(graph.digest, "nothing", 1, {name: Range(0.0, 0.0) for name in kinds})
    lowered = 0
    for profile in VSI_PROFILES:
        if not profile.verdict(graph, node, precision).supported:
            continue
        quantised = Quantizer(graph, ranges).quantize(Plan(graph.digest, Placement(profile.name, precision)))
        for part in partition(quantised).partitions:
            if part.target == profile.name:
                lower_graph(part.graph, profile.part)
                lowered += 1
    assert lowered
