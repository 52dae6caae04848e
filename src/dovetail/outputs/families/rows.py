"""Detectors that give a list of boxes: queries (DETR), and what is left after suppression inside the model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dovetail.outputs.decode.planes import Floats
from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.activated import activation_of, background_index
from dovetail.outputs.layouts import Activation, Coding, Columns, RowsLayout
from dovetail.outputs.view import Kind, OutputRole

_SUPPRESSION = frozenset({"NonMaxSuppression", "TopK"})
_MOST_ROWS = 1000
_SMALLEST_MASK = 7
_UNIT_LIMIT = 2.0
"""Largest number of boxes given in shares of the picture: objects at its edge reach out of it."""
_NEARLY_ALL = 0.9
"""Share of the rows that has to be a box where boxes are: padding need not be."""


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which outputs are a list of boxes."""
    image = (0, 0) if ends.image is None else (ends.image.rows, ends.image.cols)
    for end in ends.outputs:
        if end.rank == 2 and end.shape[1] in (6, 7):
            yield from _one_table(ends, end, image)
        if end.rank == 2 and end.shape[1] > 5 and 0 < end.shape[0] <= _MOST_ROWS:
            yield _queries_joined(ends, end, image)
            yield from _proposals(ends, end)
        if end.rank == 2 and end.shape[1] == 4:
            yield from _with_boxes(ends, end, image)
        if end.rank == 2 and end.shape[1] == 5:
            yield from _scored_boxes(ends, end, image)
            yield from _posed_boxes(ends, end, image)


def _one_table(ends: Ends, end: End, image: tuple[int, int]) -> Iterator[Hypothesis]:
    """Yield tables of a row a detection, by the published orders of their columns."""
    orders = (
        {6: ((0, 4, 5, "a list of boxes"), (2, 1, 0, "paddle"))}
        if end.shape[1] == 6
        else {7: ((1, 6, 5, "yolov7, suppressed"), (3, 2, 1, "ssd, suppressed"))}
    )
    rows = np.asarray(end.values, np.float64).reshape(-1, end.shape[1])
    rows = rows[np.isfinite(rows).all(axis=1)]
    for start, score, label, family in next(iter(orders.values())):
        case = Case()
        _judge_table(case, end, rows, score, label)
        boxes = rows[:, start : start + 4]
        case.when(_proper(boxes) > 0.9, FAIR, "the first corner lies before the second")
        layout = RowsLayout(
            image,
            Columns(end.name, start, start + 4),
            Columns(end.name, score, score + 1),
            Coding.CORNERS,
            unit=bool(boxes.size) and float(np.abs(boxes).max()) <= _UNIT_LIMIT,
            classes=Columns(end.name, label, label + 1),
            suppressed=True,
        )
        roles = {end.name: OutputRole.COMBINED}
        counts = [other.name for other in ends.outputs if other is not end and _is_count(other)]
        roles.update(dict.fromkeys(counts[:1], OutputRole.COUNT))
        yield Hypothesis.of(case, Kind.DETECTION, family, roles, layout)


def _judge_table(case: Case, end: End, rows: Floats, score: int, label: int) -> None:
    case.when(end.ragged, STRONG, f"'{end.name}' has as many rows as there are detections")
    found = sorted(end.tail.operators & _SUPPRESSION)
    case.when(bool(found), STRONG, f"{', '.join(found)} before '{end.name}'")
    if not len(rows):
        return
    labels, scores = rows[:, label], rows[:, score]
    whole = bool(np.equal(labels, np.rint(labels)).all()) and float(labels.min()) >= -1
    case.add(STRONG if whole else -DECISIVE, f"column {label} holds {'' if whole else 'no '}whole numbers")
    bounded = float(scores.min()) >= -1.0 and float(scores.max()) <= 1.001
    case.add(FAIR if bounded else -DECISIVE, f"column {score} {'stays in' if bounded else 'leaves'} 0..1")
    varied = bool(np.equal(scores, np.rint(scores)).all()) and len(rows) > 1
    case.when(varied, -FAIR, f"column {score} holds whole numbers only")


def _with_boxes(ends: Ends, boxes: End, image: tuple[int, int]) -> Iterator[Hypothesis]:
    """Yield boxes with scores, and classes, in outputs of their own."""
    others = [end for end in ends.outputs if end is not boxes and end.shape[:1] == boxes.shape[:1]]
    for scores in others:
        if scores.rank == 2 and scores.shape[1] >= 1 and not scores.integer:
            # Nobody asks as many queries: without a graph it is the number of rows that tells a grid from them.
            grid = "Conv" in boxes.tail.operators or boxes.shape[0] > _MOST_ROWS
            yield _queries(boxes, scores, image, grid=grid)
        if scores.rank != 1 or scores.integer:
            continue
        labels = [end for end in others if end is not scores and end.rank == 1 and end.whole]
        yield from (_lists(ends, boxes, scores, classes, image) for classes in labels)
        if not labels:
            yield _lists(ends, boxes, scores, None, image)


