"""Calibrate a float graph and quantise it as a plan says."""

from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.calibrate import Calibration, CalibrationOptions, calibrate, load_float
from dovetail.quantize.observers import CalibrationMethod, ObserverOptions
from dovetail.quantize.quantizer import Quantizer, quantize
from dovetail.quantize.ranges import Range, Ranges, load_ranges

__all__ = [
    "Calibration",
    "CalibrationMethod",
    "CalibrationOptions",
    "ObserverOptions",
    "QuantizedGraph",
    "Quantizer",
    "Range",
    "Ranges",
    "calibrate",
    "load_float",
    "load_ranges",
    "quantize",
]
