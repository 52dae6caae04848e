"""What the numbers of a box mean, told from the values themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dovetail.outputs.decode.boxes import LARGEST_POWER, corners_of
from dovetail.outputs.decode.detections import box_iou
from dovetail.outputs.decode.planes import Arrays, Cells, Floats, cells_of, read_part
from dovetail.outputs.decode.scores import place_scores
from dovetail.outputs.layouts import Coding, DenseLayout, LayoutPart

_NEAR = 1.5
"""Largest median distance, in cells, of decoded boxes from the cells that they belong to."""
_CHANCE = 0.5
"""Largest share of that distance in the one that the same boxes have from the cells of other places."""
_LARGEST = 4.0
"""Sides of the picture that a box is wide at most that a detector is sure of."""
_MOST_PICTURES = 8
_MOST_PLACES = 200
"""Places a picture that neighbours are compared at."""
_FEW_PAIRS = 8


def decoded_coding(layout: DenseLayout, outputs: Arrays) -> DenseLayout | None:
    """Return the layout with the coding of boxes that lie where their cells are, or None for boxes that do not.

    Decoded boxes of a trained or untrained detector are centred near their cells; offsets, distances and logarithms
    are not. Tells pixels from shares of the image, corners from centres, and the order of a cell's anchors.
    """
    best: tuple[float, DenseLayout] | None = None
    chance = np.inf
    for candidate in _decoded(layout):
        boxes = corners_of(candidate, _first(outputs))
        if boxes is None:
            continue
        cells = cells_of(layout.levels)
        error = _distance(boxes, cells)
        if best is None or error < best[0] - 1e-9:
            best = error, candidate
            chance = _distance(boxes[:, _drawn(boxes.shape[1])], cells)
    # On a grid of a few cells every box is near every cell: what counts is that it is nearer to its own.
    return best[1] if best is not None and best[0] <= min(_NEAR, _CHANCE * chance) else None


def has_plain_sizes(layout: DenseLayout, outputs: Arrays) -> bool:
    """Tell whether sizes are no logarithms, logits or strides: the surest boxes would be far beyond the picture.

    Such boxes are decoded, to a picture of another size than the model's input.
    """
    arrays = _first(outputs)
    boxes = corners_of(layout, arrays)
    if layout.boxes is None or boxes is None:
        return False
    if layout.coding is Coding.GRID_SIGMOID:  # Its boxes are within the picture, whatever the logits are.
        sides, most = np.abs(read_part(layout.boxes, arrays)[..., 2:4]).max(axis=2), LARGEST_POWER
    else:
        sides, most = (boxes[..., 2:] - boxes[..., :2]).max(axis=2), _LARGEST * max(layout.image)
    surest = [place_scores(layout, arrays, index).max(axis=1).argmax() for index in range(len(sides))]
    return bool(np.median(sides[np.arange(len(sides)), surest]) > most)


def _drawn(places: int) -> NDArray[np.intp]:
    """Return the places in an order drawn at random, always the same."""
    return np.random.default_rng(0).permutation(places)


def _decoded(layout: DenseLayout) -> Iterator[DenseLayout]:
    orders = (False, True) if any(level.anchors > 1 for level in layout.levels) else (False,)
    for unit in (False, True):
        for coding in (Coding.CENTRE, Coding.CORNERS, Coding.CORNERS_YX):
            for anchors_first in orders:
                yield reordered(replace(layout, coding=coding, unit=unit), anchors_first)


def reordered(layout: DenseLayout, anchors_first: bool) -> DenseLayout:
    """Return the layout with all places of an anchor after one another, or with those of a cell."""

    def turn(part: LayoutPart | None) -> LayoutPart | None:
        if part is None:
            return None
        planes = tuple(replace(plane, anchors_first=anchors_first) for plane in part.planes)
        return replace(part, planes=planes)

    scores = turn(layout.scores)
    return replace(
        layout,
        scores=layout.scores if scores is None else scores,
        boxes=turn(layout.boxes),
        objectness=turn(layout.objectness),
        landmarks=turn(layout.landmarks),
    )


def _first(outputs: Arrays) -> Arrays:
    return {name: values[:_MOST_PICTURES] for name, values in outputs.items()}


def _distance(boxes: Floats, cells: Cells) -> float:
    """Return the median distance of box centres from their cells, in cells, the worse axis of every place counting."""
    x = (boxes[..., 0] + boxes[..., 2]) / 2 / cells.stride_x - cells.x - 0.5
    y = (boxes[..., 1] + boxes[..., 3]) / 2 / cells.stride_y - cells.y - 0.5
    far = np.maximum(np.abs(x), np.abs(y))
    proper = (boxes[..., 2] >= boxes[..., 0]) & (boxes[..., 3] >= boxes[..., 1])
    # A box turned inside out is no box: corners mistaken for a centre and a size, or the other way round.
    return float(np.median(np.where(np.isfinite(far) & proper, far, np.inf)))


def agreeing_coding(layout: DenseLayout, outputs: Arrays, codings: Sequence[tuple[Coding, float]]) -> DenseLayout:
    """Return the layout with the coding under which neighbouring places that see the same object agree on its box.

    `codings` pair a coding with the reference point of a cell; the first stands where too few neighbours are sure.
    """
    first = replace(layout, coding=codings[0][0], centre=codings[0][1])
    arrays = _first(outputs)
    pairs, strangers = _sure_pairs(layout, arrays)
    if sum(len(rows) for rows in pairs) < _FEW_PAIRS:
        return first
    best, most = first, -1.0
    for coding, centre in codings:
        candidate = replace(layout, coding=coding, centre=centre)
        boxes = corners_of(candidate, arrays)
        if boxes is None:
            continue
        # Boxes that are all alike agree everywhere: what counts is how much more neighbours do.
        agreement = _agreement(boxes, pairs) - _agreement(boxes, strangers)
        if agreement > most + 1e-3:
            best, most = candidate, agreement
    return best


def _sure_pairs(layout: DenseLayout, outputs: Arrays) -> tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]]:
    """Return for each picture pairs `[M, 2]` of the surest places: neighbours that see one class, and all others."""
    cells = cells_of(layout.levels)
    found: list[NDArray[np.intp]] = []
    others: list[NDArray[np.intp]] = []
    for index in range(len(next(iter(outputs.values())))):
        scores = place_scores(layout, outputs, index)
        classes, best = scores.argmax(axis=1), scores.max(axis=1)
        sure = np.argsort(-best, kind="stable")[:_MOST_PLACES]
        sure = sure[best[sure] >= max(layout.threshold, float(best.max(initial=0.0)) / 2)]
        near = (
            (np.abs(cells.x[sure, None] - cells.x[None, sure]) <= 1)
            & (np.abs(cells.y[sure, None] - cells.y[None, sure]) <= 1)
            & (cells.level[sure, None] == cells.level[None, sure])
            & (classes[sure, None] == classes[None, sure])
        )
        for kept, rows in ((near, found), (~near, others)):
            first, second = np.nonzero(np.triu(kept, 1))
            rows.append(np.stack([sure[first], sure[second]], axis=1))
    return found, others


def _agreement(boxes: Floats, pairs: Sequence[NDArray[np.intp]]) -> float:
    """Return the mean IoU of the boxes of neighbours; boxes that are none agree with nothing."""
    overlaps = [
        box_iou(picture, picture)[index[:, 0], index[:, 1]]
        for picture, index in (_surest(picture, rows) for picture, rows in zip(boxes, pairs, strict=True))
    ]
    every = np.concatenate(overlaps) if overlaps else np.zeros(0)
    return float(every.mean()) if every.size else 0.0


def _surest(boxes: Floats, pairs: NDArray[np.intp]) -> tuple[Floats, NDArray[np.intp]]:
    """Return the boxes `[K, 4]` that some pairs name, and the pairs as rows of them."""
    places, index = np.unique(pairs.reshape(-1), return_inverse=True)
    return boxes[places], index.reshape(-1, 2)
