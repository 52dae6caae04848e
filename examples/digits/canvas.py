"""Paste scikit-learn's 8x8 digits on noisy canvases, with boxes as a detector learns them.

Pixels are uint8 grey levels 0..255. Boxes are `(cx, cy, w, h)` in pixels of the 640-pixel frame that the
40-pixel canvas stands for (`FRAME_PX / CANVAS_PX` = 16), as YOLO reports them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

CANVAS_PX = 40
FRAME_PX = 640
CLASSES = 10

FloatArray = npt.NDArray[np.float32]
PixelArray = npt.NDArray[np.uint8]
LabelArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Hold source digits: `images` [n, 8, 8] in 0..1 and their `labels` [n]."""

    images: FloatArray
    labels: LabelArray

    def part(self, start: int, stop: int) -> Glyphs:
        """Return the glyphs of one half-open range."""
        return Glyphs(self.images[start:stop], self.labels[start:stop])


@dataclass(frozen=True, slots=True)
class Scenes:
    """Hold canvases [n, 1, 40, 40] with the class [n] and the box [n, 4] of the one digit on each."""

    images: PixelArray
    labels: LabelArray
    boxes: FloatArray


def shuffled_glyphs(seed: int) -> Glyphs:
    """Load the 1797 digits in an order fixed by the seed."""
    bunch = load_digits()
    order = np.random.default_rng(seed).permutation(len(bunch.target))
    images = (bunch.images[order] / 16.0).astype(np.float32)
    return Glyphs(images, bunch.target[order].astype(np.int64))


def _stretch(glyph: FloatArray, height: int, width: int) -> FloatArray:
    """Resample a glyph bilinearly, with the ink's extent filling [height, width] exactly."""

    def weights(size: int, count: int) -> FloatArray:
        at = np.clip((np.arange(count) + 0.5) * size / count - 0.5, 0, size - 1)
        return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(size)[None, :])).astype(np.float32)

    stretched = weights(glyph.shape[0], height) @ glyph @ weights(glyph.shape[1], width).T
    return stretched.astype(np.float32)


def _background(rng: np.random.Generator) -> FloatArray:
    """Draw a shaded background with a few faint strokes that are not digits."""
    axis = np.linspace(-1.0, 1.0, CANVAS_PX, dtype=np.float32)
    tilt_y, tilt_x = rng.uniform(-20, 20, 2)
    canvas = np.float32(rng.uniform(20, 100)) + tilt_y * axis[:, None] + tilt_x * axis[None, :]
    for _ in range(int(rng.integers(0, 4))):
        start, angle = rng.uniform(0, CANVAS_PX, 2), rng.uniform(0, np.pi)
        along = np.arange(0.0, rng.uniform(6, 20), 0.5)
        rows = (start[0] + along * np.sin(angle)).astype(np.int64)
        columns = (start[1] + along * np.cos(angle)).astype(np.int64)
        inside = (rows >= 0) & (rows < CANVAS_PX) & (columns >= 0) & (columns < CANVAS_PX)
        canvas[rows[inside], columns[inside]] += np.float32(rng.uniform(-25, 35))
    return np.asarray(canvas, np.float32)


def _scene(glyph: FloatArray, rng: np.random.Generator) -> tuple[PixelArray, tuple[float, ...]]:
    """Draw one canvas [40, 40] and return it with the box of its digit, in frame pixels."""
    ink_rows, ink_columns = np.nonzero(glyph.max(axis=1) > 0.1)[0], np.nonzero(glyph.max(axis=0) > 0.1)[0]
    ink = glyph[ink_rows[0] : ink_rows[-1] + 1, ink_columns[0] : ink_columns[-1] + 1]
    scale = rng.uniform(1.5, 3.4)
    height = round(float(ink.shape[0] * scale))
    width = max(6, round(float(ink.shape[1] * scale * rng.uniform(0.85, 1.15))))
    top, left = (int(rng.integers(0, CANVAS_PX - size + 1)) for size in (height, width))
    canvas = _background(rng)
    canvas[top : top + height, left : left + width] += _stretch(ink, height, width) * np.float32(rng.uniform(36, 120))
    canvas += rng.normal(0.0, rng.uniform(3, 11), canvas.shape).astype(np.float32)
    ratio = FRAME_PX / CANVAS_PX
    box = tuple(ratio * v for v in (left + width / 2, top + height / 2, width, height))
    return np.clip(np.rint(canvas), 0, 255).astype(np.uint8), box


def draw_scenes(glyphs: Glyphs, count: int, seed: int) -> Scenes:
    """Draw `count` canvases, taking the glyphs in turn, so each is used once when count <= their number."""
    rng = np.random.default_rng(seed)
    picks = np.arange(count) % len(glyphs.labels)
    drawn = [_scene(glyphs.images[pick], rng) for pick in picks]
    images = np.stack([image for image, _ in drawn])[:, None]
    return Scenes(images, glyphs.labels[picks], np.array([box for _, box in drawn], np.float32))
