"""Boxes in space, said of every cell of one plane: PointPillars' anchors and CenterPoint's centres."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dovetail.outputs.ends import Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.maps import Map, maps_of
from dovetail.outputs.view import Kind, OutputRole

_NUMBERS = 7
"""Of a box in space: its place, its size, and its turn."""
_DIRECTIONS = 2
_ANCHORS = (2, 4, 6, 8, 10)
_PARTS = Counter((2, 1, 3, 2))
"""Channels of offset, height, size, and sine and cosine of the turn."""


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the outputs on one grid that are boxes in space, of anchors or of centres."""
    image = ends.image
    grids: dict[tuple[int, int, int | None], list[Map]] = {}
    for end in ends.outputs:
        for found in maps_of(end, image) if image is not None and not end.integer else ():
            grids.setdefault((found.rows, found.cols, found.channel_axis), []).append(found)
    for same in grids.values():
        if len(same) == 3:
            yield from _anchors(same)
        if len(same) in (5, 6):
            yield from _centres(same)


def _anchors(same: Sequence[Map]) -> Iterator[Hypothesis]:
    """Yield the maps of scores, boxes and directions of some anchors a cell."""
    by_count = {item.channels: item for item in same}
    for anchors in _ANCHORS:
        boxes, turns = by_count.get(_NUMBERS * anchors), by_count.get(_DIRECTIONS * anchors)
        scores = next((item for item in same if item not in (boxes, turns) and item.channels % anchors == 0), None)
        if boxes is None or turns is None or scores is None:
            continue
        case = Case()
        case.add(
            DECISIVE, f"three maps of one grid have {_NUMBERS}, {_DIRECTIONS} and some numbers for {anchors} anchors"
        )
        case.when(words.named(boxes.end, words.BOXES), FAIR, f"'{boxes.end.name}' is named as boxes are")
        case.when(words.named(scores.end, words.SCORES), FAIR, f"'{scores.end.name}' is named as scores are")
        roles = {scores.end.name: OutputRole.SCORES, boxes.end.name: OutputRole.BOXES}
        yield Hypothesis.of(case, Kind.DETECTION, "anchors in space", {**roles, turns.end.name: OutputRole.OFFSETS})


def _centres(same: Sequence[Map]) -> Iterator[Hypothesis]:
    """Yield a map of centres with offset, height, size and turn, a speed beside them or not."""
    for heat in same:
        rest = [item for item in same if item is not heat]
        found = Counter(item.channels for item in rest)
        if found not in (_PARTS, _PARTS + Counter((2,))):
            continue
        case = Case()
        case.add(DECISIVE, "maps of one grid have the numbers of offset, height, size and turn")
        case.add(STRONG, f"'{heat.end.name}' is the only map beside them")
        case.when(heat.channels in counts.OBJECTS, SLIGHT, f"{heat.channels} classes, a usual number")
        case.when(words.named(heat.end, words.HEATMAP), STRONG, f"'{heat.end.name}' is named as maps of centres are")
        case.when(heat.activations == {"Sigmoid"}, FAIR, f"'{heat.end.name}' ends in a Sigmoid")
        case.when(any(words.named(item.end, words.HEATMAP) for item in rest), -STRONG, "another map is named as such")
        roles = {item.end.name: OutputRole.SIZES if item.channels == 3 else OutputRole.OFFSETS for item in rest}
        yield Hypothesis.of(case, Kind.DETECTION, "centres in space", {heat.end.name: OutputRole.SCORES, **roles})
