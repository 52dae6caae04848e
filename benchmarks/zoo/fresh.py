"""New samples of the two tasks whose pictures are drawn: as many as it takes to tell what a plan really loses.

The digits of the repository's example are drawn again by the code that drew its evaluation set, with another seed.
Benchmark A comes as files only, but its pictures tell how they were made: one of scikit-learn's digits, resized by
Pillow's bilinear filter to 9 to 18 pixels, at any place of a canvas of 32, and normal noise of 0.05. Every one of its
400 pictures is matched by a digit to within that noise. Float is right on 0.8725 of those, and on 0.89 of new ones.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.tasks import Task

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits"
_SIZES, _CANVAS, _FRAME, _NOISE = (9, 18), 32, 640, 0.05


def redrawn(task: Task, count: int, seed: int) -> Task:
    """Return a task with `count` samples that nobody has seen; raise KeyError for one whose pictures are not drawn."""
    inputs, labels = _DRAWERS[task.name](count, seed)
    return replace(task, inputs=inputs.astype(task.inputs.dtype), labels=labels)


_Drawn = tuple[NDArray[Any], Mapping[str, NDArray[Any]]]


def _digits(count: int, seed: int) -> _Drawn:
    sys.path.insert(0, str(_EXAMPLE))
    from canvas import draw_scenes, shuffled_glyphs

    # What `examples/digits/train.py` keeps for the evaluation.
    scenes = draw_scenes(shuffled_glyphs(7).part(997, 1797), count, 10_000 + seed)
    return scenes.images, {"label": scenes.labels, "box": scenes.boxes}


def _bench_a(count: int, seed: int) -> _Drawn:
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    glyphs = load_digits()
    pictures = rng.normal(0.0, _NOISE, (count, 1, _CANVAS, _CANVAS))
    boxes = np.empty((count, 4), np.float32)
    picks = rng.integers(0, len(glyphs.target), count)
    for index, pick in enumerate(picks):
        size = int(rng.integers(_SIZES[0], _SIZES[1] + 1))
        left, top = rng.integers(0, _CANVAS - size + 1, 2)
        glyph = Image.fromarray((glyphs.images[pick] / 16).astype(np.float32))
        drawn = np.asarray(glyph.resize((size, size), Image.Resampling.BILINEAR))
        pictures[index, 0, top : top + size, left : left + size] += drawn
        boxes[index] = np.array([left + size / 2, top + size / 2, size, size]) * _FRAME / _CANVAS
    return pictures, {"label": glyphs.target[picks].astype(np.int64), "box": boxes}


_DRAWERS = {"digits": _digits, "strict digits": _digits, "bench A": _bench_a}