def _scored_boxes(ends: Ends, end: End, image: tuple[int, int]) -> Iterator[Hypothesis]:
    """Yield boxes with their scores in one output, and classes in another (MMDeploy, torchvision's successors)."""
    for classes in ends.outputs:
        if classes.rank != 1 or classes.shape != end.shape[:1] or not classes.whole:
            continue
        rows = np.asarray(end.values, np.float64).reshape(-1, 5)
        rows = rows[np.isfinite(rows).all(axis=1)]
        scores = rows[:, 4]
        case = Case()
        case.add(STRONG, f"'{classes.name}' holds a whole number for every row of '{end.name}'")
        case.when(words.named(classes, words.CLASSES), FAIR, f"'{classes.name}' is named as classes are")
        case.when(words.named(end, words.BOXES), FAIR, f"'{end.name}' is named as boxes are")
        case.when(_proper(rows[:, :4]) > 0.9, FAIR, "the first corner lies before the second")
        bounded = bool(scores.size) and float(scores.min()) >= -1e-3 and float(scores.max()) <= 1.001
        case.add(FAIR if bounded else -DECISIVE, f"column 4 {'stays in' if bounded else 'leaves'} 0..1")
        case.when(_falling(end.values[..., 4]), FAIR, "scores fall from row to row")
        selected = sorted(end.tail.operators & _SUPPRESSION)
        case.when(bool(selected), STRONG, f"{', '.join(selected)} before '{end.name}'")
        layout = RowsLayout(
            image,
            Columns(end.name, 0, 4),
            Columns(end.name, 4, 5),
            Coding.CORNERS,
            unit=bool(rows.size) and float(np.abs(rows[:, :4]).max()) <= _UNIT_LIMIT,
            classes=Columns(classes.name),
            suppressed=True,
        )
        roles = {end.name: OutputRole.COMBINED, classes.name: OutputRole.CLASSES, **_masks(ends, end)}
        yield Hypothesis.of(case, Kind.DETECTION, "boxes, suppressed", roles, layout)


def _posed_boxes(ends: Ends, end: End, image: tuple[int, int]) -> Iterator[Hypothesis]:
    """Yield boxes with their scores in one output, and points of each row in another (RTMO, MMDeploy's poses)."""
    for points in ends.outputs:
        if points.rank != 3 or points.shape[0] != end.shape[0] or points.shape[2] not in (2, 3):
            continue
        rows = np.asarray(end.values, np.float64).reshape(-1, 5)
        rows = rows[np.isfinite(rows).all(axis=1)]
        case = Case()
        case.add(STRONG, f"'{points.name}' has {points.shape[1]} points for every row of '{end.name}'")
        case.when(points.shape[1] in counts.POINTS, FAIR, f"{points.shape[1]} points, a usual number")
        case.when(words.named(points, words.LANDMARKS), FAIR, f"'{points.name}' is named as points are")
        case.when(_proper(rows[:, :4]) > _NEARLY_ALL, FAIR, "the first corner lies before the second")
        bounded = bool(rows.size) and float(rows[:, 4].min()) >= -1e-3 and float(rows[:, 4].max()) <= 1.001
        case.add(FAIR if bounded else -DECISIVE, f"column 4 {'stays in' if bounded else 'leaves'} 0..1")
        case.when(_falling(end.values[..., 4]), FAIR, "scores fall from row to row")
        layout = RowsLayout(
            image,
            Columns(end.name, 0, 4),
            Columns(end.name, 4, 5),
            Coding.CORNERS,
            unit=bool(rows.size) and float(np.abs(rows[:, :4]).max()) <= _UNIT_LIMIT,
            activation=Activation.SIGMOID,
            suppressed=True,
        )
        roles = {end.name: OutputRole.COMBINED, points.name: OutputRole.LANDMARKS}
        yield Hypothesis.of(case, Kind.DETECTION, "boxes with points, suppressed", roles, layout)


