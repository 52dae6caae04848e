"""Search: the smallest set of units to raise so that the target is met, with evidence."""

from dovetail.search.certificate import Alternative, Certificate, NamedClause
from dovetail.search.front import FrontPoint, ParetoPoint, pareto_front
from dovetail.search.goal import Goal, parse_goal
from dovetail.search.journal import Journal
from dovetail.search.policy import SearchPolicy
from dovetail.search.proof import CostOptions
from dovetail.search.request import TuneListener, TuneOptions, TuneRequest
from dovetail.search.result import Culprit, Evidence, Gate, GateCheck, GateVerdict, SplitScores, SurerPlan, TuneResult
from dovetail.search.trial import Status, Trial
from dovetail.search.tune import tune
from dovetail.search.vendor import VendorCheck
from dovetail.search.verdict import Assessment, Verdict

__all__ = [
    "Alternative",
    "Assessment",
    "Certificate",
    "CostOptions",
    "Culprit",
    "Evidence",
    "FrontPoint",
    "Gate",
    "GateCheck",
    "GateVerdict",
    "Goal",
    "Journal",
    "NamedClause",
    "ParetoPoint",
    "SearchPolicy",
    "SplitScores",
    "Status",
    "SurerPlan",
    "Trial",
    "TuneListener",
    "TuneOptions",
    "TuneRequest",
    "TuneResult",
    "VendorCheck",
    "Verdict",
    "pareto_front",
    "parse_goal",
    "tune",
]
