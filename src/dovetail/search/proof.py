"""The proof: from a passing plan to the cheapest one, with a lower bound and the clauses behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.backend.costs import CostSource
from dovetail.backend.profiles.hosts import HostFacts
from dovetail.backend.registry import find_target
from dovetail.backend.target import Target
from dovetail.cost import CostModel, make_cost_model
from dovetail.errors import CostError
from dovetail.plan.limits import Limits
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.resolve import group_units, placeable_units
from dovetail.plan.units import Units
from dovetail.search.certificate import Alternative, Certificate, NamedClause
from dovetail.search.optimum import Assignment, Clause, Demands, Optimum, ProofOptions, prove, solve
from dovetail.search.policy import SearchPolicy
from dovetail.search.price_record import PriceRecord
from dovetail.search.pricing import PricedSpace, placements_of, price_space
from dovetail.search.space import Space
from dovetail.search.trial import Status

JudgeRaised = Callable[[Mapping[str, Placement]], Status]
"""Returns the verdict on the plan that raises some units."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """What prices plans, and how far the proof may go."""

    sources: tuple[CostSource, ...] = ()
    """Figures that are asked before rooflines."""
    host: HostFacts | None = None
    """The CPU; None takes the one on the target's chip."""
    migrates: bool = True
    """Units without fault may leave the NPU where that is cheaper; else only those that a failing plan names, and what
    comes after them, unless a plan that was tested shows that it pays."""
    most_tests: int | None = None
    """Plans tested for the proof, beyond those of the search. None is enough to prove most plans of a small graph, and
    less for a large one, whose plans take long."""
    time_limit_s: float = 30.0
    """Time of one integer programme."""
    worthwhile: float = 0.005
    """Share of the latency that a unit which does not break has to save to go along: no figure is more exact."""
    vendor_s: float = 0.0
    """Time that a vendor's performance model may take for the prices of units, where one is here; 0 asks none."""

    def __post_init__(self) -> None:
        if self.most_tests is not None and self.most_tests < 0:
            raise CostError(f"a proof cannot make {self.most_tests} tests.", hint="Write 0 for none.")
        if not 0 <= self.vendor_s < math.inf:
            raise CostError(f"prices cannot take {self.vendor_s} s.", hint="Write 0 to ask no vendor's model.")


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """The verdict on a plan that raises some units."""

    raised: Mapping[str, Placement]
    status: Status