def _more_of_rows(ends: Ends, boxes: End, taken: Mapping[str, OutputRole]) -> Mapping[str, OutputRole]:
    """Return the outputs that say more of every row: where it was, its scores of all classes, its points."""
    return {
        end.name: OutputRole.SCORES if end.rank == 2 and end.in_unit else OutputRole.LANDMARKS
        for end in ends.outputs
        if end.name not in taken and end.rank in (1, 2, 3) and end.shape[0] == boxes.shape[0]
    }


def _masks(ends: Ends, boxes: End) -> Mapping[str, OutputRole]:
    """Return the outputs that hold a picture for every row of boxes: the masks of what was found."""
    return {
        end.name: OutputRole.MASK
        for end in ends.outputs
        if end.rank in (3, 4) and end.shape[0] == boxes.shape[0] and min(end.shape[-2:]) >= _SMALLEST_MASK
    }


def _falling(scores: NDArray[np.generic]) -> bool:
    """Tell whether scores `[N, K]` never rise from a row to the next, and fall somewhere."""
    steps = np.diff(np.asarray(scores, np.float64), axis=1)
    steps = steps[np.isfinite(steps)]
    return bool(steps.size) and float(steps.max()) <= 0 and float(steps.min()) < 0


def _lists(ends: Ends, boxes: End, scores: End, classes: End | None, image: tuple[int, int]) -> Hypothesis:
    case = Case()
    roles = {boxes.name: OutputRole.BOXES, scores.name: OutputRole.SCORES}
    case.add(FAIR, f"'{boxes.name}' has 4 numbers a row and '{scores.name}' one")
    _judge_names(case, boxes, scores)
    case.when(boxes.ragged, STRONG, f"'{boxes.name}' has as many rows as there are detections")
    operators = boxes.tail.operators | scores.tail.operators
    found = sorted(operators & _SUPPRESSION)
    case.when(bool(found), STRONG, f"{', '.join(found)} before the outputs")
    case.when(scores.in_unit, SLIGHT, f"'{scores.name}' stays in 0..1")
    case.when(_falling(scores.values), FAIR, "scores fall from row to row")
    case.when(not scores.in_unit, -STRONG, f"'{scores.name}' leaves 0..1")
    if classes is not None:
        roles[classes.name] = OutputRole.CLASSES
        case.add(STRONG, f"'{classes.name}' holds a whole number a row")
        case.when(words.named(classes, words.CLASSES), FAIR, f"'{classes.name}' is named as classes are")
    roles.update(_masks(ends, boxes))
    if found and classes is not None:
        roles.update(_more_of_rows(ends, boxes, roles))
    count = next((end for end in ends.outputs if end.name not in roles and _is_count(end)), None)
    if count is not None:
        roles[count.name] = OutputRole.COUNT
        case.add(FAIR, f"'{count.name}' holds one whole number")
    values = np.asarray(boxes.values, np.float64).reshape(-1, 4)
    values = values[np.isfinite(values).all(axis=1)]
    yx = "NonMaxSuppression" in operators and classes is not None and not classes.integer and boxes.in_unit
    layout = RowsLayout(
        image,
        Columns(boxes.name, 0, 4),
        Columns(scores.name),
        Coding.CORNERS_YX if yx else Coding.CORNERS,
        unit=bool(values.size) and float(np.abs(values).max()) <= _UNIT_LIMIT,
        classes=None if classes is None else Columns(classes.name),
        count="" if count is None else count.name,
        suppressed=True,
    )
    return Hypothesis.of(case, Kind.DETECTION, "boxes, suppressed", roles, layout)


def _queries(boxes: End, scores: End, image: tuple[int, int], *, grid: bool) -> Hypothesis:
    case = Case()
    values = np.asarray(boxes.values, np.float64).reshape(-1, 4)
    proper = _proper(values) > _NEARLY_ALL
    sized = proper or float(np.mean((values[:, 2:] >= 0).all(axis=1))) > _NEARLY_ALL
    # Corners of a few objects at the edge lie outside of the picture.
    unit = bool(values.size) and float(np.nanmax(np.abs(values))) <= _UNIT_LIMIT
    case.when(proper, STRONG if unit else FAIR, f"'{boxes.name}' holds corners, the first before the second")
    case.when(not sized, -DECISIVE, f"'{boxes.name}' holds neither corners nor sizes: sides are below 0")
    case.add(FAIR, f"'{boxes.name}' has 4 numbers a row and '{scores.name}' {scores.shape[1]}")
    _judge_names(case, boxes, scores)
    bounded = boxes.in_unit and "Sigmoid" in boxes.tail.activations
    case.when(bounded, FAIR, f"'{boxes.name}' ends in a Sigmoid")
    case.when(not grid, FAIR, "rows come from matrix products, not from convolutions over a grid")
    case.when(boxes.shape[0] in counts.QUERIES, FAIR, f"{boxes.shape[0]} rows, a usual number of queries")
    case.when(boxes.shape[0] == scores.shape[1], -FAIR, "as many rows as classes")
    applied = activation_of(scores, 1)
    last = scores.shape[1] - 1
    background = last if applied is not Activation.SIGMOID and _has_no_object(scores) else None
    layout = RowsLayout(
        image,
        Columns(boxes.name, 0, 4),
        Columns(scores.name, 0, scores.shape[1]),
        Coding.CORNERS if proper else Coding.CENTRE,
        unit=unit,
        activation=applied,
        background=background_index(scores, 1) if background is None and applied is Activation.SOFTMAX else background,
        suppressed=not grid,
    )
    roles = {boxes.name: OutputRole.BOXES, scores.name: OutputRole.SCORES}
    return Hypothesis.of(case, Kind.DETECTION, "rows" if grid else "detr", roles, layout)


