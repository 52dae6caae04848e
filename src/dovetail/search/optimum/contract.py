"""Contract stretches that no clause names, so that a programme grows with its clauses instead of with the graph.

Where all that later units read of earlier ones is made by a single unit, that unit separates them: given its place,
either side is cheapest by itself. Between two separators `u` and `v` without a named unit, dynamic programming
(bucket elimination, Dechter 1999) finds the cheapest way for every pair of their places, and one wire with these costs
stands for the whole stretch. Switches need care, because the longest path is not a sum. Here it is: each unit after a
separator reads from a unit and each one before it is read by one, so that every longest path passes all separators
and its switches are those up to `u`, those from `u` to `v` and those after `v`. The wire charges for switches between
beyond those that the places of `u` and `v` show. The least costs of both problems are therefore equal, and what is
between in an optimum of the smaller one is looked up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.search.optimum.clauses import Clause, Literal
from dovetail.search.optimum.problem import OUTSIDE, Assignment, PricedWire, Problem
from dovetail.search.policy import SolverPolicy


@dataclass(frozen=True, slots=True)
class _StretchCosts:
    """What a stretch costs at least for every pair of levels of its ends, and the levels of units between.

    `between` is what a minimum was taken over: the levels of units, or of one separator between two stretches.
    """

    units: tuple[int, ...]
    value: AnyArray
    choice: AnyArray
    sizes: tuple[int, ...]
    parts: tuple[_StretchCosts, ...] = ()

    def restore(self, ends: tuple[int, int], levels: list[int]) -> None:
        """Write the levels between two ends that have theirs."""
        rest: list[tuple[_StretchCosts, tuple[int, int]]] = [(self, ends)]
        while rest:
            table, (first, last) = rest.pop()
            chosen = [int(level) for level in np.unravel_index(int(table.choice[first, last]), table.sizes)]
            for unit, level in zip(table.units, chosen, strict=True):
                levels[unit] = level
            if table.parts:
                before, after = table.parts
                rest += [(before, (first, chosen[0])), (after, (chosen[0], last))]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A smaller problem of equal least cost; `units` are those of the larger one that it keeps."""

    problem: Problem
    movable: frozenset[int]
    units: tuple[int, ...]
    _size: int
    _runs: tuple[tuple[int, int, _StretchCosts], ...]

    def clauses(self, clauses: Iterable[Clause]) -> list[Clause]:
        """Return clauses on the units of the smaller problem."""
        number = {unit: index for index, unit in enumerate(self.units)}
        return [
            Clause(frozenset(Literal(number[item.unit], item.level) for item in clause.literals), ())
            for clause in clauses
        ]

    def expand(self, assignment: Assignment) -> Assignment:
        """Return the cheapest assignment of the larger problem that agrees with one of the smaller problem."""
        levels = [0] * self._size
        for unit, level in zip(self.units, assignment, strict=True):
            levels[unit] = level
        for first, last, table in self._runs:
            table.restore((levels[first], levels[last]), levels)
        return tuple(levels)


