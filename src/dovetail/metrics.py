"""What a model's outputs say, for metrics of one's own.

    from dovetail.metrics import detections

    def score(outputs, labels):
        found = detections(outputs, (416, 416))
        boxes, scores, classes = found[0]  # of the first sample, in pixels of the input

`outputs` are `[N, ...]` by name. Without a view the outputs are recognised by their shapes, names and values; `view` is
what `dovetail.recognise` has found, or a head of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError
from dovetail.outputs.decode.detections import Detections, box_iou, suppress
from dovetail.outputs.decode.found import Reading, find_detections
from dovetail.outputs.decode.masks import class_map, text_regions
from dovetail.outputs.decode.planes import Arrays, Floats
from dovetail.outputs.decode.points import find_points
from dovetail.outputs.decode.symbols import read_symbols
from dovetail.outputs.layouts import (
    BinsLayout,
    DenseLayout,
    HeatmapsLayout,
    MaskLayout,
    PointsLayout,
    RowsLayout,
    SequenceLayout,
)
from dovetail.outputs.recognise import recognise_arrays
from dovetail.outputs.view import HeadView, Kind, OutputsView

__all__ = [
    "Detections",
    "Reading",
    "box_iou",
    "detections",
    "keypoints",
    "masks",
    "suppress",
    "text",
    "text_boxes",
]

View = OutputsView | HeadView | tuple[int, int]
"""What is known of the outputs; rows and columns of the picture where nothing else is."""


def detections(outputs: Arrays, view: View, reading: Reading | None = None) -> list[Detections]:
    """Return boxes (x1, y1, x2, y2) in pixels of the input, scores and classes of every sample, the best first.

    `reading` says from which score on a box counts and when two are one. Raises DataError where the outputs are no
    detector's, or where what the numbers of a box mean is not known.
    """
    layout = _head(outputs, view, Kind.DETECTION).layout
    if not isinstance(layout, DenseLayout | RowsLayout):
        raise _unreadable(Kind.DETECTION)
    return find_detections(layout, outputs, reading)


def text_boxes(outputs: Arrays, view: View, threshold: float = 0.6) -> list[Detections]:
    """Return the boxes of connected text in every sample, in cells of the map, of a mean score from a threshold on."""
    layout = _head(outputs, view, Kind.TEXT_REGIONS).layout
    if not isinstance(layout, MaskLayout):
        raise _unreadable(Kind.TEXT_REGIONS)
    return text_regions(layout, outputs, threshold)


def masks(outputs: Arrays, view: View) -> list[NDArray[np.int64]]:
    """Return the class `[H, W]` of every pixel, of every sample."""
    layout = _head(outputs, view, Kind.SEGMENTATION).layout
    if not isinstance(layout, MaskLayout):
        raise _unreadable(Kind.SEGMENTATION)
    return [class_map(layout, values) for values in outputs[layout.output]]


def keypoints(outputs: Arrays, view: View) -> tuple[Floats, Floats]:
    """Return places `[N, K, 2]` (x, y), in cells, bins or what coordinates are given in, and scores `[N, K]`."""
    layout = _head(outputs, view, Kind.KEYPOINTS).layout
    if not isinstance(layout, HeatmapsLayout | PointsLayout | BinsLayout):
        raise _unreadable(Kind.KEYPOINTS)
    return find_points(layout, outputs)


def text(outputs: Arrays, view: View) -> list[tuple[int, ...]]:
    """Return the symbols that every sample reads, repetitions merged and blanks left out."""
    layout = _head(outputs, view, Kind.TEXT).layout
    if not isinstance(layout, SequenceLayout):
        raise _unreadable(Kind.TEXT)
    return read_symbols(layout, outputs)


def _head(outputs: Arrays, view: View, kind: Kind) -> HeadView:
    """Return the surest head of a kind; raise DataError that says what is seen instead."""
    if isinstance(view, HeadView):
        heads: tuple[HeadView, ...] = (view,)
    else:
        found = view if isinstance(view, OutputsView) else recognise_arrays(outputs, view)
        heads = found.heads
    fitting = [head for head in heads if head.kind is kind]
    if not fitting:
        seen = ", ".join(sorted({head.kind.value for head in heads}))
        raise DataError(f"{kind.value}: the outputs {', '.join(outputs)} look like {seen}.")
    return max(fitting, key=lambda head: head.confidence)


def _unreadable(kind: Kind) -> DataError:
    return DataError(f"{kind.value}: the head is known by its kind only, not how it is read.")
