"""Search: the smallest set of units to raise so that the target is met, with evidence."""

from dovetail.search.goal import Goal, parse_goal
from dovetail.search.journal import Journal
from dovetail.search.result import Culprit, Evidence, GateCheck, GateVerdict, ParetoPoint, SplitScores, TuneResult
from dovetail.search.trial import Status, Trial
from dovetail.search.tune import TuneListener, TuneOptions, TuneRequest, tune

__all__ = [
    "Culprit",
    "Evidence",
    "GateCheck",
    "GateVerdict",
    "Goal",
    "Journal",
    "ParetoPoint",
    "SplitScores",
    "Status",
    "Trial",
    "TuneListener",
    "TuneOptions",
    "TuneRequest",
    "TuneResult",
    "parse_goal",
    "tune",
]