@dataclass(frozen=True, slots=True)
class Prover:
    """Finds the cheapest passing plan of one space."""

    space: Space
    model: CostModel
    priced: PricedSpace
    limits: Limits
    options: CostOptions
    policy: SearchPolicy = field(default_factory=SearchPolicy)
    order: Sequence[str] = ()
    """Units, those first that are most likely to do harm."""

    def improve(
        self,
        start: Mapping[str, Placement],
        known: Iterable[KnownPlan],
        judge: JudgeRaised,
        go_on: Callable[[], bool] = lambda: True,
    ) -> tuple[dict[str, Placement] | None, Optimum]:
        """Return the cheapest plan that passes, as raised units, and what is known of cheaper ones.

        `start` is the plan of the search; None when no plan that was tested keeps within the limits and passes.
        """

        def test(assignment: Assignment) -> Status:
            return judge(self.priced.raised(assignment)) if self._fits(assignment) else Status.CANNOT_TEST

        verdicts = {self.priced.assignment(item.raised): item.status for item in known}
        verdicts = {item: status for item, status in verdicts.items() if status is not Status.PASS or self._fits(item)}
        options = ProofOptions(
            self._most_tests(start),
            self.options.time_limit_s,
            tuple(self.priced.numbers(reversed(self.order))),
            self.priced.assignment(start),
            self.policy.proof.contradictions,
            self.policy.solver,
            0.0 if self._is_small else self.policy.proof.gap,
            go_on,
        )
        optimum = prove(self.priced.problem, test, verdicts, options)
        best = None if optimum.assignment is None else self.priced.raised(optimum.assignment)
        return best, optimum

    def _most_tests(self, start: Mapping[str, Placement]) -> int:
        policy = self.policy.proof
        if self.options.most_tests is not None:
            return self.options.most_tests
        if self._is_small:
            return policy.tests_of_small
        return policy.tests if policy.tests_of_a_unit * len(start) <= policy.tests else policy.tests_of_many

    @property
    def _is_small(self) -> bool:
        return self.priced.problem.size <= self.policy.proof.small

    def certificate(self, plan: Plan, optimum: Optimum) -> Certificate:
        """Return what is proven of a plan."""
        return Certificate(
            cost=self.model.plan_cost(plan),
            lower_bound_ns=optimum.bound_ns,
            clauses=tuple(self._name(clause) for clause in optimum.clauses),
            tests=optimum.tests,
            monotone=optimum.monotone,
            complete=optimum.complete,
            low_ns=self.latency_ns({}),
        )

    def unproven(self, plan: Plan) -> Certificate:
        """Return what a plan costs, beside the cheapest one of the space, whatever that loses."""
        found = solve(
            replace(self.priced.problem, migrates=True),
            time_limit_s=self.options.time_limit_s,
            policy=self.policy.solver,
        )
        cost, bound_ns = self.model.plan_cost(plan), 0.0 if found is None else found.bound_ns
        bound_ns, low_ns = min(bound_ns, cost.latency_ns), self.latency_ns({})
        return Certificate(cost, bound_ns, clauses=(), tests=0, monotone=True, complete=False, low_ns=low_ns)

    def latency_ns(self, raised: Mapping[str, Placement]) -> float:
        """Return what a plan takes."""
        return self.priced.problem.cost(self.priced.assignment(raised))

    def saved_ns(self, raised: Mapping[str, Placement]) -> dict[str, float]:
        """Return for every raised unit how much less a plan takes without it."""
        levels = list(self.priced.assignment(raised))
        return {unit: self._saved_ns(levels, unit) for unit in raised}

    def _saved_ns(self, levels: list[int], unit: str) -> float:
        numbers, problem = self.priced.numbers(self.space.parts(unit)), self.priced.problem
        if len(numbers) == 1:
            return -problem.added_ns(levels, numbers[0], 0)
        without = [0 if number in numbers else level for number, level in enumerate(levels)]
        return problem.cost(levels) - problem.cost(without)

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
            Alternative(priced.name(item.unit), priced.places[problem.choices[item.unit][item.level]])
            for item in sorted(clause.literals)
        )
        return NamedClause(tuple(dict.fromkeys(alternatives)), priced.raised(clause.witness))


def make_prover(
    space: Space,
    limits: Limits,
    options: CostOptions,
    order: Sequence[str],
    policy: SearchPolicy | None = None,
    record: PriceRecord | None = None,
) -> Prover:
    """Return the prover of a space; raise CostError when nothing prices some placement.

    `order` lists units, those first that are most likely to do harm; `record` keeps what a vendor's model says.
    """
    names = {space.low.target, HOST, *space.base.targets}
    names.update(place.target for ladder in space.ladders.values() for place in ladder)
    targets = {name: find_target(name) for name in sorted(names, key=lambda name: (name != space.low.target, name))}
    units = placeable_units(space.graph, space.low, targets)
    model = _priced(space, units, list(targets.values()), options, record or PriceRecord())
    index = {unit: number for number, unit in enumerate(model.wiring.order)}
    groups = group_units(space.graph, limits, units)
    demands = Demands(
        most_partitions=limits.partitions,
        most_crossing_bytes=limits.boundary_bytes,
        most_latency_ns=limits.latency_ns,
        most_weight_bytes=limits.memory_bytes,
        groups=(
            *(tuple(index[unit.name] for unit in group) for group in groups),
            *(tuple(index[name] for name in bundle) for bundle in space.bundles),
        ),
    )
    priced = price_space(space, model, demands, options.migrates)
    return Prover(space, model, priced, limits, options, policy or SearchPolicy(), order)


def _priced(
    space: Space, units: Units, targets: Sequence[Target], options: CostOptions, record: PriceRecord
) -> CostModel:
    """Return the cost model, with the vendor's prices of units where there are any."""
    model = make_cost_model(space.graph, units, targets, options.sources, options.host)
    places = dict.fromkeys(place for unit in units.items for place in placements_of(space, unit.name))
    probed = record.settle(model, tuple(places), options.vendor_s)
    if not probed.figures:
        return model
    return make_cost_model(space.graph, units, targets, (*options.sources, probed), options.host)