def contract(
    problem: Problem, named: Iterable[int], movable: frozenset[int], policy: SolverPolicy
) -> Contraction | None:
    """Return a smaller problem that keeps the named units, or None where nothing can be contracted.

    Limits on partitions and bytes also look at assignments that are not the cheapest ones: these are left alone.
    """
    demands = problem.demands
    bounded = (demands.most_partitions, demands.most_crossing_bytes, demands.most_weight_bytes)
    if any(most is not None for most in bounded):
        return None
    kept = frozenset(named).union(*demands.groups)
    runs = [
        (run[0].first, run[-1].last, _chain(problem, movable, run))
        for run in _runs(problem, kept, policy.states)
        if run[-1].last - run[0].first > 1
    ]
    return _replaced(problem, movable, runs) if runs else None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Two neighbouring separators and all wires that begin at the first or between them."""

    first: int
    last: int
    wires: tuple[PricedWire, ...]


def _separators(problem: Problem) -> list[int]:
    """Return the units that alone are read across the place after them, and that all longest paths pass."""
    reach = [-1] * (problem.size + 1)
    read = [False] * problem.size
    for wire in problem.wires:
        furthest = max((problem.size if unit == OUTSIDE else unit for unit in wire.consumers), default=-1)
        reach[wire.producer] = max(reach[wire.producer], furthest)
        if wire.producer != OUTSIDE and set(wire.consumers) != {OUTSIDE}:
            read[wire.producer] = read[wire.producer] or bool(wire.consumers)
    reads = [any(source != OUTSIDE for source in sources) for sources in problem.sources]
    start = max((unit for unit in range(problem.size) if not reads[unit]), default=0)
    end = min((unit for unit in range(problem.size) if not read[unit]), default=problem.size - 1)
    separators: list[int] = []
    furthest = reach[OUTSIDE]
    for unit in range(problem.size):
        # What is made earlier is not read later than here.
        if furthest <= unit and start <= unit <= end:
            separators.append(unit)
        furthest = max(furthest, reach[unit])
    return separators


def _runs(problem: Problem, kept: frozenset[int], most_states: int) -> Iterator[list[_Stretch]]:
    """Yield longest sequences of stretches that may become one wire.

    A stretch with more combinations of places is left as it is.
    """
    produced: list[list[PricedWire]] = [[] for _ in range(problem.size)]
    for wire in problem.wires:
        if wire.producer != OUTSIDE:
            produced[wire.producer].append(wire)
    run: list[_Stretch] = []
    for first, last in itertools.pairwise(_separators(problem)):
        if run and first in kept:
            yield run
            run = []
        states = math.prod(len(problem.choices[unit]) for unit in range(first, last + 1))
        if states > most_states or not kept.isdisjoint(range(first + 1, last)):
            if run:
                yield run
            run = []
        else:
            run.append(_Stretch(first, last, tuple(itertools.chain.from_iterable(produced[first:last]))))
    if run:
        yield run


def _allowed(problem: Problem, movable: frozenset[int], unit: int) -> tuple[float, ...]:
    """Return the costs of a unit, endless where it may not be."""
    ladder, costs, target_of = problem.choices[unit], problem.cost_ns[unit], problem.target_of
    if unit in movable:
        return costs
    return tuple(
        cost if target_of[place] == target_of[ladder[0]] else math.inf
        for place, cost in zip(ladder, costs, strict=True)
    )


def _chain(problem: Problem, movable: frozenset[int], run: Sequence[_Stretch]) -> _StretchCosts:
    """Return the table of stretches one after another."""
    known: dict[object, _StretchCosts] = {}
    targets = [np.array([problem.target_of[place] for place in ladder]) for ladder in problem.choices]
    whole: _StretchCosts | None = None
    for stretch in run:
        table = _known_table(problem, movable, stretch, known)
        if whole is None:
            whole = table
            continue
        start, middle, end = targets[run[0].first], targets[stretch.first], targets[stretch.last]
        switches = (
            (start[:, None] != middle)[:, :, None].astype(np.float64)
            + (middle[:, None] != end)
            - (start[:, None] != end)[:, None, :]
        )
        work = np.array(_allowed(problem, movable, stretch.first))
        total = whole.value[:, :, None] + (work[:, None] + table.value) + problem.switch_ns * switches
        choice = total.argmin(axis=1)
        whole = _StretchCosts((stretch.first,), total.min(axis=1), choice, (len(work),), (whole, table))
    assert whole is not None
    return whole


def _known_table(
    problem: Problem, movable: frozenset[int], stretch: _Stretch, known: dict[object, _StretchCosts]
) -> _StretchCosts:
    """Return the table of a stretch; networks repeat themselves, so that many are known."""
    units = range(stretch.first, stretch.last + 1)
    between = tuple(units)[1:-1]
    costs = tuple(_allowed(problem, movable, unit) for unit in between)
    key = (
        tuple(problem.choices[unit] for unit in units),
        costs,
        tuple(
            (
                wire.producer - stretch.first,
                tuple(unit - stretch.first for unit in wire.consumers),
                frozenset(wire.cost_ns.items()),
            )
            for wire in stretch.wires
        ),
    )
    if key not in known:
        known[key] = _table(problem, stretch, costs)
    return replace(known[key], units=between)


def _table(problem: Problem, stretch: _Stretch, costs: Sequence[Sequence[float]]) -> _StretchCosts:
    """Return the table of one stretch: every combination of levels at once, an axis for each unit."""
    units = range(stretch.first, stretch.last + 1)
    place = {unit: _on_axis(problem.choices[unit], unit - stretch.first, len(units)) for unit in units}
    target = {unit: np.array(problem.target_of)[place[unit]] for unit in units}
    total = np.zeros(tuple(len(problem.choices[unit]) for unit in units))
    for unit, cost in zip(units[1:-1], costs, strict=True):
        total = total + _on_axis(cost, unit - stretch.first, len(units))
    for wire in stretch.wires:
        ladder = problem.choices[wire.producer]
        for end in dict.fromkeys(end for unit in wire.consumers for end in problem.choices[unit]):
            brought = [wire.cost_ns.get((start, end), 0.0) for start in ladder]
            needed = np.logical_or.reduce(np.broadcast_arrays(*[place[unit] == end for unit in wire.consumers]))
            total = total + _on_axis(brought, wire.producer - stretch.first, len(units)) * needed
    if problem.switch_ns:
        total = total + problem.switch_ns * _hidden_switches(problem, units, target)
    ends = total.shape[0], total.shape[-1]
    flat = np.moveaxis(total, -1, 1).reshape(*ends, -1)
    return _StretchCosts(tuple(units[1:-1]), flat.min(axis=2), flat.argmin(axis=2), total.shape[1:-1])


def _hidden_switches(problem: Problem, units: range, target: Mapping[int, AnyArray]) -> AnyArray:
    """Return the changes of target on a longest path beyond what the ends show."""
    changes: dict[int, AnyArray] = {units[0]: np.zeros((1,) * len(units))}
    for unit in units[1:]:
        ways = [changes[source] + (target[source] != target[unit]) for source in problem.sources[unit]]
        changes[unit] = np.maximum.reduce(np.broadcast_arrays(*ways))
    hidden: AnyArray = changes[units[-1]] - (target[units[0]] != target[units[-1]])
    return hidden


def _on_axis(values: Sequence[float], axis: int, axes: int) -> AnyArray:
    return np.array(values).reshape(tuple(-1 if index == axis else 1 for index in range(axes)))


def _replaced(problem: Problem, movable: frozenset[int], runs: Sequence[tuple[int, int, _StretchCosts]]) -> Contraction:
    """Return the problem with a wire in the place of each run."""
    gone = {unit for first, last, _ in runs for unit in range(first + 1, last)}
    silent = gone.union(first for first, _, _ in runs)
    units = tuple(unit for unit in range(problem.size) if unit not in gone)
    number = {unit: index for index, unit in enumerate(units)} | {OUTSIDE: OUTSIDE}
    wires = [
        replace(wire, producer=number[wire.producer], consumers=tuple(number[unit] for unit in wire.consumers))
        for wire in problem.wires
        if wire.producer not in silent
    ]
    for first, last, table in runs:
        cost = {
            (start, end): float(table.value[row, column])
            for row, start in enumerate(problem.choices[first])
            for column, end in enumerate(problem.choices[last])
        }
        wires.append(PricedWire(number[first], (number[last],), cost))
    smaller = replace(
        problem,
        choices=tuple(problem.choices[unit] for unit in units),
        cost_ns=tuple(problem.cost_ns[unit] for unit in units),
        wires=tuple(wires),
        weight_bytes=tuple(problem.weight_bytes[unit] for unit in units) if problem.weight_bytes else (),
        demands=replace(
            problem.demands,
            groups=tuple(tuple(number[unit] for unit in group) for group in problem.demands.groups),
        ),
    )
    moving = frozenset(number[unit] for unit in units if unit in movable)
    return Contraction(smaller, moving, units, problem.size, tuple(runs))
