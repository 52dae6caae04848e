"""Contracted problems against trying every assignment, and against the programme of the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.optimum import Clause, Demands, Literal, PricedWire, Problem, solve
from dovetail.search.optimum import programme as programmes
from dovetail.search.optimum.contract import contract
from dovetail.search.policy import SolverPolicy

from .problems import CPU, LOW, WIDE, assignments, chains


def _clauses(problem: Problem, rng: np.random.Generator, most: int) -> list[Clause]:
    found = []
    for _ in range(int(rng.integers(most + 1))):
        units = rng.choice(problem.size, min(problem.size, int(rng.integers(1, 4))), replace=False)
        literals = (
            Literal(int(unit), min(int(rng.integers(1, 3)), problem.top[unit]))
            for unit in units
            if problem.top[unit] > 0
        )
        if clause := frozenset(literals):
            found.append(Clause(clause, (0,) * problem.size))
    return found


def _named(clauses: Sequence[Clause]) -> set[int]:
    return {item.unit for clause in clauses for item in clause.literals}


def _least(problem: Problem, clauses: Sequence[Clause]) -> float:
    movable = problem.movable(_named(clauses))
    return min(
        (
            problem.cost(item)
            for item in assignments(problem)
            if problem.stays(item, movable)
            and problem.meets_demands(item)
            and all(clause.holds(item) for clause in clauses)
        ),
        default=float("inf"),
    )


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(chains(), st.integers(0, 2**32 - 1))
def test_a_contracted_problem_costs_what_the_cheapest_assignment_costs(problem: Problem, seed: int) -> None:
    """By brute force on either: every assignment of the small problem stands for the cheapest that agrees with it."""
    rng = np.random.default_rng(seed)
    clauses = _clauses(problem, rng, 2)
    if problem.size > 1 and rng.random() < 0.3:
        pair = tuple(int(unit) for unit in rng.choice(problem.size, 2, replace=False))
        problem = replace(problem, demands=Demands(groups=(pair,)))
    named = _named(clauses)
    movable = problem.movable(named)
    smaller = contract(problem, named, movable, SolverPolicy())
    if smaller is None:
        return
    assert smaller.problem.size < problem.size or len(smaller.problem.wires) < len(problem.wires)
    inside = smaller.clauses(clauses)
    costs = []
    for item in assignments(smaller.problem):
        if smaller.problem.stays(item, smaller.movable):
            whole = smaller.expand(item)
            assert problem.stays(whole, movable)
            assert problem.cost(whole) == pytest.approx(smaller.problem.cost(item))
            if smaller.problem.meets_demands(item) and all(clause.holds(item) for clause in inside):
                costs.append(smaller.problem.cost(item))
    assert min(costs, default=float("inf")) == pytest.approx(_least(problem, clauses))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_contraction_changes_neither_cost_nor_bound_of_the_programme(seed: int) -> None:
    problem = _chain(np.random.default_rng(seed), 40)
    clauses = _clauses(problem, np.random.default_rng(seed), 5)
    movable = problem.movable(_named(clauses))
    assert contract(problem, _named(clauses), movable, SolverPolicy()) is not None
    whole = programmes._programme(problem, movable, clauses).solve(60.0, SolverPolicy())
    found = solve(problem, clauses)
    assert whole is not None
    assert found is not None
    assert all(clause.holds(found.assignment) for clause in clauses)
    assert found.cost_ns == problem.cost(found.assignment)
    assert found.cost_ns == pytest.approx(whole.cost_ns)
    assert found.bound_ns == pytest.approx(whole.bound_ns)


@pytest.mark.parametrize("seed", range(12))
def test_what_a_contracted_problem_is_given_back_costs_as_much_on_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = _chain(rng, 30)
    named = {int(unit) for unit in rng.choice(30, int(rng.integers(1, 4)), replace=False)}
    movable = problem.movable(named)
    smaller = contract(problem, named, movable, SolverPolicy())
    assert smaller is not None
    for _ in range(20):
        levels = [int(rng.integers(len(ladder))) for ladder in smaller.problem.choices]
        item = tuple(level if unit in smaller.movable else 0 for unit, level in enumerate(levels))
        whole = smaller.expand(item)
        assert [whole[unit] for unit in smaller.units] == list(item)
        assert problem.stays(whole, movable)
        assert problem.cost(whole) == pytest.approx(smaller.problem.cost(item))


def _chain(rng: np.random.Generator, size: int) -> Problem:
    """Return residual blocks: every other unit also reads what the unit two before it reads."""
    pairs = [(a, b) for a in (LOW, WIDE, CPU) for b in (LOW, WIDE, CPU) if a != b]
    readers = {unit: [unit + 1] + ([unit + 2] if unit % 2 else []) for unit in range(-1, size - 1)}
    wires = [
        PricedWire(unit, tuple(item for item in later if item < size), _prices(rng, pairs))
        for unit, later in readers.items()
    ]
    wires.append(PricedWire(size - 1, (-1,), _prices(rng, pairs)))
    return Problem(
        choices=((LOW, WIDE, CPU),) * size,
        cost_ns=tuple((float(low), float(low + 8), float(low + 30)) for low in rng.integers(0, 20, size)),
        wires=tuple(wires),
        target_of=(0, 0, 1),
        home=CPU,
        switch_ns=float(rng.integers(0, 60)),
        migrates=bool(rng.random() < 0.5),
    )


def _prices(rng: np.random.Generator, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
    return {pair: float(rng.integers(40)) for pair in pairs}


def test_the_size_is_that_of_the_clauses_surroundings() -> None:
    clauses = [Clause(frozenset({Literal(20, 1), Literal(71, 2)}), ())]
    sizes = set()
    for size in (100, 200, 400):
        problem = _chain(np.random.default_rng(3), size)
        smaller = contract(problem, _named(clauses), problem.movable(_named(clauses)), SolverPolicy())
        assert smaller is not None
        sizes.add(smaller.problem.size)
    assert len(sizes) == 1
    assert sizes.pop() < 15


@pytest.mark.parametrize(
    "demands", [Demands(most_partitions=3), Demands(most_crossing_bytes=5), Demands(most_weight_bytes=5)]
)
def test_what_limits_more_than_the_cost_is_left_alone(demands: Demands) -> None:
    problem = replace(_chain(np.random.default_rng(0), 20), demands=demands)
    assert contract(problem, (), problem.movable(()), SolverPolicy()) is None


def test_a_limit_of_the_latency_holds_for_the_whole_graph() -> None:
    problem = _chain(np.random.default_rng(1), 30)
    least = solve(problem)
    assert least is not None
    met = solve(replace(problem, demands=Demands(most_latency_ns=least.cost_ns + 1e-3)))
    assert met is not None
    assert met.cost_ns == pytest.approx(least.cost_ns)
    assert solve(replace(problem, demands=Demands(most_latency_ns=least.cost_ns - 1))) is None


def test_what_is_refused_is_not_proposed_although_it_is_between() -> None:
    problem = _chain(np.random.default_rng(2), 12)
    refused: list[tuple[int, ...]] = []
    costs = []
    for _ in range(5):
        found = solve(problem, refused=refused)
        assert found is not None
        assert found.assignment not in refused
        refused.append(found.assignment)
        costs.append(found.cost_ns)
    assert costs == sorted(costs)
