"""The result of judging a model that came quantised: what a target makes of every node, what it scores and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from dovetail.backend.target import Engine
from dovetail.cost.modelled import ModelledPartition
from dovetail.cost.record import PlanCost
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.quantize.adapt import PlacedNode
from dovetail.quantize.formats import NodeFormats


class NodeOutcome(Enum):
    """What becomes of the formats that a file asks for a node."""

    HONOURED = "honoured"
    RESTATED = "restated"
    """The same values in the target's own form: signed bytes as unsigned ones, a bias at its accumulator's scale."""
    CHANGED = "changed"
    """On another grid: values differ."""
    CPU = "cpu"
    """The target refuses it; the CPU runs it as the file asks."""
    REFUSED = "refused"
    """Nothing here runs it."""


@dataclass(frozen=True, slots=True)
class JudgedNode:
    """What a file asks of one node, and what a target makes of it."""

    node: str
    op: str
    origin: tuple[str, ...]
    """The nodes of the file that it stands for."""
    asked: NodeFormats
    outcome: NodeOutcome
    placed: PlacedNode | None = None
    """Where it runs; None where nothing runs it."""
    given: NodeFormats | None = None
    """How it is stored there."""
    engine: Engine | None = None
    reason: str = ""
    """Why it is not as the file asks; empty where it is."""

    @property
    def place(self) -> Placement | None:
        """Return where it runs."""
        return None if self.placed is None else self.placed.placement


@dataclass(frozen=True, slots=True)
class JudgedScore:
    """One score over the samples, counted so that more is better; None with the reason where it could not be had."""

    value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a target makes of a quantised model."""

    model: str
    target: str
    arithmetic: str
    """Whose arithmetic gave the target's score."""
    reference: str
    """What counts as float."""
    metric: str
    samples: int
    float_score: float
    own: JudgedScore
    """The file's own integers, by ONNX Runtime on this machine."""
    score: JudgedScore
    """On the target, with what it does not honour changed as `nodes` say."""
    allowance: float
    """The loss that is allowed below float."""
    least: float | None
    """The score that is demanded besides."""
    nodes: tuple[JudgedNode, ...]
    """Every node but conversions between formats."""
    conversions: int
    """Conversions in what runs."""
    plan: Plan
    """The same as a plan of the float form of the model: what prices go by."""
    cost: PlanCost | None
    modelled: tuple[ModelledPartition, ...]
    """What a vendor's performance model says, where it was asked."""
    cost_reason: str = ""
    """Why there is no price."""
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[NodeOutcome, int]:
        """Return how many nodes each outcome has."""
        return {outcome: sum(item.outcome is outcome for item in self.nodes) for outcome in NodeOutcome}

    @property
    def loss(self) -> float | None:
        """Return what the target loses against float."""
        return None if self.score.value is None else self.float_score - self.score.value

    @property
    def met(self) -> bool:
        """Tell whether the target's score is within what is allowed."""
        if self.score.value is None or self.loss is None:
            return False
        within = self.loss <= self.allowance + 1e-12
        return within and (self.least is None or self.score.value >= self.least)
