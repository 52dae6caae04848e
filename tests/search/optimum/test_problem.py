"""The placement problem: what one unit adds is what the whole assignments differ by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.optimum import Problem

from .problems import problems


@settings(max_examples=200, deadline=None)
@given(problems(), st.data())
def test_one_unit_adds_what_the_costs_differ_by(problem: Problem, data: st.DataObject) -> None:
    before = [data.draw(st.integers(0, top)) for top in problem.top]
    unit = data.draw(st.integers(0, problem.size - 1))
    level = data.draw(st.integers(0, problem.top[unit]))
    after = [*before[:unit], level, *before[unit + 1 :]]
    assert problem.added_ns(before, unit, level) == pytest.approx(problem.cost(after) - problem.cost(before))


@settings(max_examples=100, deadline=None)
@given(problems())
def test_every_wire_is_known_at_both_of_its_ends(problem: Problem) -> None:
    for unit, wires in enumerate(problem.wires_of):
        assert list(wires) == [wire for wire in problem.wires if unit in (wire.producer, *wire.consumers)]


@settings(max_examples=100, deadline=None)
@given(problems())
def test_neighbours_share_a_wire(problem: Problem) -> None:
    for unit, near in enumerate(problem.neighbours):
        reads = {(wire.producer, consumer) for wire in problem.wires for consumer in wire.consumers}
        other = {a if b == unit else b for a, b in reads if unit in (a, b)}
        assert near == {item for item in other if item >= 0 and item != unit}
