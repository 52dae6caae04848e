"""Calibrate a float graph and quantise it as a plan says."""

from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.calibrate import Calibration, CalibrationOptions, calibrate, load_float
from dovetail.quantize.dequantize import Dequantized, dequantize, is_quantized
from dovetail.quantize.observers import CalibrationMethod, ObserverOptions
from dovetail.quantize.quantizer import Quantizer, quantize
from dovetail.quantize.ranges import Range, Ranges, load_ranges
from dovetail.quantize.rules import RuledModel, load_by_rules

__all__ = [
    "Calibration",
    "CalibrationMethod",
    "CalibrationOptions",
    "Dequantized",
    "ObserverOptions",
    "QuantizedGraph",
    "Quantizer",
    "Range",
    "Ranges",
    "RuledModel",
    "calibrate",
    "dequantize",
    "is_quantized",
    "load_by_rules",
    "load_float",
    "load_ranges",
    "quantize",
]
