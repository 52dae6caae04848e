"""Pictures of decisions: what float and the candidate see, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.decisions.golden import AgainstFloat
from dovetail.compare.task import Arrays
from dovetail.outputs.decode.detections import Detections
from dovetail.outputs.decode.found import find_detections
from dovetail.outputs.decode.masks import class_map
from dovetail.outputs.decode.planes import activate
from dovetail.outputs.decode.points import find_points
from dovetail.outputs.decode.symbols import read_symbols
from dovetail.outputs.layouts import (
    Activation,
    BinsLayout,
    DenseLayout,
    HeatmapsLayout,
    MaskLayout,
    PointsLayout,
    RowsLayout,
    ScoresLayout,
    SequenceLayout,
)
from dovetail.outputs.view import HeadView, OutputsView

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_SMALLEST = 320
"""Pixels of the longer side that a picture is enlarged to."""
_CAPTION = 16
_GAP = 6
_MOST_SYMBOLS = 40
_MOST_CLASSES = 3
_COLOURS = (
    (230, 25, 75),
    (60, 180, 75),
    (0, 130, 200),
    (245, 130, 48),
    (145, 30, 180),
    (0, 170, 170),
    (240, 50, 230),
    (128, 128, 0),
)


def most_different(metric: AgainstFloat, measured: Arrays, golden: Arrays, count: int) -> list[int]:
    """Return the samples that lose most against float, the worst first; those that lose nothing are left out."""
    losses = metric.per_sample(golden, golden) - metric.per_sample(measured, golden)
    order = np.argsort(-losses, kind="stable")[:count]
    return [int(index) for index in order if losses[index] > 0]


def draw_decisions(view: OutputsView, picture: Image, sides: Sequence[tuple[str, Arrays]], index: int) -> Image | None:
    """Return one picture with what every side sees in it, or None where no head has anything to draw.

    `picture` is as the model gets it: of the input's size, before it becomes numbers. `sides` are captions with outputs
    `[N, ...]`, such as float's and the candidate's; `index` is the sample.
    """
    import PIL.Image

    heads = [head for head in view.decisions if _drawable(head)]
    if not heads:
        return None
    scale = max(1, round(_SMALLEST / max(picture.size)))
    panels = [_panel(heads, picture, scale, caption, _sample(outputs, index)) for caption, outputs in sides]
    width = sum(panel.width for panel in panels) + _GAP * (len(panels) - 1)
    whole = PIL.Image.new("RGB", (width, panels[0].height), (255, 255, 255))
    left = 0
    for panel in panels:
        whole.paste(panel, (left, 0))
        left += panel.width + _GAP
    return whole


def _sample(outputs: Arrays, index: int) -> Arrays:
    return {name: values[index : index + 1] for name, values in outputs.items()}


def _drawable(head: HeadView) -> bool:
    kinds = (
        DenseLayout,
        RowsLayout,
        MaskLayout,
        HeatmapsLayout,
        PointsLayout,
        BinsLayout,
        ScoresLayout,
        SequenceLayout,
    )
    return isinstance(head.layout, kinds)


def _panel(heads: Sequence[HeadView], picture: Image, scale: int, caption: str, outputs: Arrays) -> Image:
    import PIL.Image
    import PIL.ImageDraw

    size = (picture.width * scale, picture.height * scale)
    canvas = PIL.Image.new("RGB", (size[0], size[1] + _CAPTION), (255, 255, 255))
    canvas.paste(picture.convert("RGB").resize(size, PIL.Image.Resampling.NEAREST), (0, _CAPTION))
    lines: list[str] = []
    for head in heads:
        layout = head.layout
        if isinstance(layout, MaskLayout):
            _draw_mask(canvas, class_map(layout, outputs[layout.output][0]))
        draw = PIL.ImageDraw.Draw(canvas)
        if isinstance(layout, DenseLayout | RowsLayout):
            (found,) = find_detections(layout, outputs)
            _draw_boxes(draw, found, scale)
            lines.append(f"{len(found.scores)} found")
        elif isinstance(layout, HeatmapsLayout | PointsLayout | BinsLayout):
            _draw_points(draw, layout, outputs, size)
        elif isinstance(layout, ScoresLayout):
            lines.append(_classes(layout, outputs))
        elif isinstance(layout, SequenceLayout):
            (symbols,) = read_symbols(layout, outputs)
            lines.append(" ".join(map(str, symbols[:_MOST_SYMBOLS])))
    PIL.ImageDraw.Draw(canvas).text((2, 2), ": ".join([caption, "; ".join(lines)]).rstrip(": "), fill=(0, 0, 0))
    return canvas


def _draw_boxes(draw: ImageDraw, found: Detections, scale: int) -> None:
    for box, score, label in zip(found.boxes, found.scores, found.classes, strict=True):
        corners = np.clip(np.nan_to_num(box * scale), -1e4, 1e4)
        left, top, right, low = corners + np.array([0, _CAPTION, 0, _CAPTION])
        if right < left or low < top:
            continue
        colour = _COLOURS[int(label) % len(_COLOURS)]
        draw.rectangle((left, top, right, low), outline=colour, width=2)
        draw.text((left + 3, top + 1), f"{label} {score:.2f}", fill=colour)


def _draw_mask(canvas: Image, classes: NDArray[np.int64]) -> None:
    """Lay colours over all classes but the most common one."""
    import PIL.Image

    labels, counts = np.unique(classes, return_counts=True)
    usual = labels[counts.argmax()]
    palette = np.array(_COLOURS, np.uint8)[classes % len(_COLOURS)]
    strength = np.where(classes == usual, 0, 120).astype(np.uint8)
    size = (canvas.width, canvas.height - _CAPTION)
    colours = PIL.Image.fromarray(palette).resize(size, PIL.Image.Resampling.NEAREST)
    canvas.paste(colours, (0, _CAPTION), PIL.Image.fromarray(strength).resize(size, PIL.Image.Resampling.NEAREST))


def _draw_points(
    draw: ImageDraw, layout: HeatmapsLayout | PointsLayout | BinsLayout, outputs: Arrays, size: tuple[int, int]
) -> None:
    places, scores = find_points(layout, outputs)
    extent = _extent(layout, outputs, places)
    sure = scores[0] / max(float(np.nanmax(scores[0])), 1e-9)
    for place, share in zip(np.nan_to_num(places[0] / extent), sure, strict=True):
        x, y = place[0] * size[0], place[1] * size[1] + _CAPTION
        colour = _COLOURS[1] if share > 0.5 else _COLOURS[3]
        draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=colour, outline=(0, 0, 0))


def _extent(
    layout: HeatmapsLayout | PointsLayout | BinsLayout, outputs: Arrays, places: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the width and the height that places are counted in."""
    if isinstance(layout, HeatmapsLayout):
        shape = [size for axis, size in enumerate(outputs[layout.output].shape[1:]) if axis != layout.point_axis]
        return np.array([shape[1], shape[0]], np.float64)
    if isinstance(layout, BinsLayout):
        return np.array([outputs[layout.x].shape[-1], outputs[layout.y].shape[-1]], np.float64)
    # Coordinates come in shares of the picture, or in pixels of one that the largest of them still fits in.
    return np.ones(2) if float(np.nanmax(np.abs(places))) <= 2 else np.full(2, float(np.nanmax(places)))


def _classes(layout: ScoresLayout, outputs: Arrays) -> str:
    values = outputs[layout.output].reshape(1, -1)
    if layout.labels:
        return f"class {int(values[0, 0])}"
    single = layout.independent or values.shape[1] == 1
    shares = activate(values, layout.activation, Activation.SIGMOID if single else Activation.SOFTMAX)[0]
    best = np.argsort(-np.nan_to_num(shares), kind="stable")[:_MOST_CLASSES]
    return ", ".join(f"{label} {shares[label]:.2f}" for label in best)
