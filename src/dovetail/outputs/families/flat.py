"""Detectors whose tables are written as one list each: Caffe's SSD."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.view import Kind, OutputRole

_FEWEST_PLACES = 50
_MOST_CLASSES = 400
_NEAR = 1e-2


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield pairs of lists: as many shares of classes, and four numbers, for every place."""
    lists = [end for end in ends.outputs if sum(size != 1 for size in end.shape) == 1 and not end.integer]
    if ends.image is None or len(lists) < 2:
        return
    for scores in lists:
        classes = classes_of_list(scores)
        places = int(np.prod(scores.shape)) // classes if classes else 0
        for boxes in lists:
            if classes and boxes is not scores and int(np.prod(boxes.shape)) == 4 * places:
                yield _pair(boxes, scores, classes, places)


def _pair(boxes: End, scores: End, classes: int, places: int) -> Hypothesis:
    case = Case()
    case.add(DECISIVE, f"every {classes} numbers of '{scores.name}' add up to 1, {places} times")
    case.add(STRONG, f"'{boxes.name}' has four numbers as often")
    case.when(classes in counts.OBJECTS, FAIR, f"{classes} classes, a usual number")
    case.when(words.named(boxes, words.BOXES), FAIR, f"'{boxes.name}' is named as boxes are")
    roles = {boxes.name: OutputRole.BOXES, scores.name: OutputRole.SCORES}
    return Hypothesis.of(case, Kind.DETECTION, "ssd, one list each", roles)


def classes_of_list(end: End) -> int:
    """Return how many numbers of a list add up to 1 each time, over and over; 0 where none do."""
    values = np.asarray(end.values, np.float64).reshape(len(end.values), -1)
    size = values.shape[1]
    if not size or end.low < 0 or not end.in_unit or not np.isfinite(values).all():
        return 0
    for classes in range(2, min(_MOST_CLASSES, size // _FEWEST_PLACES) + 1):
        first = values[:, :classes].sum(axis=1)
        if size % classes == 0 and np.abs(first - 1).max() < _NEAR:
            sums = values.reshape(len(values), -1, classes).sum(axis=2)
            if np.abs(sums - 1).max() < _NEAR:
                return classes
    return 0
