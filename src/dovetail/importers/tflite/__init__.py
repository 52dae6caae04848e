"""Read TFLite models."""

from __future__ import annotations

from pathlib import Path

from dovetail.importers.options import LoadOptions
from dovetail.importers.tflite.convert import convert_model
from dovetail.importers.tflite.reader import read_model
from dovetail.ir import Graph

__all__ = ["load_tflite"]


def load_tflite(source: Path | bytes, options: LoadOptions | None = None) -> Graph:
    """Return the Graph of a TFLite flatbuffer; raise LoadError when it cannot be represented.

    Quantised tensors keep their integers and scales. Images lie channels first inside; inputs and outputs keep the
    file's own order of dimensions, with a Transpose where the two meet.
    """
    chosen = options or LoadOptions()
    return convert_model(read_model(source, chosen), chosen)
