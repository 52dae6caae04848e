"""Quantities of operators against sums by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.backend.target import HardwareFacts
from dovetail.cost.features import Features, cycles, kind_of, kinds_of
from dovetail.cost.sizes import Sizer
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.testing.networks import Network

FACTS = HardwareFacts(
    nn_cores=3,
    macs_per_cycle=576,
    clock_hz=1_000_000_000,
    ddr_bytes_per_cycle=4.0,
    sram_bytes=4096,
    sdk_name="",
    source="made up",
)


def values(graph: Graph, name: str, precision: Precision = Precision.U8) -> dict[str, float]:
    """Return the quantities of a node."""
    return Features(graph, graph.node(name), precision, FACTS, Sizer(graph)).values()


def test_a_convolution_in_the_middle_of_a_graph() -> None:
    net = Network()
    x = net.op("Relu", net.input("x", 1, 4, 8, 8))
    graph = net.graph(net.op("Relu", net.conv(x, 5, 3, bias=False)))
    macs = 5 * 64 * 4 * 9 / (3 * 64)
    assert values(graph, "n1") == {
        "rounds": pytest.approx(macs * 6 / 5),  # 5 channels take two rounds of 3 cores
        "lanes": pytest.approx(macs),  # 64 pixels fill 64 lanes
        "stored": 5 * 64 / 8,
        "loaded": 4 * 64 / 16,
        "weights": 5 * 4 * 9 / 4,
        "near_in": 4 * 64 / 4,
        "near_out": 5 * 64 / 4,
        "window_in": 8 * 4 * 64 / 4,
        "turned_in": 4 * 64 / 4,  # a clamp that clamps no product runs on another engine
        "turns_in": 1000.0,
        "late": 1000.0 * 5 * 64 / 1200,
        "fixed": 1.0,
    }


def test_two_bytes_double_what_is_moved_and_not_what_is_multiplied() -> None:
    net = Network()
    graph = net.graph(net.conv(net.input("x", 1, 4, 8, 8), 5))
    byte, word = values(graph, "n0"), values(graph, "n0", Precision.I16)
    assert word["rounds"] == byte["rounds"]
    assert {name: word[name] / byte[name] for name in ("stored", "first_in", "last_out")} == {
        "stored": 2.0,
        "first_in": 2.0,
        "last_out": 2.0,
    }


@pytest.mark.parametrize(("side", "distance"), [(8, "near"), (16, "middle"), (32, "far")])
def test_distance_goes_by_the_parts_own_memory(side: int, distance: str) -> None:
    net = Network()
    made = net.conv(net.conv(net.input("x", 1, 4, side, side), 4), 4)
    found = values(net.graph(net.conv(made, 4)), "n1")
    assert {f"{distance}_in", f"{distance}_out"} <= set(found)
    # 8 x 32 x 32 bytes are twice the memory of 4096.
    assert found.get("tiles", 0.0) == (1000.0 if side == 32 else 0.0)


def test_what_several_read_is_seldom_kept() -> None:
    net = Network()
    first = net.conv(net.input("x", 1, 4, 16, 16), 4)
    graph = net.graph(net.conv(first, 4), net.conv(first, 4))
    assert "shared_out" in values(graph, "n0")
    assert "shared_in" in values(graph, "n1")


def test_what_enters_and_leaves_a_graph_or_goes_to_another_engine_may_be_copied() -> None:
    net = Network()
    first = net.conv(net.input("x", 1, 4, 8, 8), 4)
    graph = net.graph(net.op("Sigmoid", net.op("MaxPool", first, shape=(1, 4, 8, 8), kernel_shape=(1, 1))))
    copies = ("entered", "enters", "turned_in", "turns_in", "turned_out", "turns_out", "left", "leaves")
    found = {
        node.name: {key: value for key, value in values(graph, node.name).items() if key in copies}
        for node in graph.nodes
    }
    size = 4 * 64 / 4
    assert found == {
        "n0": {"entered": size, "enters": 1000.0, "turned_out": size, "turns_out": 1000.0},
        "n1": {"turned_in": size, "turns_in": 1000.0},
        "n2": {"left": size, "leaves": 1000.0},
    }


def test_small_tensors_hide_the_latency_of_the_memory() -> None:
    net = Network()
    graph = net.graph(net.op("Sigmoid", net.input("x", 1, 600)), net.op("Sigmoid", net.input("y", 1, 2400)))
    assert (values(graph, "n0")["late"], values(graph, "n1")["late"]) == (500.0, 1000.0)
    assert values(graph, "n0", Precision.I16)["late"] == 1000.0


def test_kinds_of_work() -> None:
    net = Network()
    x = net.input("x", 1, 4, 8, 8)
    depth = net.op("Conv", x, net.uniform(4, 1, 3, 3), group=4, pads=(1, 1, 1, 1))
    group = net.op("Conv", depth, net.uniform(4, 2, 1, 1), group=2)
    gate = net.op("Mul", group, net.op("Sigmoid", group))
    dense = net.op("MatMul", gate, net.uniform(8, 8))
    turned = net.op("MatMul", dense, gate)
    graph = net.graph(net.conv(net.conv(net.op("Mul", turned, net.op("Sigmoid", x)), 4, 3), 2))
    assert [kind_of(graph, node, Precision.U8) for node in graph.nodes] == [
        *("depthwise", "grouped", "gate Sigmoid", "gate Mul", "dense", "dynamic", "Sigmoid", "Mul", "window"),
        "pointwise",
    ]


def test_a_transposed_convolution_of_each_channel_alone_is_a_kind_of_its_own() -> None:
    net = Network()
    x = net.input("x", 1, 4, 8, 8)
    wide, form = net.uniform(4, 4, 2, 2), {"kernel_shape": (2, 2), "strides": (2, 2)}
    whole = net.op("ConvTranspose", x, wide, shape=(1, 4, 16, 16), **form)
    alone = net.op("ConvTranspose", whole, net.uniform(4, 1, 2, 2), shape=(1, 4, 32, 32), group=4, **form)
    graph = net.graph(alone)
    assert [kind_of(graph, node, Precision.U8) for node in graph.nodes] == ["ConvTranspose", "grouped ConvTranspose"]


def test_quarters_of_a_picture() -> None:
    net = Network()
    x = net.input("x", 1, 1, 4, 4)
    numbers = [net.constant(np.array(value)) for value in ([0, 0], [4, 4], [2, 3], [2, 2])]
    parts = [net.op("Slice", x, *numbers, shape=(1, 1, 2, 2)) for _ in range(2)]
    whole = net.op("Concat", *parts, shape=(1, 2, 2, 2), axis=1)
    graph = net.graph(net.op("Concat", whole, parts[0], shape=(1, 3, 2, 2), axis=1))
    kinds = [kind_of(graph, graph.node(name), Precision.U8) for name in ("n2", "n3")]
    assert kinds == ["quarter Concat", "shared Concat"]


@pytest.mark.parametrize(
    ("before", "precision", "kind"),
    [
        ("Tanh", Precision.U8, "plain Concat"),
        ("Relu", Precision.U8, "copying Concat"),  # of one sign, and so on other bytes than what it is joined to
        ("Relu", Precision.I16, "plain Concat"),  # the same power of two
        ("Sigmoid", Precision.I16, "copying Concat"),
        ("Relu", Precision.I8, "copying Concat"),
        ("Relu", Precision.I8DFP, "plain Concat"),
        ("Relu", Precision.FP16, "plain Concat"),
    ],
)
def test_what_is_rescaled_is_copied_when_it_is_joined(before: str, precision: Precision, kind: str) -> None:
    net = Network()
    parts = [net.op(before, net.input(name, 1, 2, 4, 4)) for name in "xy"]
    graph = net.graph(net.op("Concat", *parts, shape=(1, 4, 4, 4), axis=1))
    assert kind_of(graph, graph.nodes[-1], precision) == kind
    assert values(graph, "n2", precision)["joins"] == 2000.0


@pytest.mark.parametrize(("axis", "kind"), [(1, "plain"), (-3, "plain"), (2, "copying"), (-1, "copying")])
def test_what_lies_apart_is_copied_when_it_is_joined(axis: int, kind: str) -> None:
    net = Network()
    sizes = [2, 4, 4]
    sizes[axis if axis < 0 else axis - 1] *= 2
    parts = [net.op("Tanh", net.input(name, 1, 2, 4, 4)) for name in "xy"]
    graph = net.graph(net.op("Concat", *parts, shape=(1, *sizes), axis=axis))
    assert kind_of(graph, graph.nodes[-1], Precision.U8) == f"{kind} Concat"


@pytest.mark.parametrize(
    ("channels", "ends", "crossed"),
    [
        (3, "output", 3 * 20 * 20 / 16),
        (3, "Concat", 3 * 20 * 20 / 16),
        (3, "Sigmoid", 0.0),  # stays in the part's own memory
        (200, "Sigmoid", 200 * 20 * 20 / 16),  # does not fit into it
        (1, "output", 0.0),  # one row is a column already
    ],
)
def test_rows_that_become_columns_in_memory_are_read_once_for_every_element(
    channels: int, ends: str, crossed: float
) -> None:
    net = Network()
    turned = net.op("Transpose", net.input("x", 1, channels, 20), shape=(1, 20, channels), perm=(0, 2, 1))
    if ends == "Concat":
        turned = net.op("Concat", turned, turned, shape=(1, 40, channels), axis=1)
    elif ends == "Sigmoid":
        turned = net.op("Sigmoid", turned)
    assert values(net.graph(turned), "n0").get("crossed", 0.0) == pytest.approx(crossed / 4)


@pytest.mark.parametrize(
    ("perm", "kind"), [((0, 2, 1, 3), "Transpose"), ((0, 1, 3, 2), "turning Transpose"), ((), "turning Transpose")]
)
def test_a_transpose_that_moves_the_last_axis_is_another_one(perm: tuple[int, ...], kind: str) -> None:
    net = Network()
    attributes = {"perm": perm} if perm else {}
    graph = net.graph(net.op("Transpose", net.input("x", 1, 2, 2, 2), **attributes))
    assert kind_of(graph, graph.nodes[0], Precision.U8) == kind


def test_the_slowest_of_three_hides_the_others() -> None:
    quantities = {"rounds": 100.0, "stored": 10.0, "weights": 20.0, "tiles": 50.0, "fixed": 1.0}
    coefficients = {"rounds": 2.0, "stored": 1.0, "weights": 0.5, "tiles": 3.0, "fixed": 7.0, "far_in": 9.0}
    assert cycles(coefficients, quantities) == pytest.approx((200.0**4 + 10.0**4 + 10.0**4) ** 0.25 + 150.0 + 7.0)
    assert cycles({}, quantities) == 0.0


def test_parts_of_one_node_are_joined_where_they_are_and_other_tensors_copied() -> None:
    net = Network()
    x = net.input("x", 1, 4, 8, 8)
    first, second = (net.op("Relu", net.conv(x, 4, 3)) for _ in range(2))
    joined = net.op("Concat", first, second, shape=(1, 8, 8, 8), axis=1)
    graph = net.graph(net.op("Relu", net.conv(joined, 4)))
    whole = ("conv", "relu")
    parts = [replace(node, origin=whole) if number < 5 else node for number, node in enumerate(graph.nodes)]
    assert kind_of(graph, graph.node("n4"), Precision.U8) == "copying Concat"
    split = replace(graph, nodes=tuple(parts))
    assert kind_of(split, split.node("n4"), Precision.U8) == "plain Concat"


@pytest.mark.parametrize(("elements", "kinds"), [(511, ("small Add", "Add")), (512, ("Add",))])
def test_few_elements_are_a_kind_of_their_own(elements: int, kinds: tuple[str, ...]) -> None:
    net = Network()
    x = net.input("x", 1, elements)
    graph = net.graph(net.op("Add", x, x))
    assert kinds_of(graph, graph.node("n0"), Precision.I8PC) == kinds


def test_a_product_is_of_one_kind_however_few_it_makes() -> None:
    net = Network()
    graph = net.graph(net.conv(net.input("x", 1, 4, 1, 1), 4))
    assert kinds_of(graph, graph.node("n0"), Precision.U8) == ("pointwise",)


@pytest.mark.parametrize(
    ("before", "sums", "parts"), [("Add", 1, 0), ("Sub", 1, 0), ("Slice", 0, 1), ("Tanh", 0, 0), ("Mul", 0, 0)]
)
def test_operands_that_sums_and_parts_of_tensors_are_count(before: str, sums: int, parts: int) -> None:
    net = Network()
    x = net.input("x", 1, 4, 8, 8)
    if before == "Slice":
        bounds = [net.constant(np.array([at], np.int64)) for at in (0, 2, 1)]
        made = net.op("Slice", x, *bounds, shape=(1, 2, 8, 8))
    else:
        made = net.op(before, *([x] if before == "Tanh" else [x, net.uniform(4, 8, 8)]))
    graph = net.graph(net.op("Sigmoid", made))
    found = values(graph, graph.nodes[-1].name)
    assert (found.get("sums_in", 0.0), found.get("parts_in", 0.0)) == (1000.0 * sums, 1000.0 * parts)