def _queries_joined(ends: Ends, end: End, image: tuple[int, int]) -> Hypothesis:
    """Return queries whose boxes and scores are columns of one output."""
    case = Case()
    conv = "Conv" in end.tail.operators
    cuts = end.cuts(1)
    case.when(len(cuts) > 1 and cuts[0] == 4, STRONG, f"4 and {end.shape[1] - 4} columns are joined")
    case.when(not conv, SLIGHT, "rows come from matrix products")
    case.when(end.shape[0] in counts.QUERIES, FAIR, f"{end.shape[0]} rows, a usual number of queries")
    case.when("Sigmoid" in end.tail.activations, FAIR, f"'{end.name}' ends in a Sigmoid")
    case.when(end.tail.activations == {"Softmax"}, -STRONG, f"'{end.name}' ends in a Softmax")
    case.when(ends.image is None, -DECISIVE, "no picture goes in")
    values = np.asarray(end.values, np.float64)[..., :4].reshape(-1, 4)
    layout = RowsLayout(
        image,
        Columns(end.name, 0, 4),
        Columns(end.name, 4, end.shape[1]),
        Coding.CORNERS if _proper(values) > 0.9 else Coding.CENTRE,
        unit=float(np.abs(values).max(initial=0.0)) <= _UNIT_LIMIT,
        activation=activation_of(end, 1, 4, end.shape[1]),
        suppressed=True,
    )
    return Hypothesis.of(case, Kind.DETECTION, "detr", {end.name: OutputRole.COMBINED}, layout)


def _proposals(ends: Ends, end: End) -> Iterator[Hypothesis]:
    """Yield rows that are joined of scores and of what is there, other than a box: lanes by places along them."""
    cuts = end.cuts(1)
    kinds = {
        end.activations(1, start, start + size)
        for start, size in zip(itertools.accumulate((0, *cuts)), cuts, strict=False)
    }
    if ends.image is None or len(cuts) < 2 or 4 in cuts[:1] or len(kinds) < 2:
        return
    case = Case()
    case.add(STRONG, f"every row is joined of {', '.join(map(str, cuts))} numbers")
    case.add(FAIR, "they end in different activations")
    case.when("Conv" not in end.tail.operators, SLIGHT, "rows come from matrix products")
    yield Hypothesis.of(case, Kind.DETECTION, "proposals", {end.name: OutputRole.COMBINED})


def _judge_names(case: Case, boxes: End, scores: End) -> None:
    case.when(words.named(boxes, words.BOXES), FAIR, f"'{boxes.name}' is named as boxes are")
    case.when(words.named(scores, words.SCORES), FAIR, f"'{scores.name}' is named as scores are")
    case.when(words.named(scores, words.BOXES), -STRONG, f"'{scores.name}' is named as boxes are")
    case.when(words.named(boxes, words.LANDMARKS), -FAIR, f"'{boxes.name}' is named as points are")


def _has_no_object(scores: End) -> bool:
    """Tell whether the last class wins most rows, as `no object` does with queries."""
    best = np.asarray(scores.values).argmax(axis=2)
    return float(np.mean(best == scores.shape[1] - 1)) > 0.5


def _is_count(end: End) -> bool:
    return int(np.prod(end.shape)) == 1 and end.whole


def _proper(boxes: Floats) -> float:
    """Return the share of boxes whose first corner lies before the second."""
    if not len(boxes):
        return 0.0
    return float(np.mean((boxes[:, 2] >= boxes[:, 0]) & (boxes[:, 3] >= boxes[:, 1])))
