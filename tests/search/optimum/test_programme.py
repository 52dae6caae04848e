"""The minimum cut and the integer programme against trying every assignment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.errors import SearchError
from dovetail.search.optimum import Clause, Demands, Literal, PricedWire, Problem, solve
from dovetail.search.optimum.problem import OUTSIDE
from dovetail.search.policy import SolverPolicy
from zoo.minimum_cut import minimum_cut

from .problems import cheapest, demands, problems


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(problems(places=2, most=9, switch=False))
def test_the_cut_is_the_cheapest_of_all_assignments(problem: Problem) -> None:
    assert problem.cost(minimum_cut(problem)) == cheapest(problem)


def test_a_tensor_with_two_readers_crosses_once() -> None:
    wire = PricedWire(0, (1, 2), {(0, 1): 10.0, (1, 0): 10.0})
    problem = Problem(((0,), (0, 1), (0, 1)), ((0.0,), (6.0, 0.0), (6.0, 0.0)), (wire,), (0, 1))
    assert minimum_cut(problem) == (0, 1, 1)
    assert problem.cost((0, 1, 1)) == 10.0


@settings(max_examples=5, deadline=None)
@given(problems(places=3))
def test_the_cut_refuses_what_it_cannot_solve(problem: Problem) -> None:
    with pytest.raises(SearchError, match="two places"):
        minimum_cut(replace(problem, switch_ns=1.0))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(problems(), st.data())
def test_the_programme_is_the_cheapest_that_keeps_the_demands(problem: Problem, data: st.DataObject) -> None:
    problem = replace(problem, demands=data.draw(demands(problem.size)))
    solution = solve(problem)
    expected = cheapest(problem)
    if solution is None:
        assert expected == float("inf")
    else:
        assert problem.meets_demands(solution.assignment)
        assert solution.cost_ns == pytest.approx(expected)
        assert solution.bound_ns == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("direct", [0, 10_000])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(), st.data())
def test_large_programmes_are_solved_as_well_by_way_of_their_relaxation(
    direct: int, problem: Problem, data: st.DataObject
) -> None:
    """Clauses of several literals leave fractions, so that every way through is taken."""
    literal = st.builds(lambda unit, level: Literal(unit, min(level, problem.top[unit])), *_any_literal(problem))
    clauses = [
        Clause(frozenset(item), (0,) * problem.size)
        for item in data.draw(st.lists(st.lists(literal, min_size=2, max_size=3), max_size=4))
    ]
    solution = solve(problem, clauses, policy=SolverPolicy(whole=0, direct=direct))
    expected = cheapest(problem, lambda item: all(clause.holds(item) for clause in clauses))
    assert solution is not None
    assert all(clause.holds(solution.assignment) for clause in clauses)
    assert solution.cost_ns == pytest.approx(expected, rel=1e-5)
    assert solution.bound_ns == pytest.approx(expected, rel=1e-5)


def _any_literal(problem: Problem) -> tuple[st.SearchStrategy[int], st.SearchStrategy[int]]:
    return st.integers(0, problem.size - 1), st.integers(1, 2)


@pytest.mark.parametrize("whole", [0, 600])
def test_units_are_raised_whole_where_halves_would_be_cheaper(whole: int) -> None:
    """Of three units any two need one: half of each is 1.5, and no plan."""
    problem = Problem(((0, 1),) * 3, ((0.0, 1.0),) * 3, (), (0, 0))
    clauses = [
        Clause(frozenset({Literal(first, 1), Literal(second, 1)}), (0, 0, 0))
        for first, second in ((0, 1), (1, 2), (0, 2))
    ]
    solution = solve(problem, clauses, policy=SolverPolicy(whole=whole))
    assert solution is not None
    assert sum(solution.assignment) == 2
    assert all(clause.holds(solution.assignment) for clause in clauses)
    assert solution.cost_ns == solution.bound_ns == 2.0


@pytest.mark.parametrize("readers", [(0, 1), (1, 0)])
@pytest.mark.parametrize("priced", [True, False])
def test_every_source_of_a_unit_counts_for_the_longest_path(readers: tuple[int, int], priced: bool) -> None:
    """A unit reads from two: one is at home, and the other is cheap elsewhere, where it would be two switches."""
    cost = {(0, 1): 1.0, (1, 0): 1.0} if priced else {}
    wires = [PricedWire(OUTSIDE, (0, 1, 2), {}), PricedWire(2, (OUTSIDE,), {})]
    wires += [PricedWire(unit, (2,), cost, {(1, 0): 1}) for unit in readers]
    problem = Problem(
        choices=((0,), (1, 0), (0,)),
        cost_ns=((5.0,), (5.0, 50.0), (5.0,)),
        wires=tuple(wires),
        target_of=(0, 1),
        demands=Demands(most_partitions=2),
    )
    solution = solve(problem)
    assert solution is not None
    assert solution.assignment == (0, 1, 0)
    assert solution.bound_ns == pytest.approx(60.0)
    free = solve(replace(problem, demands=Demands(most_partitions=3)))
    assert free is not None
    assert free.assignment == (0, 0, 0)


@pytest.mark.parametrize("switch_ns", [0.0, 7.0])
def test_demands_that_are_just_met_are_met_and_stricter_ones_are_not(switch_ns: float) -> None:
    """A unit is cheaper away from home, where both of its tensors have to be brought."""
    wires = (
        PricedWire(OUTSIDE, (0,), {(0, 1): 1.0}, {(0, 1): 4}),
        PricedWire(0, (OUTSIDE,), {(1, 0): 1.0}, {(1, 0): 6}),
    )
    problem = Problem(((0, 1),), ((90.0, 20.0),), wires, (0, 1), switch_ns=switch_ns, weight_bytes=((9, 3),))
    away = 22.0 + 2 * switch_ns
    for met, missed in (
        (Demands(most_partitions=3), Demands(most_partitions=2)),
        (Demands(most_crossing_bytes=10), Demands(most_crossing_bytes=9)),
        (Demands(most_weight_bytes=13), Demands(most_weight_bytes=12)),
    ):
        for bounds, level, cost in ((met, 1, away), (missed, 0, 90.0)):
            solution = solve(replace(problem, demands=bounds))
            assert solution is not None
            assert (solution.assignment, solution.cost_ns) == ((level,), cost)
    assert solve(replace(problem, demands=Demands(most_latency_ns=away))) is not None
    assert solve(replace(problem, demands=Demands(most_latency_ns=away - 1e-3))) is None


@settings(max_examples=60, deadline=None)
@given(problems(most=4))
def test_refused_assignments_are_not_proposed_again(problem: Problem) -> None:
    first = solve(problem)
    assert first is not None
    second = solve(problem, refused=[first.assignment])
    assert second is None or (second.assignment != first.assignment and second.cost_ns >= first.cost_ns - 1e-6)
