"""Decode an image and place it in the model's input."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.bilinear import resize_bilinear
from dovetail.data.conform import describe_shape
from dovetail.data.preprocess import Anchor, Channels, Interpolation, Preprocess, PreprocessStep, StepKind
from dovetail.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 64_000_000
_MODES_8BIT = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"})

DAMAGED = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, IndexError, TypeError)
"""What Pillow raises for damaged and truncated files."""


@dataclass(frozen=True, slots=True)
class Placement2d:
    """Map a point of the original image to the model's input: x' = x * scale_x + offset_x, in pixels."""

    scale_x: float = 1.0
    scale_y: float = 1.0
    offset_x: float = 0.0
    offset_y: float = 0.0

    def scaled(self, x: float, y: float) -> Placement2d:
        return Placement2d(self.scale_x * x, self.scale_y * y, self.offset_x * x, self.offset_y * y)

    def moved(self, x: float, y: float) -> Placement2d:
        return Placement2d(self.scale_x, self.scale_y, self.offset_x + x, self.offset_y + y)

    def boxes(self, boxes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move boxes `[K, 4]` (x1, y1, x2, y2); they are not clipped."""
        scale = np.array([self.scale_x, self.scale_y] * 2)
        offset = np.array([self.offset_x, self.offset_y] * 2)
        return np.asarray(boxes * scale + offset, dtype=np.float64)


def load_image(path: Path, channels: Channels, where: str) -> Image:
    """Decode a file into 8-bit RGB or grey.

    Raises DataError for damaged and truncated files, more than `MAX_PIXELS`, and modes with more than 8 bits.
    """
    import PIL.Image

    try:
        with PIL.Image.open(path) as image:
            reason = refusal(image)
            if reason:
                raise DataError(f"{where}: {reason}.", hint="Save it smaller, or with 8 bits.")
            return image.convert("L" if channels is Channels.GREY else "RGB")
    except PIL.Image.DecompressionBombError as error:
        raise DataError(f"{where}: exceeds the limit of {MAX_PIXELS} pixels.") from error
    except DAMAGED as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{where}: damaged or truncated image ({reason}).", hint="Replace or remove it.") from error


def refusal(image: Image) -> str:
    """Return why an image is not taken, by its header; empty where it is."""
    if image.width * image.height > MAX_PIXELS:
        return f"{image.width}x{image.height} exceeds the limit of {MAX_PIXELS} pixels"
    return "" if image.mode in _MODES_8BIT else f"mode {image.mode} has more than 8 bits a channel"


def picture_size(path: Path) -> tuple[int, int]:
    """Return rows and columns of an image file, by its header; raise DataError where it is none."""
    import PIL.Image

    try:
        with PIL.Image.open(path) as image:
            return image.height, image.width
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: damaged or truncated image ({reason}).", hint="Replace or remove it.") from error


def image_of(pixels: NDArray[Any], channels: Channels, where: str) -> Image:
    """Wrap uint8 pixels `[H, W]`, `[H, W, 1]` or `[H, W, 3]` (RGB) as an image.

    Raises DataError for anything else.
    """
    import PIL.Image

    if pixels.dtype != np.uint8 or not is_image_shape(pixels.shape):
        raise DataError(
            f"{where}: a preprocess file needs uint8 pixels [H, W] or [H, W, 3], "
            f"found {pixels.dtype} {describe_shape(pixels.shape)}.",
            hint="Leave the preprocess file out when the arrays are ready for the model.",
        )
    plane = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    return PIL.Image.fromarray(plane).convert("L" if channels is Channels.GREY else "RGB")


def is_image_shape(shape: tuple[int, ...]) -> bool:
    """Tell whether pixels of this shape can be an image."""
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))


def place(image: Image, preprocess: Preprocess, where: str) -> tuple[Image, Placement2d]:
    """Apply all geometric steps in order."""
    placement = Placement2d()
    for step in preprocess.steps:
        image, placement = _apply(image, placement, step, step.interpolation or preprocess.interpolation, where)
    return image, placement


def _apply(
    image: Image, placement: Placement2d, step: PreprocessStep, interpolation: Interpolation, where: str
) -> tuple[Image, Placement2d]:
    import PIL.Image

    width, height = image.size
    if step.kind is StepKind.CENTRE_CROP:
        if step.width > width or step.height > height:
            raise DataError(
                f"{where}: cannot crop {step.height}x{step.width} out of {height}x{width}.",
                hint="Resize first.",
            )
        left, top = (width - step.width) // 2, (height - step.height) // 2
        return image.crop((left, top, left + step.width, top + step.height)), placement.moved(-left, -top)
    new_height, new_width = _resized(step, height, width)
    if new_height * new_width > MAX_PIXELS:
        raise DataError(f"{where}: resizing {height}x{width} gives {new_height}x{new_width}, more than {MAX_PIXELS}.")
    resized = _resample(image, new_height, new_width, interpolation)
    placement = placement.scaled(new_width / width, new_height / height)
    if step.kind is not StepKind.LETTERBOX:
        return resized, placement
    left = (step.width - new_width) // 2 if step.anchor is Anchor.CENTRE else 0
    top = (step.height - new_height) // 2 if step.anchor is Anchor.CENTRE else 0
    colour = step.pad if image.mode == "L" else (step.pad, step.pad, step.pad)
    canvas = PIL.Image.new(image.mode, (step.width, step.height), colour)
    canvas.paste(resized, (left, top))
    return canvas, placement.moved(left, top)


def _resample(image: Image, height: int, width: int, interpolation: Interpolation) -> Image:
    import PIL.Image

    if interpolation is Interpolation.OPENCV_BILINEAR:
        return PIL.Image.fromarray(resize_bilinear(np.asarray(image, np.uint8), height, width))
    filters = PIL.Image.Resampling
    resample = {
        Interpolation.NEAREST: filters.NEAREST,
        Interpolation.BILINEAR: filters.BILINEAR,
        Interpolation.BICUBIC: filters.BICUBIC,
    }[interpolation]
    return image.resize((width, height), resample)


def _resized(step: PreprocessStep, height: int, width: int) -> tuple[int, int]:
    """Return (height, width) after a resize; whole-number arithmetic, so that 640 * 416 / 640 is 416."""
    if step.kind is StepKind.RESIZE:
        return step.height, step.width
    if step.kind is StepKind.RESIZE_SHORT:
        short = min(height, width)
        return height * step.height // short, width * step.height // short
    if step.height * width <= step.width * height:
        return step.height, max(1, width * step.height // height)
    return max(1, height * step.width // width), step.width
