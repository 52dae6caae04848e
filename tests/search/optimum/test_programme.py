"""The minimum cut and the integer programme against trying every assignment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.errors import SearchError
from dovetail.search.optimum import Clause, Literal, Problem, solve
from dovetail.search.policy import SolverPolicy
from zoo.minimum_cut import minimum_cut

from .problems import cheapest, demands, problems


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(problems(places=2, most=9, switch=False))
def test_the_cut_is_the_cheapest_of_all_assignments(problem: Problem) -> None:
    assert problem.cost(minimum_cut(problem)) == cheapest(problem)


def test_a_tensor_with_two_readers_crosses_once() -> None:
    from dovetail.search.optimum import PricedWire

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


@settings(max_examples=60, deadline=None)
@given(problems(most=4))
def test_refused_assignments_are_not_proposed_again(problem: Problem) -> None:
    first = solve(problem)
    assert first is not None
    second = solve(problem, refused=[first.assignment])
    assert second is None or (second.assignment != first.assignment and second.cost_ns >= first.cost_ns - 1e-6)
