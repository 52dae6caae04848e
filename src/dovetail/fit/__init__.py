"""The whole chain as one verb: from a model and samples to a placement that meets the target."""

from dovetail.fit.chain import fit, heal, logged_request, replay_fit
from dovetail.fit.judge import JudgeRequest, judge
from dovetail.fit.judged_cost import PriceSources
from dovetail.fit.listener import FitListener
from dovetail.fit.request import CalibrationRequest, FitRequest, PriceRequest, WorkerRequest
from dovetail.fit.result import Fit
from dovetail.fit.source import Source, source_of

__all__ = [
    "CalibrationRequest",
    "Fit",
    "FitListener",
    "FitRequest",
    "JudgeRequest",
    "PriceRequest",
    "PriceSources",
    "Source",
    "WorkerRequest",
    "fit",
    "heal",
    "judge",
    "logged_request",
    "replay_fit",
    "source_of",
]
