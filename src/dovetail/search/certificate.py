"""What is proven of a plan's cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.cost import PlanCost
from dovetail.plan.placement import Placement


@dataclass(frozen=True, slots=True)
class Alternative:
    """A unit and the least placement that would satisfy a clause."""

    unit: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class NamedClause:
    """The plan that raises only `witness` fails, so that one of the alternatives is needed."""

    alternatives: tuple[Alternative, ...]
    witness: Mapping[str, Placement]


@dataclass(frozen=True, slots=True)
class Certificate:
    """The cost of the chosen plan and what is proven of every cheaper one."""

    cost: PlanCost
    lower_bound_ns: float
    """Latency that no passing plan of the search space is below, if raising a unit never makes accuracy worse."""
    clauses: tuple[NamedClause, ...]
    tests: int
    monotone: bool
    """No verdict has contradicted that."""
    complete: bool
    """The proof ended by itself, not for want of tests or time."""
    low_ns: float
    """Latency of the plan in which no unit is raised, whether it passes or not."""

    @property
    def gap(self) -> float:
        """Return the share of the plan's latency that is not proven necessary."""
        latency_ns = self.cost.latency_ns
        return max(0.0, 1.0 - self.lower_bound_ns / latency_ns) if latency_ns > 0 else 0.0
