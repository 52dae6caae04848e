"""The implicit hitting set: exact with monotone oracles, sound with any, by trying every assignment."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.search.optimum import Assignment, Optimum, PricedWire, Problem, ProofOptions, prove
from dovetail.search.trial import Status

from .problems import assignments, cheapest, problems

Passes = Callable[[Assignment], bool]


def _gap(found: Optimum) -> float:
    """Return the share of the cost that is not proven necessary."""
    return max(0.0, 1.0 - found.bound_ns / found.cost_ns)


def _run(problem: Problem, passes: Passes, **options: Any) -> tuple[Optimum, list[Assignment]]:
    asked: list[Assignment] = []

    def judge(assignment: Assignment) -> Status:
        asked.append(assignment)
        return Status.PASS if passes(assignment) else Status.FAIL

    return prove(problem, judge, (), replace(ProofOptions(most_tests=100_000), **options)), asked


@st.composite
def monotone_oracles(draw: st.DrawFn, problem: Problem) -> Passes:
    """Draw an oracle that fails when, for some planted set, every unit of it is below its level.

    One unit alone is a culprit; two in a set hide each other; two sets are culprits in series.
    """
    literal = st.tuples(st.integers(0, problem.size - 1), st.integers(0, 2))
    planted = draw(st.lists(st.lists(literal, min_size=1, max_size=3), max_size=4))

    def passes(assignment: Assignment) -> bool:
        return all(
            any(assignment[unit] >= min(level, problem.top[unit]) for unit, level in culprit) for culprit in planted
        )

    return passes


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(problems(), st.data())
def test_equals_trying_everything_when_the_oracle_is_monotone(problem: Problem, data: st.DataObject) -> None:
    passes = data.draw(monotone_oracles(problem))
    found, asked = _run(problem, passes)
    expected = cheapest(problem, passes)
    assert found.monotone
    assert found.complete
    assert found.cost_ns == pytest.approx(expected)
    assert found.bound_ns == pytest.approx(expected)
    assert len(asked) == len(set(asked)) == found.tests
    for clause in found.clauses:
        assert all(clause.holds(item) for item in assignments(problem) if passes(item))


@settings(max_examples=60, deadline=None)
@given(problems(most=5), st.data())
def test_one_test_gives_the_cheapest_above_what_passes(problem: Problem, data: st.DataObject) -> None:
    """Where the start passes barely, proposals from below fail for long: it is not left in a slow place for that."""
    free = replace(problem, migrates=True)
    passes = data.draw(monotone_oracles(free))
    passing = [item for item in assignments(free) if passes(item)]
    assume(passing)
    start = data.draw(st.sampled_from(passing))
    asked: list[Assignment] = []

    def judge(assignment: Assignment) -> Status:
        asked.append(assignment)
        return Status.PASS if passes(assignment) else Status.FAIL

    found = prove(free, judge, {start: Status.PASS}, ProofOptions(most_tests=1, start=start))
    above = (item for item in assignments(free) if all(map(operator.le, start, item)) and free.meets_demands(item))
    assert found.cost_ns <= min(map(free.cost, above), default=free.cost(start)) + 1e-6
    assert len(asked) <= 1


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(problems(most=5), st.randoms(use_true_random=False), st.floats(0, 1))
def test_what_is_accepted_has_passed_however_the_oracle_behaves(problem: Problem, random: object, share: float) -> None:
    verdicts = {item: random.random() < share for item in assignments(problem)}  # type: ignore[attr-defined]
    found, asked = _run(problem, verdicts.__getitem__)
    if found.assignment is not None:
        assert verdicts[found.assignment]
        assert found.assignment in asked
        assert found.cost_ns == problem.cost(found.assignment)
    if not any(verdicts.values()):
        assert found.assignment is None


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(problems(most=5), st.data())
def test_plans_that_cannot_be_tested_are_neither_accepted_nor_evidence(problem: Problem, data: st.DataObject) -> None:
    passes = data.draw(monotone_oracles(problem))
    broken = set(data.draw(st.lists(st.sampled_from(list(assignments(problem))), max_size=5)))

    def judge(assignment: Assignment) -> Status:
        if assignment in broken:
            return Status.CANNOT_TEST
        return Status.PASS if passes(assignment) else Status.FAIL

    found = prove(problem, judge, (), ProofOptions(most_tests=100_000))
    assert found.cost_ns == pytest.approx(cheapest(problem, lambda item: item not in broken and passes(item)))


def _flat(size: int) -> Problem:
    """Return units of equal cost in a chain, each on the NPU at two precisions or on the CPU."""
    wires = tuple(PricedWire(unit, (unit + 1,), {}) for unit in range(size - 1))
    return Problem(((0, 1),) * size, ((1.0, 2.0),) * size, wires, (0, 0, 1), home=0)


def test_what_passes_barely_is_left_in_no_slow_place() -> None:
    """The start has every unit at a slow level; from below a unit would be learnt of at a time."""
    size = 30
    wires = tuple(PricedWire(unit, (unit + 1,), {}) for unit in range(size - 1))
    ladders = ((0, 1, 2),) * size
    problem = Problem(ladders, ((1.0, 5.0, 2.0),) * size, wires, (0, 0, 1), home=2, switch_ns=0.0, migrates=True)
    start = (1,) * size

    def judge(assignment: Assignment) -> Status:
        return Status.PASS if all(assignment) else Status.FAIL

    found = prove(problem, judge, {start: Status.PASS}, ProofOptions(most_tests=1, start=start))
    assert found.assignment == (2,) * size
    assert (found.tests, found.monotone) == (1, True)


def test_independent_culprits_cost_one_more_test_each_and_are_proven() -> None:
    problem = _flat(200)
    culprits = {17, 63, 150}
    start = tuple(int(unit in culprits) for unit in range(200))
    known = {start: Status.PASS}
    for unit in culprits:
        known[tuple(level if other != unit else 0 for other, level in enumerate(start))] = Status.FAIL

    def judge(assignment: Assignment) -> Status:
        return Status.PASS if all(assignment[unit] for unit in culprits) else Status.FAIL

    found = prove(problem, judge, known)
    assert (found.assignment, _gap(found), found.tests) == (start, 0.0, 3)
    assert sorted(len(clause.literals) for clause in found.clauses) == [1, 1, 1]


def test_jointly_harmful_pairs_are_hit_by_the_unit_they_share() -> None:
    problem = _flat(12)

    def passes(item: Assignment) -> bool:
        return all(item[one] or item[5] for one in (0, 3, 9))

    found, _ = _run(problem, passes)
    assert found.cost_ns == 13.0
    assert found.assignment is not None
    assert found.assignment[5] == 1


def test_a_contradicted_clause_is_struck_out_and_said() -> None:
    # Raising unit 1 as well breaks what raising unit 0 alone mends: not monotone.
    known: dict[Assignment, Status] = {(1, 0, 0): Status.PASS, (1, 1, 0): Status.FAIL}
    found = prove(_flat(3), lambda item: Status.FAIL, known)
    assert found.assignment == (1, 0, 0)
    assert not found.monotone
    assert all(clause.holds(found.assignment) for clause in found.clauses)


def test_without_tests_left_the_bound_says_what_is_not_known() -> None:
    problem = _flat(6)
    start: Assignment = (1,) * 6
    found = prove(problem, lambda item: Status.FAIL, {start: Status.PASS}, ProofOptions(most_tests=0))
    assert (found.assignment, found.complete) == (start, False)
    assert _gap(found) == pytest.approx(0.5)


def test_masking_culprits_in_series_are_all_found() -> None:
    problem = _flat(10)
    for culprits in itertools.combinations(range(10), 2):

        def passes(item: Assignment, hidden: tuple[int, ...] = culprits) -> bool:
            return all(item[unit] for unit in hidden)

        found, _ = _run(problem, passes)
        assert found.assignment == tuple(int(unit in culprits) for unit in range(10))


def test_what_lacks_a_unit_without_neighbours_ends() -> None:
    # Units that stand alone: what is around what is lacking never grows.
    problem = Problem(((0, 1),) * 6, ((1.0, 2.0),) * 6, (), (0, 0), home=0)

    def passes(item: Assignment) -> bool:
        return bool(item[0] or item[5]) and bool(item[1] or item[4])

    known: dict[Assignment, Status] = {
        (1, 1, 0, 0, 0, 0): Status.PASS,
        (0, 1, 0, 0, 0, 0): Status.FAIL,
        (1, 0, 0, 0, 0, 0): Status.FAIL,
    }
    found = prove(problem, lambda item: Status.PASS if passes(item) else Status.FAIL, known)
    assert (found.cost_ns, _gap(found)) == (8.0, 0.0)


def test_units_without_fault_move_too_where_a_tested_plan_shows_that_it_pays() -> None:
    # Three units in a chain that costs nothing on the CPU, but for crossing: only the last one is at fault.
    wires = tuple(PricedWire(unit, (unit + 1,), {(0, 1): 5.0, (1, 0): 5.0}) for unit in range(2))
    problem = Problem(((0, 1),) * 3, ((1.0, 0.5),) * 3, wires, (0, 1), home=0, migrates=False)
    start, everything = (0, 0, 1), (1, 1, 1)

    def judge(assignment: Assignment) -> Status:
        return Status.PASS if assignment[2] else Status.FAIL

    known: dict[Assignment, Status] = {(0, 0, 0): Status.FAIL, start: Status.PASS}
    options = ProofOptions(start=start)
    assert prove(problem, judge, known, options).assignment == start
    found = prove(problem, judge, {**known, everything: Status.PASS}, options)
    assert (found.assignment, found.cost_ns, _gap(found)) == (everything, 1.5, 0.0)
