"""Make the tensor that a Preprocess describes from a placed image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.conform import describe_shape
from dovetail.data.preprocess import Channels, Layout, Preprocess
from dovetail.data.sample import InputSpec
from dovetail.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image


def to_tensor(image: Image, preprocess: Preprocess, spec: InputSpec, where: str) -> NDArray[Any]:
    """Make the tensor `[C, H, W]` or `[H, W, C]` in the dtype of `spec`, without a batch dimension."""
    pixels = np.asarray(image, dtype=np.uint8)
    planes = pixels[..., None] if pixels.ndim == 2 else pixels
    if preprocess.channels is Channels.BGR:
        planes = planes[..., ::-1]
    # A pixel has one of 256 values: what becomes of each is computed once.
    levels = np.arange(256, dtype=np.float64)[:, None]
    table = (levels - np.array(preprocess.mean)) * np.array(preprocess.scale)
    table = np.broadcast_to(table, (256, planes.shape[2]))
    if spec.dtype.kind in "iu":
        table = np.rint(table)
        _check_range(table, planes, spec, where)
    layout = preprocess.layout or layout_of(spec, preprocess.channel_count)
    first = layout is Layout.NCHW
    # Of integers, what lies outside the range does not occur.
    with np.errstate(invalid="ignore"):
        values = np.ascontiguousarray(table.T).astype(spec.dtype)
    tensor = np.stack([np.take(row, planes[..., channel]) for channel, row in enumerate(values)])
    return tensor if first else np.ascontiguousarray(tensor.transpose(1, 2, 0))


def _check_range(table: NDArray[np.float64], planes: NDArray[np.uint8], spec: InputSpec, where: str) -> None:
    limits = np.iinfo(spec.dtype)
    spans = [(plane.min(), plane.max()) for plane in planes.transpose(2, 0, 1)]
    values = np.array([table[list(span), channel] for channel, span in enumerate(spans)])
    if values.min() < limits.min or values.max() > limits.max:
        raise DataError(
            f"{where}: values in [{values.min():g}, {values.max():g}] leave the range of {spec.dtype}.",
            hint="Correct mean and scale in the preprocess file.",
        )


def to_image(tensor: NDArray[Any], preprocess: Preprocess | None, *, channels_last: bool) -> Image:
    """Return the 8-bit picture that a tensor `[C, H, W]` or `[H, W, C]` was made of, as RGB or grey.

    Where nobody says how it was made, bytes are pixels, and other values are stretched from the smallest to the
    largest. Of more than three channels the first three are taken; what is not finite is black.
    """
    import PIL.Image

    values = np.asarray(tensor, np.float64)
    values = values if channels_last else values.transpose(1, 2, 0)
    values = values[..., : 1 if values.shape[2] < 3 else 3]
    if preprocess is not None:
        values = values / np.array(preprocess.scale) + np.array(preprocess.mean)
        values = values[..., ::-1] if preprocess.channels is Channels.BGR else values
    elif tensor.dtype != np.uint8:
        known = values[np.isfinite(values)]
        low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
        values = (values - low) * (255.0 / max(high - low, 1e-12))
    pixels = np.clip(np.rint(np.nan_to_num(values)), 0, 255).astype(np.uint8)
    return PIL.Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def layout_of(spec: InputSpec, channel_count: int) -> Layout:
    """Read the layout from an input's shape.

    Raises DataError where both or neither reading fits.
    """
    dims = spec.shape[-3:] if len(spec.shape) in (3, 4) else ()
    first = bool(dims) and dims[0] == channel_count
    last = bool(dims) and dims[2] == channel_count
    if first == last:
        raise DataError(
            f"input {spec.name!r} {describe_shape(spec.shape)}: the shape does not tell where the "
            f"{channel_count} channel(s) are.",
            hint="Set layout = 'nchw' or 'nhwc' in the preprocess file.",
        )
    return Layout.NCHW if first else Layout.NHWC
