"""The whole chain as one verb: from a model and samples to a placement that meets the target."""

from dovetail.fit.chain import fit, heal, logged_request, replay_fit
from dovetail.fit.listener import FitListener
from dovetail.fit.request import CalibrationRequest, FitRequest, PriceRequest, WorkerRequest
from dovetail.fit.result import Fit
from dovetail.fit.source import Source, source_of

__all__ = [
    "CalibrationRequest",
    "Fit",
    "FitListener",
    "FitRequest",
    "PriceRequest",
    "Source",
    "WorkerRequest",
    "fit",
    "heal",
    "logged_request",
    "replay_fit",
    "source_of",
]
