"""What a search is asked, with its options, and who is told of its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dovetail.compare.decisions import Decisions
from dovetail.compare.task import TaskMetric
from dovetail.data.sample import SampleSource
from dovetail.data.split import Splits
from dovetail.ir.graph import Graph
from dovetail.plan.demands import ToolDemands
from dovetail.plan.limits import Limits
from dovetail.plan.placement import Placement
from dovetail.plan.recipe import Recipe
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.ranges import Range
from dovetail.search.fanout import FanOut
from dovetail.search.goal import Goal
from dovetail.search.policy import SearchPolicy
from dovetail.search.proof import CostOptions
from dovetail.search.trial import Trial
from dovetail.search.vendor import VendorCheck


class TuneListener(Protocol):
    """Is told of progress."""

    def stage(self, title: str) -> None:
        """A stage begins."""

    def trial(self, trial: Trial) -> None:
        """A plan was judged."""


class SilentSearch:
    """A listener that does nothing."""

    def stage(self, title: str) -> None:
        """Ignore it."""

    def trial(self, trial: Trial) -> None:
        """Ignore it."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to search."""

    max_plans: int = 200
    """Plans after which a passing set is no longer made smaller and no other round begins: what is returned then may
    not be minimal."""
    time_limit_s: float | None = None
    """Time of evaluations after which the best plan so far is the answer; None sets no limit."""
    journal: Path | None = None
    """Where evaluations are kept, so that a killed search goes on; None keeps them in memory."""
    fanout: FanOut = field(default_factory=FanOut)
    """Where plans are evaluated."""
    confirm: int = 0
    """How often the plan and every removal from it are evaluated again in the end."""
    log: Path | None = None
    """Where the log for a replay goes."""
    log_header: Mapping[str, object] = field(default_factory=dict)
    """What the log says of where the question came from."""
    repairs: tuple[str, ...] = ()
    """Kinds of repairs that may be tried where everything low misses the goal, before anything is raised."""
    vendor: VendorCheck | None = None
    """The vendor's own simulator, asked before a plan is accepted."""
    policy: SearchPolicy = field(default_factory=SearchPolicy)
    """Every number that steers the search."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What to tune."""

    graph: Graph
    calibration: Calibration
    samples: SampleSource
    splits: Splits
    """Which of the samples the search may see."""
    metric: TaskMetric
    goal: Goal
    low: Placement
    """Where everything starts."""
    ladder: tuple[Placement, ...]
    """Where units may be raised to, cheapest first; float on the CPU comes last by itself."""
    metric_identity: str = ""
    """Changes whenever the same outputs could score differently; the metric's name by default."""
    options: TuneOptions = field(default_factory=TuneOptions)
    wishes: Recipe | None = None
    """Rules that pin nodes, and limits on the whole plan; its default and fallbacks are not looked at."""
    costs: CostOptions = field(default_factory=CostOptions)
    source: Graph | None = None
    """The graph as shipped where `graph` is a repaired one."""
    repairs: tuple[RepairRecord, ...] = ()
    """What turned `source` into `graph`."""
    decisions: Decisions | None = None
    """What compares the decisions of the model with float's, where they are known; the metric may be another."""
    demands: ToolDemands | None = None
    """What a toolchain can obey, where the plan is for one."""
    needed: Mapping[str, Range] = field(default_factory=dict)
    """What is needed of the ranges of outputs, where a repair cuts off the rest: noise is measured within it."""

    @property
    def limits(self) -> Limits:
        """Return the limits on the whole plan."""
        return Limits() if self.wishes is None else self.wishes.limits
