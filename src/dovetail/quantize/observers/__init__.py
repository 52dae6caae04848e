"""Watch one tensor sample by sample and say which range its values need, in constant memory."""

from __future__ import annotations

from dovetail.quantize.observers.base import CalibrationMethod, Observer, ObserverOptions
from dovetail.quantize.observers.make import make_observer

__all__ = ["CalibrationMethod", "Observer", "ObserverOptions", "make_observer"]
