"""Detectors that say something of every place of their grids.

Anchors (YOLOv3, v5, v7, SSD), grids (YOLOX, FastestDet, YuNet), distributions of distances (YOLOv8 and later, NanoDet),
several maps a stride (SCRFD, RetinaFace, FCOS); raw or decoded, all levels joined or each in outputs of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dovetail.facts.darknet import anchor_facts
from dovetail.outputs.decode.planes import Arrays
from dovetail.outputs.decode.scores import place_scores
from dovetail.outputs.ends import Ends, ImageInput
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families.activated import activation_of, background_of
from dovetail.outputs.families.anchors import usual_anchors
from dovetail.outputs.families.coding import agreeing_coding, decoded_coding, has_plain_sizes
from dovetail.outputs.families.maps import maps_of
from dovetail.outputs.families.roles import RoleAssignment, Stretch, assignments
from dovetail.outputs.families.sights import Sight, Stack, stacks
from dovetail.outputs.layouts import Activation, Coding, DenseLayout, LayoutPart, Level, Plane
from dovetail.outputs.places import rarity_db
from dovetail.outputs.view import Kind, OutputRole

_ANCHORS = (1, 2, 3, 4, 5, 6, 9)
_FEWEST_PROTOTYPES = 8
_MANY_PLACES = 200
"""As many places are no accident in the shape of another output."""
_MOST_NUMBERS = 200
"""Numbers of a place's points, at most."""
_BARE = frozenset({Coding.DISTANCES, Coding.GRID_EXP, Coding.GRID_SIGMOID})
"""Codings that the grid alone gives a meaning to."""
_FACES = 0.5
"""The score from which InsightFace's `det_thresh` and MediaPipe's `min_score_thresh` count faces, palms and people."""
_SELECTION = frozenset({"NonMaxSuppression", "TopK"})

