"""OpenCV's bilinear resize of 8-bit images, which does not widen when it shrinks.

Source: the fixed-point arithmetic of `cv::resize` with INTER_LINEAR for 8 bits: weights of 11 bits, rows blended after
columns with 4 bits dropped before and 18 after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ONE = 1 << 11


def resize_bilinear(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return pixels `[H, W]` or `[H, W, C]` resized to (height, width), as OpenCV does bit by bit."""
    if pixels.shape[:2] == (height, width):
        return pixels
    trail = (1,) * (pixels.ndim - 2)
    left, right = _taps(pixels.shape[1], width)
    # Beyond the edge a column is taken whole, a row in two parts that are cut one by one.
    inside = (left.places >= 0) & (right.places < pixels.shape[1])
    left = _Tap(left.places, np.where(inside, left.weights, _ONE)).clipped(pixels.shape[1], (1, -1, *trail))
    right = _Tap(right.places, np.where(inside, right.weights, 0)).clipped(pixels.shape[1], (1, -1, *trail))
    top, bottom = (tap.clipped(pixels.shape[0], (-1, 1, *trail)) for tap in _taps(pixels.shape[0], height))
    wide = pixels.astype(np.int32)
    blended = wide[:, left.places] * left.weights + wide[:, right.places] * right.weights
    upper, lower = blended[top.places] >> 4, blended[bottom.places] >> 4
    mixed = (((upper * top.weights) >> 16) + ((lower * bottom.weights) >> 16) + 2) >> 2
    return np.asarray(np.clip(mixed, 0, 255), np.uint8)


@dataclass(frozen=True, slots=True)
class _Tap:
    """One neighbour of every output position, and its weight in 1/2048."""

    places: NDArray[np.intp]
    weights: NDArray[np.int32]

    def clipped(self, source: int, shape: tuple[int, ...]) -> _Tap:
        """Return the tap with places inside the image and weights of a shape."""
        return _Tap(np.clip(self.places, 0, source - 1), self.weights.reshape(shape))


def _taps(source: int, size: int) -> tuple[_Tap, _Tap]:
    """Return the lower and the upper neighbour along one axis; they may lie outside."""
    ratio = 1.0 / (size / source)
    place = ((np.arange(size) + 0.5) * ratio - 0.5).astype(np.float32)
    low = np.floor(place).astype(np.intp)
    rest = (place - low).astype(np.float32)
    weights = [np.rint(share * np.float32(_ONE)).astype(np.int32) for share in (np.float32(1) - rest, rest)]
    return _Tap(low, weights[0]), _Tap(low + 1, weights[1])
