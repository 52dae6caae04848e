"""Say how an image becomes a tensor, as a value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from dovetail.errors import DataError

MAX_SIDE = 16384


class Channels(Enum):
    """Order of the colour channels; grey is the ITU-R 601-2 luma."""

    RGB = "rgb"
    BGR = "bgr"
    GREY = "grey"


class Layout(Enum):
    """Order of the dimensions of the tensor."""

    NCHW = "nchw"
    NHWC = "nhwc"


class Interpolation(Enum):
    """Resampling filter, as Pillow defines it: bilinear and bicubic widen (antialias) when they shrink.

    `opencv_bilinear` is `cv2.resize` as it comes: it does not widen, and a model that was trained on it sees the
    difference.
    """

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    OPENCV_BILINEAR = "opencv_bilinear"


class StepKind(Enum):
    """One geometric step.

    `resize` stretches to (height, width). `resize_short` keeps the ratio and makes the short side `height`,
    the long one floor(long * height / short). `centre_crop` cuts (height, width) at floor((size - crop) / 2).
    `letterbox` keeps the ratio, fits inside (height, width) with floored sizes, and pads the rest.
    """

    RESIZE = "resize"
    RESIZE_SHORT = "resize_short"
    CENTRE_CROP = "centre_crop"
    LETTERBOX = "letterbox"


class Anchor(Enum):
    """Where a letterboxed image sits."""

    TOP_LEFT = "top_left"
    CENTRE = "centre"


@dataclass(frozen=True, slots=True)
class PreprocessStep:
    """Change the geometry of an image once; `pad` is a pixel value in 0..255, for letterbox only.

    `interpolation` None takes that of the whole.
    """

    kind: StepKind
    height: int
    width: int
    pad: int = 0
    anchor: Anchor = Anchor.CENTRE
    interpolation: Interpolation | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.height <= MAX_SIDE and 1 <= self.width <= MAX_SIDE):
            raise DataError(f"preprocess: {self.kind.value} to {self.height}x{self.width} is outside 1..{MAX_SIDE}.")
        if self.kind is StepKind.RESIZE_SHORT and self.height != self.width:
            raise DataError("preprocess: resize_short takes one size, that of the short side.")
        if self.kind is StepKind.CENTRE_CROP and self.interpolation is not None:
            raise DataError("preprocess: a crop has no interpolation.", hint="Leave it out.")
        if not 0 <= self.pad <= 255:
            raise DataError(f"preprocess: pad {self.pad} is outside 0..255.")


@dataclass(frozen=True, slots=True)
class Preprocess:
    """Turn 8-bit pixels into a tensor: steps in order, then channels, then value = (pixel - mean) * scale.

    `mean` and `scale` hold one number, or one for each channel in the order of `channels`. Computed in
    float64, then cast to the input's dtype (integers are rounded half to even). EXIF orientation is not
    applied.
    `layout` `None` takes the layout from the input's shape.
    """

    steps: tuple[PreprocessStep, ...] = ()
    channels: Channels = Channels.RGB
    layout: Layout | None = None
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    interpolation: Interpolation = Interpolation.BILINEAR

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("scale", self.scale)):
            if len(values) not in (1, self.channel_count):
                raise DataError(
                    f"preprocess: {name} has {len(values)} numbers for {self.channel_count} channel(s).",
                    hint="Give one number, or one for each channel.",
                )
            if not all(math.isfinite(value) for value in values):
                raise DataError(f"preprocess: {name} {list(values)} is not finite.")
        if any(value == 0 for value in self.scale):
            raise DataError("preprocess: a scale of 0 would erase the image.")

    @property
    def channel_count(self) -> int:
        return 1 if self.channels is Channels.GREY else 3
