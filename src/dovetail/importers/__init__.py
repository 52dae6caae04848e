"""Read trained models into Graphs."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

from dovetail.errors import LoadError
from dovetail.importers.converted.module import load_module
from dovetail.importers.formats import ModelFormat, format_of, model_formats
from dovetail.importers.onnx import load_onnx
from dovetail.importers.options import Conversion, LoadOptions
from dovetail.importers.survey import Survey, survey_model
from dovetail.importers.tflite import load_tflite
from dovetail.ir import Graph

__all__ = [
    "Conversion",
    "LoadOptions",
    "ModelFormat",
    "Survey",
    "load_model",
    "load_module",
    "load_onnx",
    "load_tflite",
    "model_formats",
    "survey_model",
]


def load_model(path: str | PathLike[str], options: LoadOptions | None = None) -> Graph:
    """Read a model file of any known format; raise LoadError when it cannot be used."""
    place, chosen = Path(fspath(path)), options or LoadOptions()
    model_format = format_of(place)
    asked = chosen.conversion
    if model_format.name != "converted" and (asked.inputs or asked.outputs or asked.submodule):
        raise LoadError(
            f"{place}: only TensorFlow models are cut at inputs and outputs, only TorchScript has submodules."
        )
    if chosen.values and model_format.name not in ("onnx", "converted"):
        raise LoadError(f"{place}: inputs of {model_format.name} models are not made constants: that is for ONNX.")
    return model_format.load(place, chosen)
