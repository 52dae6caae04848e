"""The cheapest assignment that an oracle passes, as an implicit hitting set.

Failing assignments become clauses; the integer programme gives the cheapest assignment that hits them all, which is a
lower bound if accuracy is monotone; the oracle tests it; what fails becomes the next clause. Nothing is accepted that
the oracle did not pass itself. An answer that contradicts a clause strikes the clause out, and the bound is then only
as good as the oracle is monotone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.bisection import unsettled
from dovetail.search.optimum.clauses import Clause, Literal, clause_of
from dovetail.search.optimum.problem import Assignment, Problem
from dovetail.search.optimum.programme import Solution, solve
from dovetail.search.policy import ProofPolicy, SolverPolicy
from dovetail.search.trial import Status

Judge = Callable[[Assignment], Status]


@dataclass(frozen=True, slots=True)
class ProofOptions:
    """How much work a proof may be."""

    most_tests: int = 200
    """Tests by the oracle."""
    time_limit_s: float = 60.0
    """Time of one integer programme."""
    order: tuple[int, ...] = ()
    """Units, those last that are most likely to do harm: the others are raised first when a clause is shortened."""
    start: Assignment | None = None
    """It has passed, and is good enough whatever else the problem asks of assignments that are proposed."""
    contradictions: int = ProofPolicy().contradictions
    """Proposals that fail although they raise all that a passing plan raises: each rules out itself and nothing else,
    and the bound that they lift holds for monotone oracles only."""
    solver: SolverPolicy = field(default_factory=SolverPolicy)
    gap: float = 0.0
    """Share of its cost that the best may be above the lower bound: a proposal that saves less is not tested."""
    go_on: Callable[[], bool] = lambda: True
    """Tells whether there is time for another test."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best assignment that the oracle passed, or None, and what is known of anything cheaper.

    `bound_ns` holds if accuracy is monotone; `monotone` tells whether any answer has contradicted that.
    `complete` tells that the search ended by itself, not for want of tests or time.
    """

    assignment: Assignment | None
    cost_ns: float
    bound_ns: float
    clauses: tuple[Clause, ...]
    tests: int
    monotone: bool
    complete: bool


class _Exhausted(Exception):
    """No test is left, or none that would prove anything."""


@dataclass(slots=True)
class _Search:
    problem: Problem
    judge: Judge
    options: ProofOptions
    known: dict[Assignment, Status]
    clauses: list[Clause] = field(default_factory=list)
    refused: list[Assignment] = field(default_factory=list)
    tests: int = 0
    monotone: bool = True
    passing: list[Assignment] = field(default_factory=list)
    """What has passed and keeps within the demands."""
    bound_ns: float = 0.0
    _passed: list[Assignment] = field(default_factory=list)
    _contradictions: int = 0

    @property
    def best(self) -> Assignment | None:
        """Return the cheapest passing assignment; but for the start, only those that could be proposed count."""
        movable = self.problem.movable(item.unit for clause in self.clauses for item in clause.literals)
        start = self.options.start
        allowed = (item for item in self.passing if item == start or self.problem.stays(item, movable))
        return min(allowed, key=self.problem.cost, default=None)

    def _let_all_move(self) -> None:
        """Let units without fault move too where an assignment that does so has passed and is cheaper than the best."""
        best, cheapest = self.best, min(self.passing, key=self.problem.cost, default=None)
        if best is not None and cheapest is not None and self.problem.cost(cheapest) < self.problem.cost(best):
            self.problem = replace(self.problem, migrates=True)

    def run(self) -> Optimum:
        for assignment, status in self.known.items():
            if status is Status.PASS:
                self._add_passing(assignment)
        failing = [item for item, status in self.known.items() if status is Status.FAIL]
        self.monotone = not any(map(self._above_a_pass, failing))
        complete = True
        try:
            self._stay_above()
            self._need_each()
            while (proposal := self._propose()) is not None:
                self._test_proposal(proposal.assignment)
        except _Exhausted:
            complete = False
            self._propose()
        best = self.best
        cost = self.problem.cost(best) if best is not None else float("inf")
        bound = min(self.bound_ns, cost)
        return Optimum(best, cost, bound, tuple(self.clauses), self.tests, self.monotone, complete)

    def _propose(self) -> Solution | None:
        """Return the cheapest assignment that nothing speaks against, or None when it cannot beat the best."""
        self._let_all_move()
        solution = self._solved(self.clauses)
        self.bound_ns = float("inf") if solution is None else solution.bound_ns
        return solution if solution is not None and self._is_cheaper(solution) else None

    def _solved(self, clauses: Sequence[Clause]) -> Solution | None:
        return solve(self.problem, clauses, self.refused, self.options.time_limit_s, self.options.solver)

    def _is_cheaper(self, solution: Solution) -> bool:
        """Tell whether a solution saves enough to be tested."""
        best = self.best
        return best is None or solution.cost_ns < self.problem.cost(best) * (1 - max(self.options.gap, 1e-9))

    def _stay_above(self) -> None:
        """Test the cheapest assignment that raises all that the best one raises: if accuracy is monotone it passes.

        Where the best passes barely, what is proposed from below fails and fails; this leaves what is slow at once.
        """
        self._let_all_move()
        best = self.best
        if best is None or not self.problem.migrates:
            return
        kept = [Clause(frozenset({Literal(unit, level)}), best) for unit, level in enumerate(best) if level]
        solution = self._solved([*self.clauses, *kept])
        if solution is not None and self._is_cheaper(solution):
            self._test_proposal(solution.assignment)

    def _test_proposal(self, assignment: Assignment) -> None:
        if self._test(assignment) is Status.FAIL:
            self._learn(assignment)
            self._contradictions += self._above_a_pass(assignment)
            if self._contradictions >= self.options.contradictions:
                raise _Exhausted
        elif (best := self.best) is None or self.problem.cost(best) > self.problem.cost(assignment):
            # It cannot be tested, or is not counted: it need not be proposed again. What passed ends the search by
            # itself, as nothing that is proposed next is cheaper; refusing it would only make the programme larger.
            self.refused.append(assignment)

    def _need_each(self) -> None:
        """Learn why the best assignment has to raise each of its units: these clauses alone often close the gap."""
        best = self.best
        if best is None:
            return
        order = self.options.order or tuple(range(self.problem.size))
        for unit in reversed(order):
            lowered = ((*best[:unit], level, *best[unit + 1 :]) for level in reversed(range(best[unit])))
            failing = next((item for item in lowered if self.known.get(item) is Status.FAIL), None)
            if failing is not None:
                self._learn(failing)

    def _learn(self, failing: Assignment) -> None:
        """Take the shortest clause that tests make of a failing assignment, unless a shorter one is known."""
        clause = clause_of(self.problem, failing)
        if not any(known.literals <= clause.literals for known in self.clauses):
            self._add(clause_of(self.problem, self._grow(failing)), failing)

    def _add(self, clause: Clause, seed: Assignment) -> None:
        if any(clause.holds(item) is False for item, status in self.known.items() if status is Status.PASS):
            self.monotone = False
            self.refused.append(seed)
            return
        self.clauses = [item for item in self.clauses if not clause.literals <= item.literals]
        self.clauses.append(clause)
        if clause.holds(seed):
            self.refused.append(seed)

    def _grow(self, failing: Assignment) -> Assignment:
        """Raise what can be raised while it still fails: the clause of the result is shorter."""
        kept = list(failing)
        reserve = self._nearest(failing)
        order = self.options.order or tuple(range(self.problem.size))
        low = [unit for unit in order if kept[unit] < self.problem.top[unit]]
        # What the nearest passing assignment raises and this one does not is what it lacks: try to raise all the rest.
        lacking = [unit for unit in low if kept[unit] < reserve[unit]]
        near = self._neighbourhood(kept, low, lacking)
        kept = self._raised(kept, [unit for unit in low if unit not in near])

        def still_fails(chunk: Sequence[int]) -> bool:
            nonlocal kept
            raised = self._raised(kept, chunk)
            if fails := self._fails(raised):
                kept = raised
            return fails

        unsettled(([unit for unit in low if unit in near and kept[unit] >= reserve[unit]], lacking), still_fails)
        return tuple(kept)

    def _nearest(self, failing: Assignment) -> Assignment:
        """Return the passing assignment that raises least of what a failing one does not raise."""

        def lacks(passed: Assignment) -> tuple[int, float]:
            return sum(map(operator.lt, failing, passed)), self.problem.cost(passed)

        return min(self._passed, key=lacks, default=failing)

    def _fails(self, levels: Sequence[int]) -> bool:
        """Tell whether an assignment fails, by a test only where nothing at or below it has passed.

        Where an oracle is not monotone the clause stays longer, and true of what has passed.
        """
        return not self._above_a_pass(levels) and self._test(tuple(levels)) is Status.FAIL

    def _above_a_pass(self, levels: Sequence[int]) -> bool:
        return any(all(map(operator.le, passed, levels)) for passed in self._passed)

    def _raised(self, levels: Sequence[int], units: Sequence[int]) -> list[int]:
        """Return levels with some units at the top."""
        raised = list(levels)
        for unit in units:
            raised[unit] = self.problem.top[unit]
        return raised

    def _neighbourhood(self, kept: Sequence[int], low: Sequence[int], lacking: Sequence[int]) -> frozenset[int]:
        """Return units around those that are lacking outside of which everything can be raised and it still fails.

        What stands in for a unit is mostly beside it: a step further doubles, as long as that is less than half.
        """
        everything, near, steps = frozenset(low), frozenset(lacking), 1
        while lacking and 2 * len(near) < len(low):
            if self._fails(self._raised(kept, [unit for unit in low if unit not in near])):
                return near
            before = near
            for _ in range(steps):
                near |= {other for unit in near for other in self.problem.neighbours[unit]} & everything
            if near == before:
                break
            steps *= 2
        return everything

    def _test(self, assignment: Assignment) -> Status:
        status = self.known.get(assignment)
        if status is None:
            if self.tests >= self.options.most_tests or not self.options.go_on():
                raise _Exhausted
            self.tests += 1
            status = self.known[assignment] = self.judge(assignment)
        if status is Status.PASS:
            self._add_passing(assignment)
        return status

    def _add_passing(self, assignment: Assignment) -> None:
        """Keep a passing assignment; it strikes out clauses that it contradicts."""
        wrong = [clause for clause in self.clauses if not clause.holds(assignment)]
        if wrong:
            self.monotone = False
            self.clauses = [clause for clause in self.clauses if clause not in wrong]
            self.refused.extend(clause.witness for clause in wrong)
        if assignment not in self._passed:
            self._passed.append(assignment)
        if assignment not in self.passing and self.problem.meets_demands(assignment):
            self.passing.append(assignment)


def prove(
    problem: Problem,
    judge: Judge,
    known: Mapping[Assignment, Status] | Iterable[tuple[Assignment, Status]] = (),
    options: ProofOptions | None = None,
) -> Optimum:
    """Return the cheapest assignment that the oracle passes, with a lower bound and the clauses that prove it.

    `known` are answers that need not be asked for again; passing ones are where the search starts.
    """
    return _Search(problem, judge, options or ProofOptions(), dict(known)).run()
