"""What a model's outputs say, for metrics of one's own.

    from dovetail.metrics import detections

    def score(outputs, labels):
        for boxes, scores, classes in detections(outputs):  # of every sample, in pixels of the input
            ...

`outputs` are `[N, ...]`, by name or in a list. What they are is recognised by their shapes, names and values; where
that does not tell everything, `size` says the rows and columns of the picture that goes in, and `view` what
`dovetail.outputs.recognise` sees in the whole model, or a head of it. With a view nothing has to be recognised again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.bare import Size, recognise_head
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

Outputs = Mapping[str, AnyArray] | Sequence[AnyArray]
"""What a model gives: `[N, ...]` each, by name or in the model's order."""
View = OutputsView | HeadView
"""What is known of the outputs."""
Anchors = Sequence[Sequence[tuple[float, float]]]
"""Width and height in pixels of every anchor of every grid, the finest grid first."""


def detections(
    outputs: Outputs,
    *,
    size: Size | None = None,
    view: View | None = None,
    anchors: Anchors | None = None,
    reading: Reading | None = None,
) -> list[Detections]:
    """Return boxes (x1, y1, x2, y2) in pixels of the input, scores and classes of every sample, the best first.

    Boxes that the model gives in shares of a picture whose size nobody says stay shares. Boxes that refer to anchors
    need these, unless the model's file lists them. `reading` says from which score on a box counts and when two are
    one. Raises DataError where the outputs are no detector's, or where what the numbers of a box mean is not known.
    """
    arrays = _named(outputs)
    layout = _head(arrays, Kind.DETECTION, size, view).layout
    if isinstance(layout, RowsLayout):
        # Shares of a picture of unknown size: of one of 1 x 1.
        return find_detections(replace(layout, image=layout.image if all(layout.image) else (1, 1)), arrays, reading)
    if not isinstance(layout, DenseLayout):
        raise _unreadable(Kind.DETECTION)
    return find_detections(_with_anchors(layout, anchors), arrays, reading)


def text_boxes(
    outputs: Outputs, *, size: Size | None = None, view: View | None = None, threshold: float = 0.6
) -> list[Detections]:
    """Return the boxes of connected text in every sample, in cells of the map, of a mean score from a threshold on."""
    arrays = _named(outputs)
    layout = _head(arrays, Kind.TEXT_REGIONS, size, view).layout
    if not isinstance(layout, MaskLayout):
        raise _unreadable(Kind.TEXT_REGIONS)
    return text_regions(layout, arrays, threshold)


def masks(outputs: Outputs, *, size: Size | None = None, view: View | None = None) -> list[NDArray[np.int64]]:
    """Return the class `[H, W]` of every pixel, of every sample."""
    arrays = _named(outputs)
    layout = _head(arrays, Kind.SEGMENTATION, size, view).layout
    if not isinstance(layout, MaskLayout):
        raise _unreadable(Kind.SEGMENTATION)
    return [class_map(layout, values) for values in arrays[layout.output]]


def keypoints(outputs: Outputs, *, size: Size | None = None, view: View | None = None) -> tuple[Floats, Floats]:
    """Return places `[N, K, 2]` (x, y), in cells, bins or what coordinates are given in, and scores `[N, K]`."""
    arrays = _named(outputs)
    layout = _head(arrays, Kind.KEYPOINTS, size, view).layout
    if not isinstance(layout, HeatmapsLayout | PointsLayout | BinsLayout):
        raise _unreadable(Kind.KEYPOINTS)
    return find_points(layout, arrays)


def text(outputs: Outputs, *, size: Size | None = None, view: View | None = None) -> list[tuple[int, ...]]:
    """Return the symbols that every sample reads, repetitions merged and blanks left out."""
    arrays = _named(outputs)
    layout = _head(arrays, Kind.TEXT, size, view).layout
    if not isinstance(layout, SequenceLayout):
        raise _unreadable(Kind.TEXT)
    return read_symbols(layout, arrays)


def _named(outputs: Outputs) -> Arrays:
    """Return outputs by name; those of a list are called by their numbers."""
    named = outputs if isinstance(outputs, Mapping) else {str(index): item for index, item in enumerate(outputs)}
    if not named:
        raise DataError("there is no output.", hint="Give the model's outputs, [N, ...] each.")
    return {name: np.asarray(values) for name, values in named.items()}


def _with_anchors(layout: DenseLayout, anchors: Anchors | None) -> DenseLayout:
    """Return the layout with a person's anchors; raise DataError where boxes need some and nobody says them."""
    counts = [level.anchors for level in layout.levels]
    if anchors is None:
        if not layout.anchors_assumed:
            return layout
        raise DataError(
            f"detection: boxes refer to {'+'.join(map(str, counts))} anchors that the outputs do not hold.",
            hint="Give width and height of each in pixels, the finest grid first: anchors=(((10, 13), ...), ...).",
        )
    if [len(sizes) for sizes in anchors] != counts:
        raise DataError(
            f"detection: {'+'.join(str(len(sizes)) for sizes in anchors)} anchors are given, the outputs have "
            f"{'+'.join(map(str, counts))}.",
            hint="Give width and height of each in pixels, the finest grid first.",
        )
    return replace(layout, anchors=tuple(tuple(sizes) for sizes in anchors), anchors_assumed=False)


def _head(outputs: Arrays, kind: Kind, size: Size | None, view: View | None) -> HeadView:
    """Return the surest head of a kind; raise DataError that says what is seen instead."""
    if view is None:
        return recognise_head(outputs, kind, size)
    heads = (view,) if isinstance(view, HeadView) else view.heads
    fitting = [head for head in heads if head.kind is kind]
    if not fitting:
        seen = ", ".join(sorted({head.kind.value for head in heads}))
        raise DataError(f"{kind.value}: the outputs {', '.join(outputs)} look like {seen}.")
    return max(fitting, key=lambda head: head.confidence)


def _unreadable(kind: Kind) -> DataError:
    return DataError(f"{kind.value}: the head is known by its kind only, not how it is read.")
