"""What a model decides about one sample, in a few words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.compare.task import Arrays
from dovetail.outputs.decode.found import find_detections
from dovetail.outputs.decode.masks import class_map, text_regions
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
from dovetail.outputs.view import HeadView, Kind, OutputsView

_MOST_CLASSES = 3
_MOST_SYMBOLS = 40
_HALF = 0.5


def decided_text(view: OutputsView, outputs: Arrays) -> str:
    """Return what every head decides, given the outputs `[1, ...]` of one sample; `-` where none can be told."""
    return "; ".join(text for head in view.decisions for text in _head(head, outputs)) or "-"


def _head(head: HeadView, outputs: Arrays) -> Iterator[str]:
    layout = head.layout
    match layout:
        case DenseLayout() | RowsLayout():
            (found,) = find_detections(layout, outputs)
            yield _count(len(found.scores), "detection")
        case MaskLayout() if head.kind is Kind.TEXT_REGIONS:
            (regions,) = text_regions(layout, outputs, layout.threshold)
            yield _count(len(regions.scores), "text box", "es")
        case MaskLayout():
            yield _shares(class_map(layout, outputs[layout.output][0]).reshape(-1))
        case HeatmapsLayout() | PointsLayout() | BinsLayout():
            _, scores = find_points(layout, outputs)
            sure = int(np.count_nonzero(scores[0] > _HALF * np.nanmax(scores[0])))
            yield f"{sure} of {scores.shape[1]} keypoints"
        case ScoresLayout():
            yield _classes(layout, outputs)
        case SequenceLayout():
            (symbols,) = read_symbols(layout, outputs)
            more = " ..." if len(symbols) > _MOST_SYMBOLS else ""
            yield f"symbols {' '.join(map(str, symbols[:_MOST_SYMBOLS]))}{more}"


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def _shares(classes: np.ndarray) -> str:
    """Return the largest classes of a mask with their shares of the picture."""
    labels, counts = np.unique(classes, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:_MOST_CLASSES]
    return ", ".join(f"class {labels[index]} {counts[index] / classes.size:.1%}" for index in largest)


def _classes(layout: ScoresLayout, outputs: Arrays) -> str:
    values = np.asarray(outputs[layout.output], np.float64).reshape(1, -1)
    if layout.labels:
        return "class " + " ".join(f"{value:g}" for value in values[0][:_MOST_SYMBOLS])
    single = layout.independent or values.shape[1] == 1
    shares = activate(values, layout.activation, Activation.SIGMOID if single else Activation.SOFTMAX)[0]
    best = np.argsort(-np.nan_to_num(shares), kind="stable")[:_MOST_CLASSES]
    return ", ".join(f"class {label} {shares[label]:.2f}" for label in best)
