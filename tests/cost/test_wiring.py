"""Wires between units, and partitions counted along them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.wiring import WORLD, Wire, Wiring, wire_units
from dovetail.ir import Graph, parse_graph
from dovetail.partition.schedule import schedule
from dovetail.plan import find_units
from dovetail.plan.units import Unit, Units
from dovetail.testing.networks import networks


def _graph(*lines: str) -> Graph:
    return parse_graph("\n".join(['graph "g" opset 21', *lines, "end", ""]))


def _alone(graph: Graph) -> Units:
    return Units(tuple(Unit(node.name, (node.name,)) for node in graph.nodes))


def test_wires_by_hand() -> None:
    graph = _graph(
        'input "x": f32[4]',
        'constant "k": f32[4] = [1, 2, 3, 4]',
        '"a" = Sigmoid("x") -> ("ta": f32[4])',
        '"b" = Add("ta", "k") -> ("tb": f32[4])',
        '"c" = Mul("ta", "ta") -> ("tc": f32[4])',
        'output "ta"',
        'output "tb"',
        'output "tc"',
        'output "k"',
        'output "x"',
    )
    wiring = wire_units(graph, _alone(graph))
    assert wiring.order == ("a", "b", "c")
    # What goes straight through belongs to nobody, and constants are no wires.
    assert set(wiring.wires) == {
        Wire("x", WORLD, ("a",)),
        Wire("ta", "a", ("b", "c", WORLD)),
        Wire("tb", "b", (WORLD,)),
        Wire("tc", "c", (WORLD,)),
    }
    assert wiring.sources == {"a": (WORLD,), "b": ("a",), "c": ("a",)}
    assert sorted(wiring.ends) == ["a", "b", "c"]


def test_a_tensor_inside_a_unit_is_no_wire() -> None:
    graph = _graph(
        'input "x": f32[4]',
        '"a" = Add("x", "x") -> ("ta": f32[4])',
        '"b" = Relu("ta") -> ("tb": f32[4])',
        '"c" = Sigmoid("tb") -> ("tc": f32[4])',
        'output "tc"',
    )
    wiring = wire_units(graph, Units((Unit("a", ("a", "b")), Unit("c", ("c",)))))
    assert wiring.wires == (Wire("x", WORLD, ("a",)), Wire("tb", "a", ("c",)), Wire("tc", "c", (WORLD,)))


def test_units_are_ordered_by_what_they_need_and_not_by_their_first_nodes() -> None:
    graph = _graph(
        'input "x": f32[4]',
        '"a" = Sigmoid("x") -> ("ta": f32[4])',
        '"b" = Sigmoid("x") -> ("tb": f32[4])',
        '"c" = Add("ta", "tb") -> ("tc": f32[4])',
        'output "tc"',
    )
    # The unit that begins first ends last: it needs b.
    assert wire_units(graph, Units((Unit("a", ("a", "c")), Unit("b", ("b",))))).order == ("b", "a")


def test_every_change_of_target_on_a_way_is_a_partition() -> None:
    chain = Wiring(
        ("a", "b", "c"),
        (Wire("x", WORLD, ("a",)), Wire("ta", "a", ("b",)), Wire("tb", "b", ("c",)), Wire("tc", "c", (WORLD,))),
    )
    expected = {"ccc": 1, "ncc": 3, "cnc": 3, "ccn": 3, "nnn": 3, "ncn": 5, "nnc": 3, "cnn": 3}
    for places, count in expected.items():
        target_of = {unit: {"c": "cpu", "n": "npu"}[place] for unit, place in zip("abc", places, strict=True)}
        assert chain.partition_count(target_of) == count, places


def test_nothing_is_one_partition() -> None:
    assert Wiring((), ()).partition_count({}) == 1
    assert Wiring((), (Wire("x", WORLD, (WORLD,)),)).partition_count({}) == 1


def test_a_unit_without_inputs_begins_away_from_the_cpu() -> None:
    made_there = Wiring(("a", "b"), (Wire("ta", "a", ("b",)), Wire("tb", "b", (WORLD,))))
    assert made_there.partition_count({"a": "npu", "b": "npu"}) == 3
    assert made_there.partition_count({"a": "npu", "b": "cpu"}) == 3
    assert made_there.partition_count({"a": "cpu", "b": "npu"}) == 3


@settings(max_examples=150, deadline=None)
@given(networks(most=10), st.data())
def test_with_three_targets_the_count_is_no_more_than_the_schedules(graph: Graph, data: st.DataObject) -> None:
    units = find_units(graph)
    target_of = {unit.name: data.draw(st.sampled_from(["cpu", "npu", "dsp"])) for unit in units.items}
    nodes = {name: target_of[unit.name] for unit in units.items for name in unit.nodes}
    count = wire_units(graph, units).partition_count(target_of)
    # The world outside is on the CPU: partitions of it may stand before and after those of the schedule.
    assert count <= len(schedule(graph, nodes)) + 2


def test_neighbours_hang_together_by_wires_among_them() -> None:
    wires = (("a", ("b", "c")), ("b", ("d",)), ("c", ("d",)), ("d", ("e", WORLD)), ("e", ("f",)))
    wiring = Wiring(tuple("abcdef"), tuple(Wire(f"t{made}", made, read) for made, read in wires))
    assert wiring.neighbours(("f", "a", "c", "d")) == [("f",), ("a", "c", "d")]
    # Those that one tensor reaches hang together.
    assert wiring.neighbours(("b", "c", "f", "x")) == [("b", "c"), ("f",), ("x",)]
    assert wiring.neighbours(()) == []
