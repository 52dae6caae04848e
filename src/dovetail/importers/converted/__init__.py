"""Read models of other frameworks: a converter in its own environment makes ONNX of them, which is read as usual."""

from __future__ import annotations

from pathlib import Path

from dovetail.importers.converted.convert import convert
from dovetail.importers.converted.source import ConvertedSource, is_converted, recognise
from dovetail.importers.onnx import load_onnx
from dovetail.importers.options import LoadOptions
from dovetail.ir import Graph

__all__ = ["ConvertedSource", "is_converted", "load_converted", "recognise"]


def load_converted(path: Path, options: LoadOptions) -> Graph:
    """Return the Graph of a PyTorch, TensorFlow or Paddle file.

    Raises LoadError when it is refused, when its environment cannot be made or when its converter fails.
    """
    source = recognise(path, options)
    return load_onnx(convert(source, options), source.reading(options), where=str(path))
