"""Detectors that mark the centres of objects on one fine grid: CenterNet and its like."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from dovetail.outputs.ends import Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import words
from dovetail.outputs.families.activated import activation_of
from dovetail.outputs.families.maps import Map, maps_of
from dovetail.outputs.layouts import Coding, DenseLayout, Form, LayoutPart, Level, Plane
from dovetail.outputs.view import Kind, OutputRole


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which outputs on one grid are a map of centres with sizes."""
    image = ends.image
    if image is None or len(ends.outputs) < 2:
        return
    grids: dict[tuple[int, int, bool], list[Map]] = {}
    for end in ends.outputs:
        for found in maps_of(end, image):
            grids.setdefault((found.rows, found.cols, found.channel_axis == 2), []).append(found)
    for same in grids.values():
        if 2 <= len(same) <= 6 and same[0].stride >= 2:
            yield from _readings(ends, same)


def _readings(ends: Ends, same: Sequence[Map]) -> Iterator[Hypothesis]:
    for heat, size in itertools.permutations(same, 2):
        if size.channels not in (2, 4):
            continue
        rest = [item for item in same if item is not heat and item is not size]
        offset = next((item for item in rest if item.channels == 2), None)
        more = [item for item in rest if item is not offset]
        yield _reading(ends, heat, size, offset=offset, more=more)


def _reading(ends: Ends, heat: Map, size: Map, *, offset: Map | None, more: Sequence[Map]) -> Hypothesis:
    case = Case()
    roles = {heat.end.name: OutputRole.HEATMAPS, size.end.name: OutputRole.SIZES}
    for item in more:
        points = item.channels % 2 == 0 and item.channels >= 8
        roles[item.end.name] = OutputRole.LANDMARKS if points else OutputRole.UNKNOWN
        case.add(SLIGHT if points else -SLIGHT, f"'{item.end.name}' has {item.channels} channels on the same grid")
    case.add(FAIR, f"'{size.end.name}' has {size.channels} channels on the grid of '{heat.end.name}'")
    case.when(heat.stride <= 4, FAIR, f"a grid as fine as stride {heat.stride:g}")
    case.when(heat.activations == {"Sigmoid"}, FAIR, f"'{heat.end.name}' ends in a Sigmoid")
    case.when(words.named(heat.end, words.HEATMAP), DECISIVE, f"'{heat.end.name}' is named as maps of centres are")
    case.when(words.named(size.end, words.SIZES), FAIR, f"'{size.end.name}' is named as sizes are")
    case.when(not heat.end.in_unit, -FAIR, f"'{heat.end.name}' leaves 0..1")
    case.when(bool(size.activations & {"Sigmoid", "Softmax"}), -STRONG, f"'{size.end.name}' is bounded")
    if offset is not None:
        roles[offset.end.name] = OutputRole.OFFSETS
        case.add(STRONG, f"'{offset.end.name}' has two channels more on the same grid")
        case.when(words.named(offset.end, words.OFFSETS), SLIGHT, f"'{offset.end.name}' is named as offsets are")
        case.when(bool(offset.activations & {"Softmax"}), -STRONG, f"'{offset.end.name}' ends in a Softmax")
    return Hypothesis.of(case, Kind.DETECTION, "centernet", roles, _layout(ends, heat, size, offset))


def _layout(ends: Ends, heat: Map, size: Map, offset: Map | None) -> DenseLayout:
    image = ends.image
    rows, cols = (0, 0) if image is None else (image.rows, image.cols)
    level = Level(rows / heat.rows, cols / heat.cols, heat.rows, heat.cols)
    return DenseLayout(
        image=(rows, cols),
        levels=(level,),
        scores=_part(heat, level),
        boxes=None,
        coding=Coding.CENTRE_SIZE,
        sizes=_part(size, level),
        offsets=None if offset is None else _part(offset, level),
    )


def _part(found: Map, level: Level) -> LayoutPart:
    form = Form.HWC if found.channel_axis == 2 else Form.CHW
    plane = Plane(found.end.name, form, (level,), 0, found.channels, found.channels)
    return LayoutPart((plane,), activation_of(found.end, found.channel_axis or 0))
