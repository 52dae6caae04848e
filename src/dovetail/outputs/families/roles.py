"""Which channels of a place say what: boxes, scores, objectness, landmarks."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dovetail.outputs.evidence import FAIR, SLIGHT, STRONG, Case
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.sights import Sight
from dovetail.outputs.layouts import Form
from dovetail.outputs.view import OutputRole

BINS = (16, 8, 17, 32)
"""Numbers of bins of a distance's distribution: YOLOv8's, NanoDet's, generalised focal loss's."""

_LANDMARKS = (10, 8, 12, 14, 34, 51, 15, 136, 63)
_BOXES_AND_POINTS = (12, 14, 16, 18, 38)
"""Channels of a box and four to seven, or seventeen, points after it (MediaPipe's detectors)."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Channels `start` to `stop` of the `width` channels that one place has in output number `column` of a level."""

    column: int
    start: int
    stop: int
    width: int


@dataclass(frozen=True, slots=True)
class RoleAssignment:
    """A role for stretches of channels, and what speaks for it."""

    anchors: int
    """Places of a cell that the channels hold."""
    roles: Mapping[OutputRole, Stretch]
    bins: int
    """Bins of each distance's distribution; 0 where a box is four numbers."""
    case: Case


def assignments(
    rows: Sequence[Sequence[Sight]], anchors: int, weights: Collection[int] = ()
) -> Iterator[RoleAssignment]:
    """Yield the ways to give roles to the outputs of all levels, for a number of anchors that channels hold.

    `weights` are the numbers of prototypes of masks that there are.

    Every level must have the same channels a place; outputs of different levels are paired in their order.
    """
    widths = [_widths(row, anchors) for row in rows]
    if any(width is None for width in widths) or len(set(widths)) != 1:
        return
    signature = widths[0] or ()
    if len(signature) == 1:
        yield from _combined(rows, signature[0], anchors, weights)
    else:
        yield from _separate(rows[0], signature, anchors, weights)


def _widths(row: Sequence[Sight], anchors: int) -> tuple[int, ...] | None:
    """Return the channels of a place in each output, or None where channels are no multiple of the anchors."""
    if any(sight.channels % anchors for sight in row):
        return None
    return tuple(sight.channels // anchors for sight in row)


def _separate(
    row: Sequence[Sight], signature: Sequence[int], anchors: int, weights: Collection[int]
) -> Iterator[RoleAssignment]:
    """Yield assignments where boxes and scores are outputs of their own."""
    columns = range(len(signature))
    for box, score in itertools.permutations(columns, 2):
        bins = _bins_of(signature[box])
        if bins is None:
            continue
        case = Case()
        roles = {OutputRole.BOXES: _box(box, signature), OutputRole.SCORES: _whole(score, signature)}
        if signature[box] in _BOXES_AND_POINTS:
            roles[OutputRole.LANDMARKS] = Stretch(box, 4, signature[box], signature[box])
        _judge_box(case, row[box], bins)
        _judge_score(case, row[score], signature[score])
        rest = [column for column in columns if column not in (box, score)]
        for column in rest:
            role = _role_of_rest(case, row[column], signature[column], weights)
            if role in roles and role is not OutputRole.UNKNOWN:
                case.add(-STRONG, f"two outputs could be {role.value}")
            roles[role] = _whole(column, signature)
        yield RoleAssignment(anchors, roles, bins, case)


def _whole(column: int, signature: Sequence[int]) -> Stretch:
    return Stretch(column, 0, signature[column], signature[column])


def _box(column: int, signature: Sequence[int]) -> Stretch:
    """Return the stretch of a box: all channels, or the first four where landmarks follow."""
    width = signature[column]
    return Stretch(column, 0, 4 if width in _BOXES_AND_POINTS else width, width)


def _bins_of(width: int) -> int | None:
    """Return 0 for four numbers, landmarks after them or not, the bins for four distributions, None for neither."""
    if width == 4 or width in _BOXES_AND_POINTS:
        return 0
    return next((bins for bins in BINS if width == 4 * bins), None)


def _judge_box(case: Case, sight: Sight, bins: int) -> None:
    name = sight.end.name
    if bins:
        case.add(FAIR, f"'{name}' has 4 x {bins} channels a place")
    elif sight.channels in _BOXES_AND_POINTS:
        case.add(FAIR, f"'{name}' has {sight.channels} a place, as a box and points have")
    else:
        case.add(STRONG, f"'{name}' has 4 a place")
    case.when(words.named(sight.end, words.BOXES), FAIR, f"'{name}' is named as boxes are")
    case.when(words.named(sight.end, (*words.SCORES, *words.LANDMARKS)), -STRONG, f"'{name}' is not named as boxes are")
    applied = sight.end.activations(sight.axis)
    case.when(applied == {"Softmax"}, -STRONG, f"'{name}' ends in a Softmax")
    case.when(sight.end.in_unit and applied == {"Sigmoid"}, -FAIR, f"'{name}' ends in a Sigmoid")
    case.when(not sight.end.in_unit, SLIGHT, f"'{name}' leaves 0..1")


def _judge_score(case: Case, sight: Sight, classes: int) -> None:
    name = sight.end.name
    case.when(words.named(sight.end, words.SCORES), FAIR, f"'{name}' is named as scores are")
    case.when(words.named(sight.end, words.CLASSES), SLIGHT, f"'{name}' is named as classes are")
    case.when(words.named(sight.end, (*words.BOXES, *words.LANDMARKS)), -STRONG, f"'{name}' is not named as scores are")
    case.when(words.named(sight.end, words.OBJECTNESS), -SLIGHT, f"'{name}' is named as objectness is")
    applied = sight.end.activations(sight.axis)
    case.when(bool(applied & {"Sigmoid", "Softmax"}), FAIR, f"'{name}' ends in {', '.join(sorted(applied - {''}))}")
    case.when(classes in counts.OBJECTS, SLIGHT, f"'{name}' has {classes} classes, a usual number")


def _role_of_rest(case: Case, sight: Sight, width: int, weights: Collection[int]) -> OutputRole:
    end = sight.end
    if width == 1:
        if words.named(end, words.CENTRENESS):
            case.add(FAIR, f"'{end.name}' is named as centreness is")
            return OutputRole.CENTRENESS
        if "ReduceSum" in end.tail.operators:
            case.add(FAIR, f"'{end.name}' sums scores")
            return OutputRole.SCORE_SUM
        case.when(words.named(end, words.OBJECTNESS), FAIR, f"'{end.name}' is named as objectness is")
        case.add(SLIGHT, f"'{end.name}' has one channel, as objectness has")
        return OutputRole.OBJECTNESS
    if words.named(end, words.LANDMARKS) and (width % 2 == 0 or width % 3 == 0):
        case.add(FAIR, f"'{end.name}' is named as landmarks are")
        return OutputRole.LANDMARKS
    if width in _LANDMARKS:
        case.add(SLIGHT, f"'{end.name}' has {width} channels, as landmarks have")
        return OutputRole.LANDMARKS
    if width in weights:
        return OutputRole.COEFFICIENTS
    case.add(-FAIR, f"'{end.name}' with {width} channels has no part in it")
    return OutputRole.UNKNOWN


def _combined(
    rows: Sequence[Sequence[Sight]], width: int, anchors: int, weights: Collection[int]
) -> Iterator[RoleAssignment]:
    """Yield assignments where one output holds boxes and scores."""
    sight = rows[0][0]
    cuts = _periodic(sight, width, anchors)
    for names, sizes, bins in _splits(width, weights):
        starts = [0, *itertools.accumulate(sizes)]
        roles = {
            role: Stretch(0, start, start + size, width)
            for role, start, size in zip(names, starts, sizes, strict=False)
        }
        case = Case()
        classes = roles[OutputRole.SCORES].stop - roles[OutputRole.SCORES].start
        case.when(classes in counts.OBJECTS, SLIGHT, f"{classes} classes, a usual number")
        _judge_cuts(case, cuts, starts, sizes)
        _judge_channels(case, sight, roles, anchors)
        _judge_order(case, sight, OutputRole.OBJECTNESS in roles, anchors)
        yield RoleAssignment(anchors, roles, bins, case)


_Split = tuple[tuple[OutputRole, ...], tuple[int, ...], int]


def _splits(width: int, weights: Collection[int]) -> Iterator[_Split]:
    """Yield roles, sizes and bins: published orders of the channels of one place."""
    if width > 5:
        yield (OutputRole.BOXES, OutputRole.OBJECTNESS, OutputRole.SCORES), (4, 1, width - 5), 0
        yield (OutputRole.OBJECTNESS, OutputRole.BOXES, OutputRole.SCORES), (1, 4, width - 5), 0
        yield (OutputRole.SCORES, OutputRole.BOXES), (width - 4, 4), 0
    if width > 4:
        yield (OutputRole.BOXES, OutputRole.SCORES), (4, width - 4), 0
    for bins in BINS:
        if width > 4 * bins:
            yield (OutputRole.BOXES, OutputRole.SCORES), (4 * bins, width - 4 * bins), bins
            yield (OutputRole.SCORES, OutputRole.BOXES), (width - 4 * bins, 4 * bins), bins
    if width > 16:
        yield (
            (OutputRole.BOXES, OutputRole.OBJECTNESS, OutputRole.LANDMARKS, OutputRole.SCORES),
            (4, 1, 10, width - 15),
            0,
        )
    if width == 16:
        yield (OutputRole.BOXES, OutputRole.OBJECTNESS, OutputRole.LANDMARKS, OutputRole.SCORES), (4, 1, 10, 1), 0
    for masks in weights:
        box, there, score = OutputRole.BOXES, OutputRole.OBJECTNESS, OutputRole.SCORES
        if width > 4 + masks:
            yield (box, score, OutputRole.COEFFICIENTS), (4, width - 4 - masks, masks), 0
        if width > 5 + masks:
            yield (box, there, score, OutputRole.COEFFICIENTS), (4, 1, width - 5 - masks, masks), 0
    for points in (34, 51, 10, 15):
        if width in (5 + points, 6 + points):
            yield (OutputRole.BOXES, OutputRole.SCORES, OutputRole.LANDMARKS), (4, width - 4 - points, points), 0


def _periodic(sight: Sight, width: int, anchors: int) -> tuple[int, ...]:
    """Return the cuts of one place's channels, where those of all anchors are alike; else the whole width."""
    cuts = sight.end.cuts(sight.axis)
    if anchors == 1:
        return cuts
    share = len(cuts) // anchors
    alike = len(cuts) % anchors == 0 and share > 0 and cuts == cuts[:share] * anchors
    return cuts[:share] if alike and sum(cuts[:share]) == width else (width,)


def _judge_cuts(case: Case, cuts: tuple[int, ...], starts: Sequence[int], sizes: Sequence[int]) -> None:
    """Weigh whether a Concat has put the parts together where their roles meet."""
    if len(cuts) < 2:
        return
    edges = set(itertools.accumulate(cuts))
    inner = set(starts[1 : len(sizes)])
    hit = inner & edges
    if inner <= edges:
        case.add(STRONG, f"parts of {', '.join(map(str, sizes))} channels are joined")
    elif hit:
        case.add(FAIR, f"a part ends after channel {min(hit)}")
    else:
        case.add(-STRONG, f"parts of {', '.join(map(str, cuts))} channels are joined")


def _judge_channels(case: Case, sight: Sight, roles: Mapping[OutputRole, Stretch], anchors: int) -> None:
    """Weigh the activations of the stretches, and their values."""
    if anchors > 1:
        return
    end, axis = sight.end, sight.axis
    scores, boxes = roles[OutputRole.SCORES], roles[OutputRole.BOXES]
    on_scores, on_boxes = (end.activations(axis, part.start, part.stop) for part in (scores, boxes))
    case.when(bool(on_scores & {"Sigmoid", "Softmax"}), FAIR, "scores end in a Sigmoid or Softmax")
    differ = bool(on_scores) and on_scores != on_boxes
    case.when(differ, FAIR, "boxes and scores end in different activations")
    place = [end.activations(axis, index, index + 1) for index in (boxes.start, boxes.start + 1)]
    case.when(place[0] != place[1], -STRONG, "the two numbers of a place end in different activations")
    there = roles.get(OutputRole.OBJECTNESS)
    plain = there is not None and bool(on_scores - {""}) and not end.activations(axis, there.start, there.stop) - {""}
    case.when(plain, -FAIR, "scores end in an activation, objectness in none")
    marks = roles.get(OutputRole.LANDMARKS)
    shared = marks is not None and "Softmax" in end.activations(axis, marks.start, marks.stop)
    case.when(shared, -STRONG, "landmarks end in a Softmax")
    distinct = end.decoded(axis, boxes.start, boxes.stop) and not end.decoded(axis, scores.start, scores.stop)
    case.when(distinct, FAIR, "boxes are decoded by arithmetic, scores are not")
    bounded = _within_unit(sight, scores)
    case.when(not bounded and bool(on_scores & {"Sigmoid", "Softmax"}), -STRONG, "scores leave 0..1")
    case.when(bounded and not _within_unit(sight, boxes), SLIGHT, "scores stay in 0..1 and boxes do not")


def _within_unit(sight: Sight, part: Stretch) -> bool:
    values = sight.end.values.take(range(part.start, part.stop), axis=sight.axis + 1)
    return bool(values.size) and float(values.min()) >= -1e-3 and float(values.max()) <= 1.001


def _judge_order(case: Case, sight: Sight, has_objectness: bool, anchors: int) -> None:
    """Weigh a habit: channels in front of places come without objectness (YOLOv8 and later), else with it."""
    if sight.form is Form.CP:
        case.add(-SLIGHT if has_objectness else SLIGHT, "channels come before places")
    elif has_objectness and sight.form is Form.PC:
        case.add(SLIGHT, "places come before channels")
    case.when(has_objectness and anchors == 3, FAIR, "three anchors a cell, with objectness")
    case.when(not has_objectness and anchors == 3, -SLIGHT, "three anchors a cell, without objectness")
