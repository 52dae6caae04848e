"""Make the observer for a method."""

from __future__ import annotations

from dovetail.quantize.observers.base import CalibrationMethod, Observer, ObserverOptions
from dovetail.quantize.observers.kl import KlObserver
from dovetail.quantize.observers.minmax import MinMaxObserver, MovingAverageObserver
from dovetail.quantize.observers.mse import MseObserver
from dovetail.quantize.observers.percentile import PercentileObserver

_DEFAULT = ObserverOptions()


def make_observer(method: CalibrationMethod, options: ObserverOptions = _DEFAULT) -> Observer:
    """Return a fresh observer for one tensor.

    Raises QuantizeError for options that the method cannot serve.
    """
    match method:
        case CalibrationMethod.MINMAX:
            return MinMaxObserver()
        case CalibrationMethod.MOVING_AVERAGE:
            return MovingAverageObserver(options.momentum)
        case CalibrationMethod.PERCENTILE:
            return PercentileObserver(options.percentile, options.bins)
        case CalibrationMethod.KL:
            return KlObserver(options.bits, options.symmetric, options.bins)
        case CalibrationMethod.MSE:
            return MseObserver(options.bits, options.symmetric, options.bins)