Codings = tuple[tuple[Coding, float], ...]
"""Ways to read a box, each with the reference point of a cell; the first one is usual."""


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which outputs are a dense detector."""
    arrays = {end.name: end.values for end in ends.outputs}
    prototypes = _prototypes(ends)
    for stack in stacks(ends):
        best: tuple[Hypothesis, Codings] | None = None
        own = {sight.end.name for row in stack.rows for sight in row}
        weights = {count for count, name in prototypes.items() if name not in own}
        for found, levels in _readings(stack, weights):
            bare, codings = _hypothesis(ends, stack, levels, found, arrays)
            hypothesis = _with_prototypes(bare, found, prototypes)
            hypothesis = _with_points(hypothesis, ends, levels)
            if best is None or hypothesis.weight > best[0].weight:
                best = hypothesis, codings
        if best is not None:
            yield _agreed(*best, arrays)


def _agreed(hypothesis: Hypothesis, codings: Codings, arrays: Arrays) -> Hypothesis:
    """Return the hypothesis with the coding on which neighbours agree: it says nothing for or against a detector."""
    layout = hypothesis.layout
    if len(codings) < 2 or not isinstance(layout, DenseLayout):
        return hypothesis
    return replace(hypothesis, layout=agreeing_coding(layout, arrays, codings))


def _readings(stack: Stack, weights: Collection[int]) -> Iterator[tuple[RoleAssignment, tuple[Level, ...]]]:
    """Yield roles with the levels that they imply: channels may hold several anchors where the shape has no axis.

    A place may have as many weights of masks as there are in `weights`.
    """
    if stack.together or stack.anchors_known:
        for found in assignments(stack.rows, 1, weights):
            yield found, stack.levels
        return
    for anchors in _ANCHORS:
        levels = tuple(replace(level, anchors=anchors) for level in stack.levels)
        for found in assignments(stack.rows, anchors, weights):
            yield found, levels


def _with_points(hypothesis: Hypothesis, ends: Ends, levels: tuple[Level, ...]) -> Hypothesis:
    """Return the hypothesis with the outputs that say more of as many places: points, or the angles of boxes."""
    places = sum(level.places for level in levels)
    cells = sum(level.rows * level.cols for level in levels)
    if len(levels) < 2 and places < _MANY_PLACES:
        return hypothesis
    more = [
        end.name
        for end in ends.outputs
        if end.name not in hypothesis.roles
        and not {places, cells}.isdisjoint(end.shape)
        and int(np.prod(end.shape)) // max(end.shape) <= _MOST_NUMBERS
        and ((end.rank == 3 and min(end.shape) <= 3) or (end.rank <= 2 and int(np.prod(end.shape)) == max(end.shape)))
    ]
    return replace(hypothesis, roles={**hypothesis.roles, **dict.fromkeys(more, OutputRole.LANDMARKS)})


def _prototypes(ends: Ends) -> Mapping[int, str]:
    """Return the outputs that may be prototypes of masks, by the number of their maps on one fine grid."""
    image = ends.image
    found: dict[int, str] = {}
    for end in ends.outputs:
        for item in maps_of(end, image) if image is not None else ():
            if 2 <= item.stride <= 8 and item.channels >= _FEWEST_PROTOTYPES and item.channel_axis is not None:
                found[item.channels] = end.name
    return found


def _with_prototypes(hypothesis: Hypothesis, found: RoleAssignment, prototypes: Mapping[int, str]) -> Hypothesis:
    """Return the hypothesis with the prototypes of masks that its places have weights of."""
    stretch = found.roles.get(OutputRole.COEFFICIENTS)
    name = None if stretch is None else prototypes.get(stretch.stop - stretch.start)
    if stretch is None or name is None or name in hypothesis.roles:
        return hypothesis
    reason = f"'{name}' has {stretch.stop - stretch.start} maps, one for each weight of a place"
    return replace(
        hypothesis,
        roles={**hypothesis.roles, name: OutputRole.PROTOTYPES},
        weight=hypothesis.weight + STRONG,
        reasons=(reason, *hypothesis.reasons),
    )


def _hypothesis(
    ends: Ends, stack: Stack, levels: tuple[Level, ...], found: RoleAssignment, arrays: Arrays
) -> tuple[Hypothesis, Codings]:
    """Return a reading with the first of the codings that are possible, and these; none where only one is."""
    case = Case(list(found.case.findings))
    _judge_places(case, stack, levels, found, ends.image)
    layout = _layout(ends, stack, levels, found, arrays)
    decoded_layout = None if found.bins else decoded_coding(layout, arrays)
    decoded = decoded_layout is not None
    codings: Codings = ()
    if decoded_layout is not None:
        family, layout = _decoded_family(decoded_layout, max(level.anchors for level in levels)), decoded_layout
    else:
        family, layout, codings = _family(layout, found, _sizes_applied(stack, found))
        if layout.coding in _BARE and has_plain_sizes(layout, arrays):
            layout, codings = replace(layout, coding=Coding.CENTRE), ()
            family = _decoded_family(layout, anchors=1)
    layout = _with_own_anchors(ends, stack, layout)
    case.when(decoded, STRONG, "decoded boxes lie at their cells")
    alone = bool(found.bins) and not stack.together and len(levels) == 1
    case.when(alone, -STRONG, "distributions of distances on one grid only, where designs have several")
    case.when(_sparse(layout, arrays), FAIR, "scores are low nearly everywhere and high at few places")
    blind = len(found.roles) == 1 or len({stretch.column for stretch in found.roles.values()}) == 1
    uniform = blind and found.anchors == 1 and len(stack.rows[0][0].end.cuts(stack.rows[0][0].axis)) == 1
    case.when(uniform and not decoded, -STRONG, "nothing in the output tells boxes from scores")
    used = [stack.rows[0][stretch.column].end for stretch in found.roles.values()]
    case.when(all(ends.flat(end) for end in used), -STRONG, "every number is made of the whole picture")
    selected = sorted({name for end in used for name in end.tail.operators & _SELECTION})
    case.when(bool(selected), -STRONG, f"{', '.join(selected)} has picked out the places")
    roles = _roles(stack, found)
    return Hypothesis.of(case, Kind.DETECTION, family, roles, layout), codings


def _judge_places(
    case: Case, stack: Stack, levels: tuple[Level, ...], found: RoleAssignment, image: ImageInput | None
) -> None:
    strides = ", ".join(f"{level.stride_x:g}" for level in levels)
    places = sum(level.places for level in levels)
    if stack.together and len(levels) > 1 and stack.by_parts:
        case.add(DECISIVE, f"parts of the places are those of grids of strides {strides}")
    elif stack.together and image is not None:
        grids = "grids" if len(levels) > 1 else "one grid"
        weight = rarity_db(places, image) * (1.0 if len(levels) > 1 else 0.5)
        case.add(weight, f"{places} places are those of {grids} of stride {strides}")
    elif len(levels) > 1:
        sights = len(stack.rows[0])
        weight = DECISIVE if sights > 1 else STRONG
        case.add(weight, f"the same {sights} outputs on grids of strides {strides}")
    else:
        case.when(levels[0].stride_x >= 8, SLIGHT, f"a grid of stride {strides}")
        case.when(levels[0].stride_x <= 4, -FAIR, f"a grid as fine as stride {strides}")
    case.when(found.anchors in (1, 3), SLIGHT, f"{found.anchors} a cell, a usual number")


def _sparse(layout: DenseLayout, arrays: Arrays) -> bool:
    """Tell whether most places see nothing and some see something, as in a trained detector."""
    count = min(4, len(next(iter(arrays.values()))))
    best = np.concatenate([place_scores(layout, arrays, index).max(axis=1) for index in range(count)])
    return float(np.median(best)) < 0.1 and float(best.max()) > 0.3


def _layout(ends: Ends, stack: Stack, levels: tuple[Level, ...], found: RoleAssignment, arrays: Arrays) -> DenseLayout:
    image = ends.image
    size = (0, 0) if image is None else (image.rows, image.cols)
    parts = {
        role: _part(stack, levels, stretch, box=role is OutputRole.BOXES and not found.bins)
        for role, stretch in found.roles.items()
    }
    objectness = parts.get(OutputRole.OBJECTNESS) or parts.get(OutputRole.CENTRENESS)
    scores = parts[OutputRole.SCORES]
    background = None if objectness is not None else background_of(scores, arrays)
    return DenseLayout(
        image=size,
        levels=levels,
        scores=scores,
        boxes=parts[OutputRole.BOXES],
        coding=Coding.DISTRIBUTION if found.bins else Coding.UNKNOWN,
        objectness=objectness,
        geometric=OutputRole.CENTRENESS in parts or _is_yunet(found),
        background=background,
        landmarks=parts.get(OutputRole.LANDMARKS),
    )


def _is_yunet(found: RoleAssignment) -> bool:
    """Tell whether score and objectness are joined as YuNet does it: both with landmarks, in outputs of their own."""
    apart = found.roles[OutputRole.SCORES].column != found.roles[OutputRole.BOXES].column
    return apart and OutputRole.OBJECTNESS in found.roles and OutputRole.LANDMARKS in found.roles


def _part(stack: Stack, levels: tuple[Level, ...], stretch: Stretch, *, box: bool) -> LayoutPart:
    """Return where the channels of one role are, and what has been applied to them."""
    if stack.together:
        sights: Sequence[Sight] = (stack.rows[0][stretch.column],)
        planes: tuple[Plane, ...] = (sights[0].plane(levels, stretch.start, stretch.stop, stretch.width),)
    else:
        sights = [row[stretch.column] for row in stack.rows]
        planes = tuple(
            sight.plane((level,), stretch.start, stretch.stop, stretch.width)
            for sight, level in zip(sights, levels, strict=True)
        )
    # The channels of the first anchor stand for those of all; of a box the two numbers of its centre do.
    first, stop = sights[0], stretch.start + 2 if box else stretch.stop
    return LayoutPart(planes, activation_of(first.end, first.axis, stretch.start, stop))


def _roles(stack: Stack, found: RoleAssignment) -> dict[str, OutputRole]:
    """Return the role of every output of the head."""
    by_column: dict[int, set[OutputRole]] = {}
    for role, stretch in found.roles.items():
        by_column.setdefault(stretch.column, set()).add(role)
    return {
        row[column].end.name: next(iter(roles)) if len(roles) == 1 else OutputRole.COMBINED
        for row in stack.rows
        for column, roles in by_column.items()
    }


def _sizes_applied(stack: Stack, found: RoleAssignment) -> Activation:
    """Return what has been applied to the width and height of a box."""
    stretch = found.roles[OutputRole.BOXES]
    sight = stack.rows[0][stretch.column]
    return activation_of(sight.end, sight.axis, stretch.start + 2, stretch.start + 4)


def _family(layout: DenseLayout, found: RoleAssignment, sizes: Activation) -> tuple[str, DenseLayout, Codings]:
    """Return the published design of boxes that the model does not decode, its layout, and how they may be coded."""
    anchors = max(level.anchors for level in layout.levels)
    if found.bins:
        centres = (0.5, 0.0) if found.bins == 16 else (0.0, 0.5)
        return _coded(
            layout, "yolov8" if found.bins == 16 else "nanodet", *((Coding.DISTRIBUTION, at) for at in centres)
        )
    if OutputRole.OBJECTNESS in found.roles and anchors == 1:
        first = found.roles[OutputRole.OBJECTNESS].start == 0 and found.roles[OutputRole.BOXES].start == 1
        sigmoid, exp = (Coding.GRID_SIGMOID, 0.0), (Coding.GRID_EXP, 0.0)
        if first:
            return _coded(layout, "fastestdet", sigmoid, exp)
        return _coded(layout, "yunet" if OutputRole.LANDMARKS in found.roles else "yolox", exp, sigmoid)
    if OutputRole.OBJECTNESS in found.roles:
        return "yolo with anchors", _with_usual_anchors(layout, _anchor_coding(layout, sizes)), ()
    if layout.background is not None and anchors > 1:
        family = "retinaface" if OutputRole.LANDMARKS in found.roles else "ssd"
        return family, _with_usual_anchors(layout, Coding.PRIORS), ()
    middle, corner, exp = (Coding.DISTANCES, 0.5), (Coding.DISTANCES, 0.0), (Coding.GRID_EXP, 0.0)
    if OutputRole.CENTRENESS in found.roles:
        return _coded(layout, "fcos", middle, corner, exp)
    if _points_follow(found):
        return _coded(replace(layout, threshold=_FACES), "mediapipe", (Coding.PIXELS, 0.5))
    if OutputRole.LANDMARKS in found.roles:
        return _coded(replace(layout, threshold=_FACES), "scrfd", corner, middle, exp)
    if anchors > 1:
        return "anchors", _with_usual_anchors(layout, Coding.PRIORS), ()
    return _coded(layout, "grid", middle, corner, exp)


def _points_follow(found: RoleAssignment) -> bool:
    """Tell whether one output holds box and points of a place, and another its one score: MediaPipe's detectors."""
    box, points, score = (found.roles.get(role) for role in (OutputRole.BOXES, OutputRole.LANDMARKS, OutputRole.SCORES))
    if box is None or points is None or score is None:
        return False
    return points.column == box.column != score.column and score.width == 1


