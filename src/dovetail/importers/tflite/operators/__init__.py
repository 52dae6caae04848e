"""How each TFLite operator is said in ONNX's terms."""

from __future__ import annotations

from dovetail.importers.tflite.operators import (
    convolution,
    elementwise,
    indexing,
    linear,
    movement,
    pooling,
    quantization,
    reduction,
)
from dovetail.importers.tflite.operators.table import Converters

CONVERTERS: Converters = {
    **convolution.CONVERTERS,
    **elementwise.CONVERTERS,
    **indexing.CONVERTERS,
    **linear.CONVERTERS,
    **movement.CONVERTERS,
    **pooling.CONVERTERS,
    **quantization.CONVERTERS,
    **reduction.CONVERTERS,
}
"""Builtin operators by name."""
