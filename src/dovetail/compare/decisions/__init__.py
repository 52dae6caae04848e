"""Metrics that need no labels: what the float model decides is right."""

from __future__ import annotations

from dovetail.compare.decisions.choose import DECISIONS, TOP_METRICS, metric_for, refuse_top1, with_minor_as_numbers
from dovetail.compare.decisions.differing import DecisionLosses, decision_losses
from dovetail.compare.decisions.enough import FEWEST_PICTURES, pictures_needed
from dovetail.compare.decisions.golden import DecisionScore
from dovetail.compare.decisions.seen import SeenOutputs, see_outputs, see_random
from dovetail.compare.decisions.worst import Decision, Decisions

__all__ = [
    "DECISIONS",
    "FEWEST_PICTURES",
    "TOP_METRICS",
    "Decision",
    "DecisionLosses",
    "DecisionScore",
    "Decisions",
    "SeenOutputs",
    "decision_losses",
    "metric_for",
    "pictures_needed",
    "refuse_top1",
    "see_outputs",
    "see_random",
    "with_minor_as_numbers",
]
