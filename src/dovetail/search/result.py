"""What a search returns, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.repair import HealedModel
from dovetail.search.certificate import Certificate
from dovetail.search.front import FrontPoint, ParetoPoint
from dovetail.search.goal import Goal
from dovetail.search.trial import Status, Trial
from dovetail.search.verdict import Assessment, Verdict


class GateVerdict(Enum):
    """What the first few evaluations mean."""

    NOTHING_TO_DO = "nothing to do"
    QUANTISATION_BREAKS = "low precision fails, the first rung passes"
    NPU_DIFFERS = "in simulation low precision passes on the CPU, not on the NPU"
    FIRST_RUNG_FAILS = "the first rung fails too"


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One of the first evaluations, such as everything at low precision."""

    name: str
    trial: Trial


@dataclass(frozen=True, slots=True)
class Gate:
    """What the first evaluations mean; `text` names what was compared."""

    verdict: GateVerdict
    text: str
    checks: tuple[GateCheck, ...]
    """Everything low on the search split comes first."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """A raised unit, where it went, and why it breaks at low precision."""

    unit: str
    nodes: tuple[str, ...]
    op: str
    placement: Placement
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What comes of putting one unit back to low precision: the trial of exactly that, and its latency."""

    unit: str
    trial: Trial
    latency_ns: float | None = None


@dataclass(frozen=True, slots=True)
class SurerPlan:
    """A dearer plan that surely meets the goal where the cheapest may not, or is likely to where that is not."""

    plan: Plan
    raised: int
    """Units that it raises."""
    assessment: Assessment
    latency_ns: float | None = None
    """None where nothing prices the placements."""


@dataclass(frozen=True, slots=True)
class SplitScores:
    """Scores on one split; `low` is the plan before the search, `tuned` the plan that it chose."""

    name: str
    samples: int
    float_score: float
    low: float
    tuned: float
    tuned_exact: float | None = None
    low_samples: int | None = None
    tuned_samples: int | None = None
    """Samples behind `low` and `tuned` where a clear loser was tested on fewer than all."""


@dataclass(frozen=True, slots=True)
class RepairTrial:
    """A repair that the plan rests on, and what everything low scores with all repairs and without this one."""

    kind: str
    exactness: str
    sites: int
    """Tensors that it touches."""
    score: float
    score_without: float
    latency_ns: float | None = None
    """What the plan takes, where the repair costs latency."""
    latency_without_ns: float | None = None
    """What the plan of a search without it takes; None where there was none, see ADR 24."""


@dataclass(frozen=True, slots=True)
class Healing:
    """What repairs do for everything low, on the search split."""

    shipped: float
    """The score without any."""
    healed: float
    trials: tuple[RepairTrial, ...]
    """The repairs that are needed, in the order in which they are applied."""
    refused: tuple[str, ...] = ()
    """Repairs that do not keep what they claim."""
    weights_alone: float = float("nan")
    """The score where only weights are rounded; NaN where that was not evaluated."""
    activations_alone: float = float("nan")
    """The score where only activations are."""
    unpaid: tuple[str, ...] = ()
    """Repairs that cost latency and are not worth it, and why."""


@dataclass(frozen=True, slots=True)
class TuneCost:
    """What the search cost; full equivalents are evaluated samples over the samples of the search split."""

    full_equivalents: float
    fresh_samples: int
    recalled_samples: int
    trials: int
    elapsed_s: float
    rejected_early: int = 0
    """Verdicts that rest on a part of the samples."""
    alpha: float = 0.0
    """Probability at most with which each of these is wrong."""
    untried: tuple[str, ...] = ()
    """What might have led to a cheaper plan and was not tried."""


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The answer: the plan, the verdict on it, and the evidence."""

    plan: Plan
    assessment: Assessment
    """The verdict, and how sure it is."""
    gate: Gate
    summary: str
    """The verdict in words."""
    goal: Goal
    metric: str
    higher_is_better: bool
    low: Placement
    unit_count: int
    culprits: tuple[Culprit, ...]
    evidence: tuple[Evidence, ...]
    search: SplitScores
    holdout: SplitScores
    pareto: tuple[ParetoPoint, ...]
    cost: TuneCost
    companions: tuple[Culprit, ...] = ()
    """Units that went along with culprits because that is cheaper: at low precision they meet the target too."""
    front: tuple[FrontPoint, ...] = ()
    """Score against latency; empty when nothing prices the placements."""
    surer: SurerPlan | None = None
    """The cheapest plan that surely meets the goal, where the answer only likely does; None where none is known."""
    certificate: Certificate | None = None
    """What the plan costs and what is proven of cheaper ones; None when nothing prices the placements."""
    repaired: HealedModel | None = None
    """The graph that the plan is for with its calibration, where that is not the one as shipped."""
    healing: Healing | None = None
    """What repairs were tried before anything was raised; None where everything low met the goal, or none may be."""
    looks: int = 0
    """How often the hold-out was looked at for the answer."""
    events: tuple[str, ...] = ()
    """What did not go as it should: workers that died, oracles that wavered, plans that got worse by raising more."""

    @property
    def raised(self) -> tuple[Culprit, ...]:
        """Return every raised unit: culprits and companions."""
        return (*self.culprits, *self.companions)

    @property
    def verdict(self) -> Verdict:
        """Return whether the goal is met."""
        return self.assessment.verdict

    @property
    def accepted(self) -> bool:
        """Tell whether the goal is met as surely as it asks for."""
        return self.verdict is Verdict.MET or (self.verdict is Verdict.LIKELY and not self.goal.sure)

    @property
    def one_minimal(self) -> bool:
        """Tell whether each culprit is needed by test; raised units of which none is one are no minimal set."""
        needed = {item.unit for item in self.evidence if item.trial.status is not Status.PASS}
        return needed == {item.unit for item in self.culprits} and bool(needed or not self.companions)
