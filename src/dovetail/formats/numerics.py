"""The numbers of a toolchain that finds ranges, and computes, by rules of its own, whatever a plan was made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from dovetail.data import SampleSource
from dovetail.ir.graph import Graph
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize import Calibration, CalibrationOptions, Ranges, calibrate


@dataclass(frozen=True, slots=True)
class ToolNumerics:
    """How a toolchain watches tensors, what its kernels make of the ranges, and whose arithmetic theirs is."""

    target: str
    """The target that computes as the toolchain does."""
    adjust: Callable[[Graph, Ranges, Plan | None], Ranges] | None = None
    """What its kernels make of ranges; None where it takes those of the plan, or finds them as Dovetail does."""
    options: CalibrationOptions = field(default_factory=CalibrationOptions)

    def calibrate(
        self,
        graph: Graph,
        samples: SampleSource,
        progress: Callable[[int], None] = lambda done: None,
        plan: Plan | None = None,
    ) -> Calibration:
        """Return the ranges that the toolchain will find, for a plan where one is known.

        Raises DataError as calibration does.
        """
        found = calibrate(graph, samples, self.options, progress)
        return found if self.adjust is None else replace(found, ranges=self.adjust(graph, found.ranges, plan))

    def placed(self, plan: Plan) -> Plan:
        """Return a plan with what is quantised where the toolchain computes it."""

        def moved(place: Placement) -> Placement:
            return replace(place, target=self.target) if place.precision.is_quantized else place

        overrides = {name: Override(moved(item.placement), item.reason) for name, item in plan.overrides.items()}
        return Plan(plan.graph_digest, moved(plan.default), overrides)


@runtime_checkable
class HasNumerics(Protocol):
    """A format or a consumer whose toolchain has numbers of its own."""

    @property
    def numerics(self) -> ToolNumerics | None:
        """Return them; None where it takes the plan's, or finds ranges as Dovetail does."""


def numerics_of(item: object) -> ToolNumerics | None:
    """Return the numbers of a format's or a consumer's toolchain; None where nothing of its own is known."""
    return item.numerics if isinstance(item, HasNumerics) else None


@runtime_checkable
class ForetoldModel(Protocol):
    """A consumer that rounds elsewhere than where a plan stores tensors, by rules that are known."""

    def expected(self, graph: Graph, plan: Plan, samples: SampleSource) -> QuantizedGraph:
        """Return the model that its rules make of a plan; it calibrates on the samples."""
