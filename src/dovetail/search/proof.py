"""The proof: from a passing plan to the cheapest one, with a lower bound and the clauses behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.backend.costs import CostSource
from dovetail.backend.profiles.hosts import HostFacts
from dovetail.backend.registry import find_target
from dovetail.cost import CostModel, make_cost_model
from dovetail.errors import CostError
from dovetail.plan.limits import Limits
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override
from dovetail.plan.resolve import group_units, placeable_units
from dovetail.search.certificate import Alternative, Certificate, NamedClause
from dovetail.search.optimum import Assignment, Clause, Demands, Optimum, ProofOptions, prove
from dovetail.search.pricing import PricedSpace, price_space
from dovetail.search.space import Space
from dovetail.search.trial import Status

JudgeRaised = Callable[[Mapping[str, Placement]], Status]

_TESTS = 60
_TESTS_OF_SMALL, _SMALL = 240, 60
"""Tests for a graph of at most so many units."""

_TESTS_OF_A_UNIT = 2
"""Tests at least that it takes to say why a unit has to be raised: of a large graph, where they are dear, nothing is
tested for a proof that they cannot complete."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Say what prices plans, and how far the proof may go.

    `sources` are asked before rooflines; `host` None takes the CPU on the target's chip. With `migrates` units
    without fault may leave the NPU where that is cheaper; else only those that a failing plan names, and what comes
    after them, unless a plan that was tested shows that it pays. A unit that does not break goes along only where that
    saves the share `worthwhile` of the latency. At most `most_tests` plans are tested beyond those of the search; None
    is enough to prove most plans of a small graph, and less for a large one, whose plans take long.
    Where the samples are too few to show with 95 % confidence that the goal is met, units that drown most are raised
    too while the latency grows by no more than the share `margin`.
    """

    sources: tuple[CostSource, ...] = ()
    host: HostFacts | None = None
    migrates: bool = False
    most_tests: int | None = None
    time_limit_s: float = 30.0
    worthwhile: float = 0.005
    margin: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.margin < math.inf:
            raise CostError(f"a margin of {self.margin} is no share of the latency.", hint="Write 0.1 for a tenth.")
        if self.most_tests is not None and self.most_tests < 0:
            raise CostError(f"a proof cannot make {self.most_tests} tests.", hint="Write 0 for none.")


@dataclass(frozen=True)
class Prover:
    """Search the cheapest passing plan of one space."""

    space: Space
    model: CostModel
    priced: PricedSpace
    limits: Limits
    options: CostOptions
    suspects: Sequence[str] = field(default_factory=tuple)

    def improve(
        self,
        start: Mapping[str, Placement],
        known: Sequence[tuple[Mapping[str, Placement], Status]],
        judge: JudgeRaised,
    ) -> tuple[dict[str, Placement] | None, Optimum]:
        """Return the cheapest plan that passes, as raised units, and what is known of cheaper ones.

        `start` is the plan of the search; None when no plan that was tested keeps within the limits and passes.
        """
        answers = {self.priced.assignment(raised): status for raised, status in known}

        def test(assignment: Assignment) -> Status:
            return judge(self.priced.raised(assignment)) if self._fits(assignment) else Status.CANNOT_TEST

        answers = {item: status for item, status in answers.items() if status is not Status.PASS or self._fits(item)}
        order = self.priced.numbers(reversed(self.suspects))
        options = ProofOptions(
            self._most_tests(start), self.options.time_limit_s, tuple(order), self.priced.assignment(start)
        )
        optimum = prove(self.priced.problem, test, answers, options)
        best = None if optimum.assignment is None else self.priced.raised(optimum.assignment)
        return best, optimum

    def _most_tests(self, start: Mapping[str, Placement]) -> int:
        if self.options.most_tests is not None:
            return self.options.most_tests
        if self.priced.problem.size <= _SMALL:
            return _TESTS_OF_SMALL
        return _TESTS if _TESTS_OF_A_UNIT * len(start) <= _TESTS else 0

    @property
    def for_suspicion(self) -> Prover:
        """Return the prover of a plan that was raised on suspicion: for a large graph one that makes no tests."""
        if self.priced.problem.size <= _SMALL:
            return self
        return replace(self, options=replace(self.options, most_tests=0))

    def certificate(self, raised: Mapping[str, Override], optimum: Optimum) -> Certificate:
        """Return what is proven of a plan."""
        return Certificate(
            cost=self.model.plan_cost(self.space.plan(raised)),
            lower_bound_ns=optimum.bound_ns,
            clauses=tuple(self._name(clause) for clause in optimum.clauses),
            tests=optimum.tests,
            monotone=optimum.monotone,
            complete=optimum.complete,
        )

    def latency_ns(self, raised: Mapping[str, Placement]) -> float:
        """Return what a plan takes."""
        return self.priced.problem.cost(self.priced.assignment(raised))

    def price_ns(self, raised: Mapping[str, Override]) -> float:
        """Return what a plan takes whose raised units have their reasons."""
        return self.latency_ns({unit: override.placement for unit, override in raised.items()})

    def saved_ns(self, raised: Mapping[str, Placement]) -> dict[str, float]:
        """Return for every raised unit how much less a plan takes without it."""
        levels = list(self.priced.assignment(raised))
        numbers = zip(raised, self.priced.numbers(raised), strict=True)
        return {unit: -self.priced.problem.added_ns(levels, number, 0) for unit, number in numbers}

    def allows(self, raised: Mapping[str, Placement]) -> bool:
        """Tell whether a plan keeps within the limits."""
        assignment = self.priced.assignment(raised)
        return self.priced.problem.meets_demands(assignment) and self._fits(assignment)

    def _fits(self, assignment: Assignment) -> bool:
        """Tell whether a plan fits the memory: its peak is not linear, so the programme knows only a part of it."""
        if self.limits.memory_bytes is None:
            return True
        raised = {unit: Override(place, "") for unit, place in self.priced.raised(assignment).items()}
        return self.model.plan_cost(self.space.plan(raised)).memory.total_bytes <= self.limits.memory_bytes

    def _name(self, clause: Clause) -> NamedClause:
        problem, priced = self.priced.problem, self.priced
        alternatives = tuple(
            Alternative(priced.units[item.unit], priced.places[problem.choices[item.unit][item.level]])
            for item in sorted(clause.literals)
        )
        return NamedClause(alternatives, priced.raised(clause.witness))


def make_prover(space: Space, limits: Limits, options: CostOptions, suspects: Sequence[str]) -> Prover:
    """Return the prover of a space; raise CostError when nothing prices some placement."""
    names = {space.low.target, HOST, *space.base.targets}
    names.update(place.target for ladder in space.ladders.values() for place in ladder)
    targets = {name: find_target(name) for name in sorted(names, key=lambda name: (name != space.low.target, name))}
    units = placeable_units(space.graph, space.low, targets)
    model = make_cost_model(space.graph, units, list(targets.values()), options.sources, options.host)
    index = {unit: number for number, unit in enumerate(model.wiring.order)}
    groups = group_units(space.graph, limits, units)
    demands = Demands(
        most_partitions=limits.partitions,
        most_crossing_bytes=limits.boundary_bytes,
        most_latency_ns=limits.latency_ns,
        most_weight_bytes=limits.memory_bytes,
        groups=tuple(tuple(index[unit.name] for unit in group) for group in groups),
    )
    return Prover(space, model, price_space(space, model, demands, options.migrates), limits, options, suspects)
