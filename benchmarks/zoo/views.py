"""Labelled pictures seen in more ways: more decisions, with labels that are as right as the first ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from dovetail.data import Sample
from dovetail.ir import AnyArray

SHARES = (1.0, 0.8, 0.64)
"""Sizes at which a picture is shown, as shares of the network's input; each is also shown mirrored."""


def views(samples: Sequence[Sample], pad: float, seed: int = 0) -> list[Sample]:
    """Return pictures `[1, C, H, W]` of one input at each size, as they are and mirrored, somewhere in the input.

    All pictures follow each other in each view, so that every second sample is of every second picture where their
    number is even.

    `boxes` `[N, 5]` are rows of (class, x1, y1, x2, y2) in pixels, of -1 where there is none. What is not picture
    has the value `pad`.
    """
    rng = np.random.default_rng(seed)
    return [
        _view(sample, share, mirrored, pad, rng) for share in SHARES for mirrored in (False, True) for sample in samples
    ]


def _view(sample: Sample, share: float, mirrored: bool, pad: float, rng: np.random.Generator) -> Sample:
    ((name, pixels),) = sample.inputs.items()
    boxes = np.array(sample.labels["boxes"], np.float64)
    real = boxes[:, 0] >= 0
    height, width = pixels.shape[-2:]
    if mirrored:
        pixels = pixels[..., ::-1]
        boxes[real, 1], boxes[real, 3] = width - boxes[real, 3], width - boxes[real, 1]
    small = _resized(pixels[0], round(height * share), round(width * share))
    top, left = (int(rng.integers(room + 1)) for room in (height - small.shape[1], width - small.shape[2]))
    shown = np.full_like(pixels, pad)
    shown[0, :, top : top + small.shape[1], left : left + small.shape[2]] = small
    scale = np.array([small.shape[2] / width, small.shape[1] / height] * 2)
    boxes[real, 1:] = boxes[real, 1:] * scale + np.array([left, top] * 2)
    return Sample(f"{sample.id}, {share:g}{' mirrored' * mirrored}", {name: shown}, {"boxes": boxes})


def _resized(pixels: AnyArray, height: int, width: int) -> AnyArray:
    """Return planes `[C, height, width]`, each element an average of what it covers."""
    planes = [Image.fromarray(np.asarray(plane, np.float32)) for plane in pixels]
    return np.stack([np.asarray(plane.resize((width, height), Image.Resampling.BILINEAR)) for plane in planes])
