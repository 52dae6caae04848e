"""What a model's outputs are, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from dovetail.outputs.layouts import Layout

SURE = 0.9
"""Confidence from which a head is taken without asking: one mistake in ten, were the evidence independent."""


class Kind(Enum):
    """What the decision of a head is."""

    CLASSIFICATION = "classification"
    DETECTION = "detection"
    SEGMENTATION = "segmentation"
    KEYPOINTS = "keypoints"
    TEXT_REGIONS = "text boxes"
    TEXT = "text"
    EMBEDDING = "embedding"
    SIGNAL = "signal"
    REGRESSION = "regression"
    STATE = "state"
    """What goes back in at the next call."""
    UNKNOWN = "unknown"


class OutputRole(Enum):
    """What one output, or some of its entries, says."""

    BOXES = "boxes"
    SCORES = "scores"
    OBJECTNESS = "objectness"
    CENTRENESS = "centreness"
    CLASSES = "classes"
    COUNT = "count"
    LANDMARKS = "landmarks"
    COEFFICIENTS = "coefficients"
    """Weights of the prototypes of a detection's mask."""
    PROTOTYPES = "prototypes"
    SIZES = "sizes"
    OFFSETS = "offsets"
    SCORE_SUM = "score_sum"
    """The sum of a place's scores, which some exporters add to skip places quickly."""
    COMBINED = "combined"
    MASK = "mask"
    HEATMAPS = "heatmaps"
    POINTS = "points"
    SEQUENCE = "sequence"
    EMBEDDING = "embedding"
    SIGNAL = "signal"
    VALUES = "values"
    STATE = "state"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HeadView:
    """What one decision of the model is made of."""

    kind: Kind
    family: str
    """The published design that the head looks like, such as `yolox`; empty where the kind is all that is seen."""
    roles: Mapping[str, OutputRole]
    """The role of each output of the head; COMBINED where an output holds several."""
    layout: Layout | None
    """How to read the outputs; None where only the kind is known."""
    confidence: float
    """Probability of the kind, 0..1, given the evidence."""
    reasons: tuple[str, ...] = ()
    """The evidence in words, the strongest first."""

    @property
    def sure(self) -> bool:
        """Tell whether the kind may be taken without asking."""
        return self.confidence >= SURE and self.kind is not Kind.UNKNOWN


@dataclass(frozen=True, slots=True)
class OutputsView:
    """What every output of a model is: heads in the order of their first outputs."""

    heads: tuple[HeadView, ...]
    feeds_back: Mapping[str, str] = field(default_factory=dict)
    """Outputs that are states, and the inputs that they go back into."""

    @property
    def decisions(self) -> tuple[HeadView, ...]:
        """Return the heads that are no states."""
        return tuple(head for head in self.heads if head.kind is not Kind.STATE)

    @property
    def sure(self) -> bool:
        """Tell whether every head that decides something may be taken without asking."""
        return bool(self.decisions) and all(head.sure for head in self.decisions)

    @property
    def kind(self) -> Kind:
        """Return the kind of the surest head that decides something."""
        heads = sorted(self.decisions or self.heads, key=lambda head: -head.confidence)
        return heads[0].kind if heads else Kind.UNKNOWN
