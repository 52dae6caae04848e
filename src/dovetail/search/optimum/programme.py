"""The cheapest assignment under clauses and demands, as an integer programme solved by HiGHS.

Only the choices of units are integers. Where a tensor has to be brought is continuous: for chosen units its best
values are 0 and 1 by themselves. The longest path of switches is a potential that grows along every wire.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from dovetail.search.optimum.clauses import Clause
from dovetail.search.optimum.contract import contract
from dovetail.search.optimum.problem import OUTSIDE, Assignment, PricedWire, Problem
from dovetail.search.optimum.relaxed import MixedProgramme, solve_mixed
from dovetail.search.policy import SolverPolicy


@dataclass(frozen=True, slots=True)
class Solution:
    """The cheapest assignment that was found and a proven lower bound of the cost; equal unless time ran out."""

    assignment: Assignment
    cost_ns: float
    bound_ns: float


Term = tuple[int, float]
"""A variable and its factor."""


@dataclass(slots=True)
class _Rows:
    """Collect variables and constraints."""

    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def variable(self, cost: float = 0.0, upper: float = 1.0, integer: bool = False) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(int(integer))
        return len(self.cost) - 1

    def row(self, terms: Sequence[Term], low: float = -math.inf, high: float = math.inf) -> None:
        index = len(self.low)
        self.entries.extend((index, variable, factor) for variable, factor in terms)
        self.low.append(low)
        self.high.append(high)


class _Programme:
    def __init__(self, problem: Problem, movable: frozenset[int]) -> None:
        self.problem = problem
        self.rows = _Rows()
        self.scale = max((cost for costs in problem.cost_ns for cost in costs), default=1.0) or 1.0
        self.x = [self._choose(unit, unit in movable) for unit in range(problem.size)]
        for chosen in self.x:
            self.rows.row([(variable, 1.0) for variable in chosen.values()], 1.0, 1.0)
        self.crossing: list[Term] = []
        self.changing: dict[tuple[int, int], list[int]] = {}
        for wire in problem.wires:
            self._wire(wire)
        self.depth: int | None = None
        if problem.switch_ns or problem.demands.most_partitions is not None:
            self.depth = self._depth()
        self._demand()

    def _choose(self, unit: int, movable: bool) -> dict[int, int]:
        """Return a variable for every place that a unit may take: one that cannot move stays on its lowest target."""
        ladder, target_of = self.problem.choices[unit], self.problem.target_of
        return {
            place: self.rows.variable(cost / self.scale, integer=True)
            for place, cost in zip(ladder, self.problem.cost_ns[unit], strict=True)
            if movable or target_of[place] == target_of[ladder[0]]
        }

    def _wire(self, wire: PricedWire) -> None:
        """Bring the tensor to every place where a consumer is."""
        if not wire.cost_ns and not wire.crossing_bytes:
            return
        needs = self._wanted(wire)
        sources = {self.problem.home: None} if wire.producer == OUTSIDE else self.x[wire.producer]
        if len(set(wire.consumers)) == 1 and OUTSIDE not in wire.consumers:
            self._one_reader(wire, sources, needs)
        else:
            self._several_readers(wire, sources, needs)

    def _one_reader(self, wire: PricedWire, sources: Mapping[int, int | None], needs: Mapping[int, int | None]) -> None:
        """One unit of flow goes from where the tensor is made to where it is wanted."""
        flows = {(start, end): self._flow(wire, (start, end)) for start in sources for end in needs}
        for end, need in needs.items():
            self._sums_to([flows[start, end] for start in sources], need)
        for start, chosen in sources.items():
            self._sums_to([flows[start, end] for end in needs], chosen)
        target_of = self.problem.target_of
        differ = [flow for (start, end), flow in flows.items() if target_of[start] != target_of[end]]
        self.changing[wire.producer, wire.consumers[0]] = differ

    def _sums_to(self, variables: Sequence[int], total: int | None) -> None:
        """Demand that variables sum to another, or to 1."""
        terms = [(variable, 1.0) for variable in variables]
        if total is None:
            self.rows.row(terms, 1.0, 1.0)
        else:
            self.rows.row([*terms, (total, -1.0)], 0.0, 0.0)

    def _several_readers(
        self, wire: PricedWire, sources: Mapping[int, int | None], needs: Mapping[int, int | None]
    ) -> None:
        """The tensor is brought from where it is made to each place where it is wanted.

        What is wanted where it is made needs no flow: it is what the flows from elsewhere leave.
        """
        into: dict[int, list[Term]] = {end: [] for end in needs}
        out: dict[int, list[Term]] = {start: [] for start in sources}
        for start, chosen in sources.items():
            for end in needs:
                if start != end:
                    flow = self._flow(wire, (start, end))
                    into[end].append((flow, 1.0))
                    out[start].append((flow, 1.0))
                    if chosen is not None:
                        self.rows.row([(flow, 1.0), (chosen, -1.0)], high=0.0)
        for end, need in needs.items():
            here, fixed = self._certain(end, sources, -1.0)
            need_terms, need_fixed = ([], 1.0) if need is None else ([(need, -1.0)], 0.0)
            back = [(flow, 1.0) for flow, _ in into[end]]
            # need - flows <= made here: all that is wanted comes from somewhere.
            self.rows.row([*back, *need_terms, *[(name, -sign) for name, sign in here]], low=need_fixed + fixed)
        for start, chosen in sources.items():
            if chosen is None:
                continue
            # What is made is wanted somewhere: elsewhere, or here, where only what others bring is not its own.
            terms = [*out[start], (chosen, -1.0)]
            floor = 0.0
            if start in needs:
                terms += [(flow, -1.0) for flow, _ in into[start]]
                need = needs[start]
                if need is None:
                    floor = -1.0
                else:
                    terms.append((need, 1.0))
            self.rows.row(terms, low=floor)

    def _certain(self, place: int, sources: Mapping[int, int | None], sign: float) -> tuple[list[Term], float]:
        """Return terms and a constant that are `sign` when the tensor is made at a place, else 0."""
        if place not in sources:
            return [], 0.0
        chosen = sources[place]
        return ([], sign) if chosen is None else ([(chosen, sign)], 0.0)

    def _wanted(self, wire: PricedWire) -> dict[int, int | None]:
        """Return for every place whether the tensor is wanted there: a variable, or None for certainly."""
        needs: dict[int, int | None] = {}
        inside = [unit for unit in wire.consumers if unit != OUTSIDE]
        if len(inside) == 1:
            needs.update(self.x[inside[0]])
        else:
            for place in dict.fromkeys(place for unit in inside for place in self.x[unit]):
                need = needs[place] = self.rows.variable()
                for unit in inside:
                    if place in self.x[unit]:
                        self.rows.row([(need, 1.0), (self.x[unit][place], -1.0)], low=0.0)
        if OUTSIDE in wire.consumers:
            needs[self.problem.home] = None
        return needs

    def _flow(self, wire: PricedWire, pair: tuple[int, int]) -> int:
        variable = self.rows.variable(wire.cost_ns.get(pair, 0.0) / self.scale)
        if wire.crossing_bytes.get(pair):
            self.crossing.append((variable, float(wire.crossing_bytes[pair])))
        return variable

    def _on(self, unit: int, target: int, sign: float) -> tuple[list[Term], float]:
        """Return terms and a constant that are `sign` when a unit is on a target, else 0."""
        if unit == OUTSIDE:
            return [], sign * (self.problem.target_of[self.problem.home] == target)
        places = self.x[unit].items()
        return [(variable, sign) for place, variable in places if self.problem.target_of[place] == target], 0.0

    def _depth(self) -> int:
        """Return the variable of the switches on a longest path."""
        problem, home = self.problem, self.problem.target_of[self.problem.home]
        depth = self.rows.variable(problem.switch_ns / self.scale, math.inf)
        changes = [self.rows.variable(upper=math.inf) for _ in range(problem.size)]
        targets = sorted(set(problem.target_of))
        for unit in range(problem.size):
            at_home, _ = self._on(unit, home, 1.0)
            self.rows.row([(changes[unit], 1.0), *at_home], low=1.0)
            self.rows.row([(depth, 1.0), (changes[unit], -1.0)], low=0.0)
            for source in problem.sources[unit]:
                if source == OUTSIDE:
                    continue
                if (source, unit) in self.changing:
                    # Whole flows say more than either end: what they cost and what they switch go together.
                    switches = [(flow, -1.0) for flow in self.changing[source, unit]]
                    self.rows.row([(changes[unit], 1.0), (changes[source], -1.0), *switches], low=0.0)
                    continue
                for target in targets:
                    left, _ = self._on(source, target, -1.0)
                    mine, _ = self._on(unit, target, 1.0)
                    self.rows.row([(changes[unit], 1.0), (changes[source], -1.0), *left, *mine], low=0.0)
        for unit in problem.ends:
            if unit != OUTSIDE:
                at_home, _ = self._on(unit, home, 1.0)
                self.rows.row([(depth, 1.0), (changes[unit], -1.0), *at_home], low=1.0)
        return depth

    def _demand(self) -> None:
        demands = self.problem.demands
        if self.depth is not None and demands.most_partitions is not None:
            self.rows.row([(self.depth, 1.0)], high=demands.most_partitions - 1)
        if demands.most_crossing_bytes is not None:
            self.rows.row(self.crossing, high=demands.most_crossing_bytes)
        if demands.most_latency_ns is not None:
            everything = [(index, cost) for index, cost in enumerate(self.rows.cost) if cost]
            self.rows.row(everything, high=demands.most_latency_ns / self.scale)
        if demands.most_weight_bytes is not None:
            weights = [
                (chosen[place], float(size))
                for chosen, ladder, sizes in zip(self.x, self.problem.choices, self.problem.weight_bytes, strict=True)
                for place, size in zip(ladder, sizes, strict=True)
                if place in chosen
            ]
            self.rows.row([*weights, *self.crossing], high=demands.most_weight_bytes)
        for group in demands.groups:
            for first, second in itertools.pairwise(group):
                for place in {*self.x[first], *self.x[second]}:
                    terms = [
                        (self.x[unit][place], sign)
                        for unit, sign in ((first, 1.0), (second, -1.0))
                        if place in self.x[unit]
                    ]
                    self.rows.row(terms, 0.0, 0.0)

    def require(self, clause: Clause) -> None:
        """Add a clause."""
        terms = [
            (self.x[item.unit][place], 1.0)
            for item in clause.literals
            for place in self.problem.choices[item.unit][item.level :]
            if place in self.x[item.unit]
        ]
        self.rows.row(terms, low=1.0)

    def forbid(self, assignment: Assignment) -> None:
        """Exclude one assignment and nothing else."""
        places = [self.problem.choices[unit][level] for unit, level in enumerate(assignment)]
        if all(place in chosen for place, chosen in zip(places, self.x, strict=True)):
            terms = [(chosen[place], 1.0) for place, chosen in zip(places, self.x, strict=True)]
            self.rows.row(terms, high=len(terms) - 1.0)

    def solve(self, time_limit_s: float, policy: SolverPolicy) -> Solution | None:
        rows = self.rows
        index, column, factor = zip(*rows.entries, strict=True)
        model = MixedProgramme(
            cost=np.array(rows.cost),
            upper=np.array(rows.upper),
            integer=np.array(rows.integer, dtype=bool),
            matrix=csr_matrix((factor, (index, column)), shape=(len(rows.low), len(rows.cost))),
            low=np.array(rows.low),
            high=np.array(rows.high),
        )
        solved = solve_mixed(model, time_limit_s, policy)
        if solved.x is None:
            return None
        values = solved.x
        levels = tuple(
            ladder.index(max(chosen, key=lambda place: values[chosen[place]]))
            for chosen, ladder in zip(self.x, self.problem.choices, strict=True)
        )
        cost = self.problem.cost(levels)
        return Solution(levels, cost, cost if solved.proven else max(0.0, min(cost, solved.bound * self.scale)))


def solve(
    problem: Problem,
    clauses: Sequence[Clause] = (),
    refused: Sequence[Assignment] = (),
    time_limit_s: float = 60.0,
    policy: SolverPolicy | None = None,
) -> Solution | None:
    """Return the cheapest assignment that satisfies clauses and demands and is not among the refused ones.

    None when there is none, or when none was found in time.
    """
    policy = policy or SolverPolicy()
    named = {item.unit for clause in clauses for item in clause.literals}
    movable = problem.movable(named)
    smaller = contract(problem, named, movable, policy)
    if smaller is not None:
        solution = _programme(smaller.problem, smaller.movable, smaller.clauses(clauses)).solve(time_limit_s, policy)
        if solution is None:
            return None
        levels = smaller.expand(solution.assignment)
        # It does not know what is refused: nothing better exists, but this one may be out.
        if levels not in refused:
            cost = problem.cost(levels)
            return Solution(
                levels, cost, cost if solution.bound_ns >= solution.cost_ns else min(cost, solution.bound_ns)
            )
    programme = _programme(problem, movable, clauses)
    for assignment in refused:
        programme.forbid(assignment)
    return programme.solve(time_limit_s, policy)


def _programme(problem: Problem, movable: frozenset[int], clauses: Sequence[Clause]) -> _Programme:
    programme = _Programme(problem, movable)
    for clause in clauses:
        programme.require(clause)
    return programme
