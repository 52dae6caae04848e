"""The report of a search: plain frozen values that any renderer can show."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.compare.decisions import DecisionScore
from dovetail.report.board import BoardFigures
from dovetail.search.certificate import Alternative
from dovetail.search.front import FrontPoint, ParetoPoint
from dovetail.search.result import Culprit, Evidence, GateCheck, Healing, SplitScores, SurerPlan, TuneCost
from dovetail.search.verdict import Assessment, Verdict


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition: where it runs, what it holds, and the bytes that cross into and out of it.

    Bytes are for one sample; None where a size depends on the input.
    """

    index: int
    target: str
    node_count: int
    operators: str
    input_bytes: int | None
    output_bytes: int | None


@dataclass(frozen=True, slots=True)
class OutputRow:
    """What some outputs are together, and how sure that is."""

    outputs: str
    """Names with roles."""
    kind: str
    family: str
    """The published design that they look like; empty where the kind is all that is seen."""
    confidence: float
    reasons: tuple[str, ...]
    """The evidence in words, the strongest first."""


@dataclass(frozen=True, slots=True)
class DifferingSample:
    """A sample on which a candidate decides otherwise than float."""

    sample: str
    loss: float
    """What the worst decision loses."""
    float_decides: str
    """In a few words, such as `3 detections`."""
    candidate_decides: str


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """How many nodes a plan puts where."""

    digest: str
    default: str
    placements: tuple[tuple[str, int], ...]
    boundary_count: int


@dataclass(frozen=True, slots=True)
class ProofSummary:
    """What the plan costs for one sample, and what is proven of cheaper ones.

    `clauses` list the units of which at least one must be raised to the placement given, or above; `sources` are the
    origins of the figures.
    """

    latency_ns: float
    compute_ns: float
    boundary_ns: float
    switch_ns: float
    memory_bytes: int
    lower_bound_ns: float
    gap: float
    tests: int
    monotone: bool
    complete: bool
    clauses: tuple[tuple[Alternative, ...], ...]
    sources: tuple[str, ...]
    migrates: bool = True
    """Plans in which units without fault leave the NPU count among those that the bound is of."""
    low_ns: float | None = None
    """Latency of everything at low precision."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a search found, ready to be shown to a colleague.

    Scores are in the metric's own direction. `one_minimal` tells whether every single removal was tested and failed.
    """

    title: str
    verdict: Verdict
    accepted: bool
    """The verdict does for the policy."""
    summary: str
    """The verdict in words."""
    assessment: Assessment
    diagnosis: str
    """What the first evaluations mean."""
    goal: str
    metric: str
    higher_is_better: bool
    low: str
    unit_count: int
    scores: tuple[SplitScores, ...]
    culprits: tuple[Culprit, ...]
    evidence: tuple[Evidence, ...]
    one_minimal: bool
    gate: tuple[GateCheck, ...]
    plan: PlanSummary
    pareto: tuple[ParetoPoint, ...]
    partitions: tuple[PartitionRow, ...]
    cost: TuneCost
    companions: tuple[Culprit, ...] = ()
    front: tuple[FrontPoint, ...] = ()
    proof: ProofSummary | None = None
    healing: Healing | None = None
    """What repairs do for everything low; None where none were tried."""
    surer: SurerPlan | None = None
    """The cheapest plan that surely meets the goal, where this one only likely does."""
    outputs: tuple[OutputRow, ...] = ()
    """What the outputs were recognised as, where that was asked."""
    notes: tuple[str, ...] = ()
    """What was found out before the search."""
    remarks: tuple[str, ...] = ()
    """What did not go as it should in the search, and what was found out of its hold-out."""
    decisions: tuple[DecisionScore, ...] = ()
    """What the tuned plan decides as float does on the hold-out, decision by decision."""
    differing: tuple[DifferingSample, ...] = ()
    """The samples of the hold-out that differ most, the worst first."""
    board: BoardFigures | None = None
    """What a board gave for the plan, where one was asked."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, scores and what is raised; `Fit` shows all."""
        from dovetail.ir.markup import facts_html, table_html

        facts = {"verdict": self.summary, "goal": self.goal, "diagnosis": self.diagnosis}
        scores = [
            (item.name, str(item.samples), f"{item.float_score:.4g}", f"{item.low:.4g}", f"{item.tuned:.4g}")
            for item in self.scores
        ]
        raised = [(item.unit, item.op, str(item.placement), item.reason) for item in self.culprits]
        return (
            facts_html(self.title, facts.items())
            + table_html(("split", "samples", "float", self.low, "tuned"), scores)
            + table_html(("raised", "operator", "to", "why"), raised)
        )
