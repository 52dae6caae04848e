"""Pictures of decisions: what float and a candidate see, side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.task import Arrays
from dovetail.outputs.decode.detections import Detections, box_iou
from dovetail.outputs.decode.found import find_detections
from dovetail.outputs.decode.masks import class_map
from dovetail.outputs.decode.points import find_points
from dovetail.outputs.layouts import (
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
from dovetail.report.decided import decided_text
from dovetail.report.text import shorten

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_SIDE = 640
"""Pixels of the longer side: smaller pictures are enlarged in whole steps as far as they fit, larger ones shrunk."""
_MOST_BYTES = 400_000
"""Of one file: a page of a handful stays small enough to be sent."""
_CAPTION = 16
_LETTER = 6
"""Pixels that a letter of Pillow's own small font takes at most."""
_GAP = 6
_LINE = 11
"""Pixels from one line of text to the next."""
_SAME_IOU = 0.5
"""Overlap from which a box is there on the other side too."""
_SHARED, _ALONE = (60, 180, 75), (230, 25, 75)
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

LEGEND = (
    "Boxes are green where both sides have one of the same class, red where the other has none. Masks are coloured by "
    "class, but for the one that float sees most of. Keypoints are green, orange where the model is less sure."
)

_PICTURED = (
    DenseLayout,
    RowsLayout,
    MaskLayout,
    HeatmapsLayout,
    PointsLayout,
    BinsLayout,
    ScoresLayout,
    SequenceLayout,
)
"""Layouts of which something can be drawn or written on a picture."""


def draw_decisions(view: OutputsView, picture: Image, sides: Sequence[tuple[str, Arrays]]) -> Image | None:
    """Return one picture with what every side sees in it, or None where no head has anything to draw.

    `picture` is as the model gets it: of the input's size, before it becomes numbers. `sides` are captions with the
    outputs `[1, ...]` of the sample, float's first.
    """
    import PIL.Image

    heads = [head for head in view.decisions if isinstance(head.layout, _PICTURED)]
    if not heads:
        return None
    scale = _scale(max(picture.size))
    size = (round(picture.width * scale), round(picture.height * scale))
    filters = PIL.Image.Resampling
    base = picture.convert("RGB").resize(size, filters.NEAREST if scale >= 1 else filters.BILINEAR)
    panels: list[Image] = []
    for number, (caption, outputs) in enumerate(sides):
        others = tuple(arrays for index, (_, arrays) in enumerate(sides) if index != number)
        panel = _Panel(base.copy(), scale, outputs, sides[0][1], others)
        for head in heads:
            panel.draw(head)
        panels.append(_captioned(panel.canvas, f"{caption}: {decided_text(view, outputs)}"))
    whole = PIL.Image.new("RGB", (sum(item.width + _GAP for item in panels) - _GAP, panels[0].height), (255, 255, 255))
    left = 0
    for item in panels:
        whole.paste(item, (left, 0))
        left += item.width + _GAP
    return whole


def picture_png(picture: Image) -> bytes:
    """Return a picture as a PNG file of at most 400 kB: in 256 colours, and made smaller until it fits."""
    import PIL.Image

    while True:
        file = io.BytesIO()
        picture.quantize(256, method=PIL.Image.Quantize.FASTOCTREE).save(file, "PNG", optimize=True)
        if file.tell() <= _MOST_BYTES:
            return file.getvalue()
        picture = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4), PIL.Image.Resampling.BILINEAR)


def _scale(longer: int) -> float:
    return _SIDE // longer if longer <= _SIDE else _SIDE / longer


