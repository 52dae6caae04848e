"""The whole chain as one verb: from a model and samples to a placement that meets the target."""

from dovetail.fit.chain import fit, heal, logged_request, replay_fit
from dovetail.fit.handed_over import HandedRequest, HandedScore, MovedScore, read_scored, score_moved
from dovetail.fit.judge import JudgeRequest, judge
from dovetail.fit.judged_cost import PriceSources
from dovetail.fit.listener import FitListener
from dovetail.fit.request import BoardRequest, CalibrationRequest, FitRequest, PriceRequest, WorkerRequest
from dovetail.fit.result import Fit
from dovetail.fit.source import Source, source_of

__all__ = [
    "BoardRequest",
    "CalibrationRequest",
    "Fit",
    "FitListener",
    "FitRequest",
    "HandedRequest",
    "HandedScore",
    "JudgeRequest",
    "MovedScore",
    "PriceRequest",
    "PriceSources",
    "Source",
    "WorkerRequest",
    "fit",
    "heal",
    "judge",
    "logged_request",
    "read_scored",
    "replay_fit",
    "score_moved",
    "source_of",
]
