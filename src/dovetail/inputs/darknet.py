"""What a Darknet configuration says: its own loader reads RGB in 0..1, stretched unless `letter_box` asks otherwise.

Source: `load_image_color`, `resize_image` and `letter_box` of AlexeyAB's Darknet.
"""

from __future__ import annotations

from pathlib import Path

from dovetail.data.preprocess import Channels, Interpolation, PreprocessStep, StepKind
from dovetail.errors import LoadError
from dovetail.importers.darknet.config import read_config
from dovetail.inputs.statement import Statement

_GREY = 128
"""Darknet pads with one half."""


def read_darknet(path: Path) -> Statement | None:
    """Return what the configuration of a Darknet model says, or None for other files."""
    config = path.with_suffix(".cfg")
    if path.suffix not in (".cfg", ".weights") or not config.is_file():
        return None
    try:
        sections = read_config(config.read_text(encoding="utf-8", errors="replace"), str(config))
        net = sections[0] if sections else None
        rows, cols = (0, 0) if net is None else (net.integer("height", 0), net.integer("width", 0))
        boxed = net is not None and net.integer("letter_box", 0) > 0
    except LoadError:
        # What cannot be read states nothing; the model itself is checked where it is loaded.
        return None
    if rows < 1 or cols < 1:
        return None
    kind = StepKind.LETTERBOX if boxed else StepKind.RESIZE
    step = PreprocessStep(kind, rows, cols, _GREY if boxed else 0, interpolation=Interpolation.OPENCV_BILINEAR)
    return Statement(str(config.name), (0.0,), (1 / 255,), Channels.RGB, (step,))