@dataclass(frozen=True, slots=True)
class _Panel:
    """One side's picture."""

    canvas: Image
    scale: float
    """Pixels of the canvas for one of the input."""
    outputs: Arrays
    float_outputs: Arrays
    others: tuple[Arrays, ...]
    """The outputs of all other sides."""

    def draw(self, head: HeadView) -> None:
        """Draw what a head decides; classes and symbols are said in the caption."""
        layout = head.layout
        if isinstance(layout, MaskLayout):
            self._draw_mask(layout)
        elif isinstance(layout, DenseLayout | RowsLayout):
            self._draw_boxes(layout)
        elif isinstance(layout, HeatmapsLayout | PointsLayout | BinsLayout):
            self._draw_points(layout)

    def _draw_boxes(self, layout: DenseLayout | RowsLayout) -> None:
        import PIL.ImageDraw

        pen = PIL.ImageDraw.Draw(self.canvas)
        (found,) = find_detections(layout, self.outputs)
        shared = np.ones(len(found.scores), bool)
        for outputs in self.others:
            (other,) = find_detections(layout, outputs)
            shared &= _has_partner(found, other)
        for box, score, label, both in zip(found.boxes, found.scores, found.classes, shared, strict=True):
            left, top, right, low = np.clip(np.nan_to_num(box * self.scale), -1e4, 1e4).tolist()
            if right < left or low < top:
                continue
            colour = _SHARED if both else _ALONE
            pen.rectangle((left, top, right, low), outline=colour, width=2)
            _write(pen, (left, max(top - _LINE, 0)), f"{label} {score:.2f}", colour)

    def _draw_mask(self, layout: MaskLayout) -> None:
        """Lay colours over all classes but the one that float sees most of."""
        import PIL.Image

        classes, own = (class_map(layout, arrays[layout.output][0]) for arrays in (self.outputs, self.float_outputs))
        labels, counts = np.unique(own, return_counts=True)
        palette = np.array(_COLOURS, np.uint8)[classes % len(_COLOURS)]
        strength = np.where(classes == labels[counts.argmax()], 0, 120).astype(np.uint8)
        colours, opacity = (
            PIL.Image.fromarray(plane).resize(self.canvas.size, PIL.Image.Resampling.NEAREST)
            for plane in (palette, strength)
        )
        self.canvas.paste(colours, (0, 0), opacity)

    def _draw_points(self, layout: HeatmapsLayout | PointsLayout | BinsLayout) -> None:
        import PIL.ImageDraw

        pen = PIL.ImageDraw.Draw(self.canvas)
        places, scores = find_points(layout, self.outputs)
        if not isinstance(layout, PointsLayout):
            places = places + 0.5  # The middle of a cell or of a bin.
        size = np.array(self.canvas.size, np.float64)
        extent = _extent(layout, self.float_outputs, size / self.scale)
        sure = scores[0] / max(float(np.nanmax(scores[0])), 1e-9)
        for (x, y), share in zip(np.nan_to_num(places[0] / extent * size).tolist(), sure, strict=True):
            colour = _SHARED if share > 0.5 else (245, 130, 48)
            pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=colour, outline=(0, 0, 0))


def _has_partner(found: Detections, other: Detections) -> NDArray[np.bool_]:
    """Tell of every box whether one of the same class on the other side overlaps it enough."""
    same = found.classes[:, None] == other.classes[None, :]
    overlap = np.where(same, box_iou(found.boxes, other.boxes), 0.0)
    return np.asarray(overlap.max(axis=1, initial=0.0) >= _SAME_IOU, np.bool_)


def _extent(
    layout: HeatmapsLayout | PointsLayout | BinsLayout, golden: Arrays, size: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the width and the height that places are counted in; `size` is that of the input."""
    if isinstance(layout, HeatmapsLayout):
        rows, cols = (side for axis, side in enumerate(golden[layout.output].shape[1:]) if axis != layout.point_axis)
        return np.array([cols, rows], np.float64)
    if isinstance(layout, BinsLayout):
        return np.array([golden[layout.x].shape[-1], golden[layout.y].shape[-1]], np.float64)
    # Coordinates come in shares of the picture or in pixels of the input: nothing tells but how large they are.
    places, _ = find_points(layout, golden)
    return np.ones(2) if float(np.nanmax(np.abs(places))) <= 2 else size


def _write(pen: ImageDraw, place: tuple[float, float], text: str, colour: tuple[int, int, int]) -> None:
    """Write on a dark ground, so that it can be read on any picture."""
    pen.rectangle(pen.textbbox(place, text), fill=(0, 0, 0))
    pen.text(place, text, fill=tuple((part + 255) // 2 for part in colour))


def _captioned(picture: Image, caption: str) -> Image:
    import PIL.Image
    import PIL.ImageDraw

    whole = PIL.Image.new("RGB", (picture.width, picture.height + _CAPTION), (255, 255, 255))
    whole.paste(picture, (0, _CAPTION))
    PIL.ImageDraw.Draw(whole).text((2, 2), shorten(caption, picture.width // _LETTER), fill=(0, 0, 0))
    return whole
