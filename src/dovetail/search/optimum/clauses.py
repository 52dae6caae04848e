"""Clauses: what a failing assignment says of every assignment below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.search.optimum.problem import Assignment, Problem


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """A unit at this level or above."""

    unit: int
    level: int


@dataclass(frozen=True, slots=True)
class Clause:
    """At least one literal has to hold; `witness` is the failing assignment that it comes from."""

    literals: frozenset[Literal]
    witness: Assignment

    def holds(self, assignment: Sequence[int]) -> bool:
        """Tell whether an assignment satisfies the clause."""
        return any(assignment[item.unit] >= item.level for item in self.literals)


def clause_of(problem: Problem, failing: Assignment) -> Clause:
    """Return what a failing assignment implies if accuracy is monotone: some unit has to be higher."""
    literals = {
        Literal(unit, level + 1)
        for unit, (level, ladder) in enumerate(zip(failing, problem.choices, strict=True))
        if level + 1 < len(ladder)
    }
    return Clause(frozenset(literals), failing)
