"""The placement problem: what one unit adds is what the whole assignments differ by."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.optimum import Assignment, Clause, Demands, Literal, PricedWire, Problem, solve
from dovetail.search.optimum.clauses import clause_of
from dovetail.search.optimum.problem import OUTSIDE

from .problems import problems


@settings(max_examples=200, deadline=None)
@given(problems(), st.data())
def test_one_unit_adds_what_the_costs_differ_by(problem: Problem, data: st.DataObject) -> None:
    before = [data.draw(st.integers(0, top)) for top in problem.top]
    unit = data.draw(st.integers(0, problem.size - 1))
    level = data.draw(st.integers(0, problem.top[unit]))
    after = [*before[:unit], level, *before[unit + 1 :]]
    assert problem.added_ns(before, unit, level) == pytest.approx(problem.cost(after) - problem.cost(before))


PAIR = Problem(((0, 1), (0, 1)), ((1.0, 2.0), (3.0, 4.0)), (), (0, 1), weight_bytes=((1, 2), (3, 4)))
"""Two units that do not read from each other."""


@pytest.mark.parametrize("levels", [(0,), (0, 0, 0)])
def test_an_assignment_of_another_problem_is_refused(levels: Assignment) -> None:
    """A level too few or too many would be a plan of other units."""
    with pytest.raises(ValueError, match="zip"):
        PAIR.cost(levels)
    with pytest.raises(ValueError, match="zip"):
        PAIR.stays(levels, frozenset())
    with pytest.raises(ValueError, match="zip"):
        clause_of(PAIR, levels)


@pytest.mark.parametrize("sizes", [((1, 2),), ((1, 2), (3, 4), (5, 6))])
def test_weights_are_those_of_every_unit(sizes: tuple[tuple[int, ...], ...]) -> None:
    bounded = replace(PAIR, weight_bytes=sizes, demands=Demands(most_weight_bytes=9))
    with pytest.raises(ValueError, match="zip"):
        bounded.meets_demands((0, 0))
    with pytest.raises(ValueError, match="zip"):
        solve(bounded)


@pytest.mark.parametrize("costs", [((1.0, 2.0), (3.0,)), ((1.0, 2.0, 3.0), (3.0, 4.0))])
def test_every_place_of_a_unit_has_its_cost(costs: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        solve(replace(PAIR, cost_ns=costs))


@pytest.mark.parametrize(
    ("name", "least"),
    [("most_weight_bytes", 4), ("most_latency_ns", 4.0), ("most_partitions", 1), ("most_crossing_bytes", 0)],
)
def test_what_is_just_allowed_keeps_the_demands(name: str, least: float) -> None:
    assert replace(PAIR, demands=Demands(**{name: least})).meets_demands((0, 0))  # type: ignore[arg-type]
    assert not replace(PAIR, demands=Demands(**{name: least - 1})).meets_demands((0, 0))  # type: ignore[arg-type]


FORK = Problem(
    choices=((0, 1), (0, 1), (0, 1)),
    cost_ns=((1.0, 2.0), (4.0, 8.0), (16.0, 32.0)),
    wires=(
        PricedWire(OUTSIDE, (0,), {(0, 1): 100.0}, {(0, 1): 1}),
        PricedWire(0, (1, 2), {(0, 1): 200.0, (1, 0): 400.0}, {(0, 1): 2, (1, 0): 4}),
        PricedWire(2, (OUTSIDE,), {}, {(1, 0): 8}),
    ),
    target_of=(0, 1),
    switch_ns=1000.0,
)
"""Two units read from a third, and the result of one of them leaves the graph."""


@pytest.mark.parametrize(
    ("levels", "switches", "cost", "crossing"),
    [
        ((0, 0, 0), 0, 21.0, 0),
        ((0, 1, 0), 1, 1225.0, 2),
        ((0, 0, 1), 2, 2237.0, 10),
        ((0, 1, 1), 2, 2241.0, 10),
        ((1, 0, 0), 2, 2522.0, 5),
        ((1, 1, 1), 2, 2142.0, 9),
        ((1, 0, 1), 2, 2538.0, 13),
    ],
)
def test_a_cost_by_hand(levels: Assignment, switches: int, cost: float, crossing: int) -> None:
    """What two readers at one place need is brought there once."""
    assert FORK.switches(levels) == switches
    assert FORK.cost(levels) == cost
    assert FORK.crossing_bytes(levels) == crossing


def _most_changes(problem: Problem, levels: Assignment) -> int:
    """Return the most changes of target on any way along the wires from home, by trying all ways."""
    readers = {(wire.producer, unit) for wire in problem.wires for unit in wire.consumers}
    target = [problem.target_of[problem.place(levels, unit)] for unit in range(problem.size)]
    home, most = problem.target_of[problem.home], 0
    ways = [([home, target[unit]], unit) for unit in range(problem.size)]
    while ways:
        way, last = ways.pop()
        ends = [way, [*way, home]] if (last, OUTSIDE) in readers else [way]
        most = max(most, *(sum(first != second for first, second in pairwise(end)) for end in ends))
        ways += [([*way, target[unit]], unit) for unit in range(problem.size) if (last, unit) in readers]
    return most


@settings(max_examples=60, deadline=None)
@given(problems(most=5), st.data())
def test_switches_are_the_changes_on_the_way_that_has_most(problem: Problem, data: st.DataObject) -> None:
    levels = tuple(data.draw(st.integers(0, top)) for top in problem.top)
    assert problem.switches(levels) == _most_changes(problem, levels)


@pytest.mark.parametrize(
    ("migrates", "named", "movable"),
    [
        (True, set(), {0, 1, 2, 3}),
        (False, set(), set()),
        (False, {1}, {1, 2}),
        (False, {0}, {0, 1, 2}),
        (False, {3}, {3}),
    ],
)
def test_what_may_leave_its_target_is_named_or_comes_after_what_is(
    migrates: bool, named: set[int], movable: set[int]
) -> None:
    """Three units in a chain, and one beside it."""
    wires = (PricedWire(0, (1,), {}), PricedWire(1, (2,), {}), PricedWire(OUTSIDE, (0, 3), {}))
    problem = Problem(((0, 1),) * 4, ((1.0, 2.0),) * 4, wires, (0, 1), migrates=migrates)
    assert problem.movable(named) == movable
    assert problem.stays((1, 0, 0, 0), problem.movable(named)) == (0 in movable)
    solution = solve(
        replace(problem, cost_ns=((2.0, 1.0),) * 4), [Clause(frozenset({Literal(u, 0)}), ()) for u in named]
    )
    assert solution is not None
    assert {unit for unit, level in enumerate(solution.assignment) if level} == movable


def test_levels_below_a_fault_are_raised_in_any_unit_that_can_be() -> None:
    literals = clause_of(replace(PAIR, choices=((0, 1), (0,))), (0, 0)).literals
    assert literals == {Literal(0, 1)}
    assert clause_of(PAIR, (1, 0)).literals == {Literal(1, 1)}
    assert clause_of(PAIR, (1, 1)).literals == frozenset()


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