def _coded(layout: DenseLayout, family: str, *codings: tuple[Coding, float]) -> tuple[str, DenseLayout, Codings]:
    """Return a design whose boxes may be coded in several ways, read in the first."""
    coding, centre = codings[0]
    return family, replace(layout, coding=coding, centre=centre), codings


def _with_usual_anchors(layout: DenseLayout, coding: Coding) -> DenseLayout:
    anchors = usual_anchors(coding, layout.levels, layout.image)
    return replace(layout, coding=coding, anchors=anchors, anchors_assumed=True)


def _with_own_anchors(ends: Ends, stack: Stack, layout: DenseLayout) -> DenseLayout:
    """Return the layout with the anchors that the model's file lists, where it does so for every level."""
    producers = {} if ends.graph is None else ends.graph.producers
    makers = [producers.get(row[0].end.name) for row in stack.rows]
    listed = tuple(() if maker is None else anchor_facts(maker) for maker in makers)
    fitting = all(len(sizes) == level.anchors for sizes, level in zip(listed, layout.levels, strict=False))
    if not layout.anchors or len(listed) != len(layout.levels) or not fitting:
        return layout
    return replace(layout, anchors=listed, anchors_assumed=False)


def _decoded_family(layout: DenseLayout, anchors: int) -> str:
    if layout.background is not None:
        return "ssd, decoded"
    if anchors == 1:
        return "grid with objectness, decoded" if layout.objectness is not None else "grid, decoded"
    return "anchors, decoded"


def _anchor_coding(layout: DenseLayout, sizes: Activation) -> Coding:
    """Return how boxes refer to anchors: YOLOv3 takes the Sigmoid of the centre only, YOLOv5 of the size as well.

    Where nothing has been applied, both are possible; YOLOv5 and v7 are exported so more often.
    """
    centre = Activation.NONE if layout.boxes is None else layout.boxes.activation
    only_centre = centre is Activation.SIGMOID and sizes is Activation.NONE
    return Coding.ANCHORS_V3 if only_centre else Coding.ANCHORS_V5
