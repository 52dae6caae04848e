"""What a model's file, or a file beside it, says of how pictures become its input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dovetail.data.preprocess import Channels, Preprocess
from dovetail.errors import DataError
from dovetail.inputs.beside import read_beside
from dovetail.inputs.darknet import read_darknet
from dovetail.inputs.onnx_metadata import read_onnx_metadata
from dovetail.inputs.statement import Statement
from dovetail.inputs.tflite_metadata import read_tflite_metadata
from dovetail.ir.types import TensorType
from dovetail.outputs.ends import ImageInput


@dataclass(frozen=True, slots=True)
class Stated:
    """What is stated, and where; the geometry and the order of the channels may be left open."""

    source: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    channels: Channels | None
    preprocess: Preprocess | None
    """The whole preprocess where nothing is left open."""


@dataclass(frozen=True, slots=True)
class InputTypes:
    """The types of one input in the model's file and in the graph that is run.

    They differ where a quantised model is run in float.
    """

    source: TensorType
    run: TensorType


def stated_preprocess(path: Path | None, types: InputTypes, image: ImageInput) -> Stated | None:
    """Return what is stated of an image input: in the model's file, beside it, or by the type of the input itself.

    The first source that states a normalisation counts. Raises DataError for a damaged file beside the
    model.
    """
    for statement in _statements(path, types):
        if statement.mean is not None and statement.scale is not None:
            return _stated(statement, image)
    return None


def _statements(path: Path | None, types: InputTypes) -> Iterator[Statement]:
    readers = (read_tflite_metadata, read_onnx_metadata, read_darknet, read_beside)
    yield from (found for read in readers if path is not None and (found := read(path)) is not None)
    typed = _by_type(types.source, types.run)
    if typed is not None:
        yield typed


def _stated(statement: Statement, image: ImageInput) -> Stated:
    channels = Channels.GREY if image.channels == 1 else statement.channels
    mean, scale = statement.mean or (0.0,), statement.scale or (1.0,)
    if len(mean) not in (1, image.channels) or len(scale) not in (1, image.channels):
        raise DataError(
            f"{statement.source}: {len(mean)} means and {len(scale)} scales for {image.channels} channel(s)."
        )
    whole = channels is not None and statement.steps is not None
    preprocess = Preprocess(statement.steps or (), channels or Channels.RGB, mean=mean, scale=scale) if whole else None
    return Stated(statement.source, mean, scale, channels, preprocess)


def _by_type(source: TensorType, run: TensorType) -> Statement | None:
    """Return what the type of an input says: 8-bit integers are pixels, and a scale says which reals they stand for.

    A pixel p is stored as p + lowest, where `lowest` is the smallest integer of the type.
    """
    if source.dtype.is_float or source.dtype.size_bytes != 1:
        return None
    lowest, _ = source.dtype.integer_range
    if not run.dtype.is_float:
        return Statement("the input holds pixels of 8 bits", (float(-lowest),), (1.0,))
    if source.quant is None or source.quant.per_channel:
        return None
    (scale,), (zero,) = source.quant.scale, source.quant.zero_point
    return Statement("the input holds quantised pixels", (float(zero - lowest),), (scale,))
