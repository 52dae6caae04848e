"""How each TFLite operator is said in ONNX's terms."""

from __future__ import annotations

from dovetail.importers.tflite.operators import (
    convolution,
    detection,
    elementwise,
    indexing,
    linear,
    movement,
    pooling,
    quantization,
    recurrent,
    reduction,
    spectrum,
    variables,
)
from dovetail.importers.tflite.operators.table import Converters

CONVERTERS: Converters = {
    **convolution.CONVERTERS,
    **detection.CONVERTERS,
    **elementwise.CONVERTERS,
    **indexing.CONVERTERS,
    **linear.CONVERTERS,
    **movement.CONVERTERS,
    **pooling.CONVERTERS,
    **quantization.CONVERTERS,
    **recurrent.CONVERTERS,
    **reduction.CONVERTERS,
    **spectrum.CONVERTERS,
    **variables.CONVERTERS,
}
"""Builtin operators by name."""

CUSTOM: Converters = {**convolution.CUSTOM, **detection.CUSTOM}
"""Custom operators by their own names."""

OF_SPECTRA = spectrum.OF_SPECTRA
"""Builtin operators where what they read is complex."""
