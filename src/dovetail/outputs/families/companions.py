"""Heads of several maps on one grid, of which one marks places and the others say more of each.

Keypoints with affinity fields (OpenPose) or offsets (PoseNet), and text with the geometry of its boxes (EAST).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from dovetail.outputs.ends import Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.maps import Map, maps_of
from dovetail.outputs.layouts import Activation, HeatmapsLayout, MaskLayout
from dovetail.outputs.view import Kind, OutputRole

_FEWEST_POINTS = 5
_NEIGHBOURS = 8
_GEOMETRY = {5: "four sides and an angle", 8: "four corners"}


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which outputs on one grid belong together."""
    image = ends.image
    grids: dict[tuple[int, int, int | None], list[Map]] = {}
    for end in ends.outputs:
        for found in maps_of(end, image) if image is not None and not end.integer else ():
            # The layout of all outputs is one; an output of one channel has both.
            grids.setdefault((found.rows, found.cols, found.channel_axis), []).append(found)
    for same in grids.values():
        for heat in same:
            if heat.stride >= 4 and heat.channels == heat.stride**2 + 1:
                yield _cells(heat, [item for item in same if item.channels == 1])
            rest = [item for item in same if item is not heat]
            related = [item for item in rest if item.channels in (2 * heat.channels, 2 * (heat.channels - 1))]
            exact = any(item.channels == 2 * heat.channels for item in related)
            if heat.channels >= _FEWEST_POINTS and related and (exact or heat.channels - 1 in counts.POINTS):
                edges = [item for item in rest if item.channels == 4 * (heat.channels - 1)]
                middles = [item for item in rest if item.channels == 1 and item.activations == {"Sigmoid"}]
                yield _points(heat, [*related, *edges], middles if exact and heat.activations == {"Sigmoid"} else ())
            if heat is next(item for item in same if item.channels == heat.channels):
                yield from _scored_offsets(heat, rest)
            yield from _tagged(heat, grids.values())
        for score, geometry in itertools.permutations(same, 2):
            if score.channels == 1 and geometry.channels in _GEOMETRY:
                yield _regions(score, geometry)
            if score.channels == 2 and geometry.channels == 2 * _NEIGHBOURS:
                yield _linked(score, geometry)


def _scored_offsets(heat: Map, rest: Sequence[Map]) -> Iterator[Hypothesis]:
    """Yield keypoints as a score and two offsets in every cell, in outputs of their own, those of neighbours beside."""
    alike = [item for item in rest if item.channels == heat.channels and not item.end.tail.resized]
    more = [item for item in rest if item.channels > heat.channels and item.channels % heat.channels == 0]
    if heat.channels not in counts.POINTS or heat.channels < _FEWEST_POINTS or len(alike) != 2 or heat.stride < 4:
        return
    case = Case()
    case.add(STRONG, f"three outputs have {heat.channels} maps, as a score and two offsets of keypoints have")
    case.when(len(more) == 2, STRONG, "two outputs have a multiple of them")
    case.when({"x", "y"} <= heat.end.words.union(*(item.end.words for item in alike)), FAIR, "they are named x and y")
    case.when(words.named(heat.end, words.SEGMENTATION), -STRONG, f"'{heat.end.name}' is named as masks are")
    roles = {heat.end.name: OutputRole.HEATMAPS}
    roles.update({item.end.name: OutputRole.OFFSETS for item in (*alike, *more)})
    yield Hypothesis.of(case, Kind.KEYPOINTS, "scores and offsets", roles)


def _tagged(heat: Map, grids: Iterable[Sequence[Map]]) -> Iterator[Hypothesis]:
    """Yield keypoints whose maps come again on a grid half as fine, with a tag for each (associative embedding)."""
    for item in itertools.chain.from_iterable(grids):
        twice = item.channels == 2 * heat.channels and item.stride == 2 * heat.stride and heat.stride >= 2
        if twice and item.channel_axis == heat.channel_axis and heat.channels in counts.POINTS:
            yield _points(heat, [item])


def _points(heat: Map, related: Sequence[Map], middles: Sequence[Map] = ()) -> Hypothesis:
    """Return keypoints whose maps come with vectors: from point to point, or from a cell to its point.

    One map more may say where the middles of people are.
    """
    case = Case()
    name = heat.end.name
    usual = heat.channels in counts.POINTS or heat.channels - 1 in counts.POINTS
    case.when(usual, FAIR, f"{heat.channels} maps, a usual number of keypoints, with or without a background")
    for item in related:
        exact = item.channels == 2 * heat.channels or heat.channels - 1 in counts.POINTS
        both = item.channels == 4 * (heat.channels - 1)
        of = "for each edge of a tree of the points, both ways" if both else f"for each of '{name}'"
        case.add(STRONG if exact and not both else SLIGHT, f"'{item.end.name}' has two maps {of}")
        case.when(words.named(item.end, (*words.OFFSETS, *words.FIELDS)), FAIR, f"'{item.end.name}' is named as such")
    case.when(words.named(heat.end, (*words.HEATMAP, *words.LANDMARKS)), STRONG, f"'{name}' is named as keypoints are")
    case.when(words.named(heat.end, words.SEGMENTATION), -STRONG, f"'{name}' is named as masks are")
    case.when(heat.activations == {"Softmax"}, -DECISIVE, f"'{name}' ends in a Softmax")
    roles = {name: OutputRole.HEATMAPS, **{item.end.name: OutputRole.OFFSETS for item in related}}
    roles.update({item.end.name: OutputRole.HEATMAPS for item in middles[:1] if len(middles) == 1})
    layout = HeatmapsLayout(name, heat.channel_axis or 0, heat.channels)
    return Hypothesis.of(case, Kind.KEYPOINTS, "heat maps with vectors", roles, layout)


def _cells(heat: Map, trust: Sequence[Map]) -> Hypothesis:
    """Return keypoints as a class for every pixel of a cell, and one for none (SuperPoint).

    One map more of a Sigmoid may say how far they are to be trusted (XFeat).
    """
    case = Case()
    name = heat.end.name
    case.add(DECISIVE, f"'{name}' has a score for each of a cell's {heat.channels - 1} pixels and one for none")
    case.when(words.named(heat.end, words.SEGMENTATION), -STRONG, f"'{name}' is named as masks are")
    roles = {name: OutputRole.HEATMAPS}
    roles.update({item.end.name: OutputRole.SCORES for item in trust if item.activations == {"Sigmoid"}})
    return Hypothesis.of(case, Kind.KEYPOINTS, "pixels of a cell", roles)


def _linked(score: Map, links: Map) -> Hypothesis:
    """Return text as two logits a cell, and two for each link to its eight neighbours (PixelLink)."""
    case = Case()
    first, second = score.end, links.end
    case.add(STRONG, f"'{second.name}' has two numbers for each of a cell's eight neighbours")
    case.add(FAIR, f"'{first.name}' has two numbers for the cell itself")
    case.when(score.stride in (2, 4), SLIGHT, f"maps of stride {score.stride:g}")
    case.when(bool(second.words & {"link", "links"}), STRONG, f"'{second.name}' is named as links are")
    case.when(
        words.named(second, (*words.HEATMAP, *words.OFFSETS)), -STRONG, f"'{second.name}' is not named as links are"
    )
    roles = {first.name: OutputRole.MASK, second.name: OutputRole.OFFSETS}
    return Hypothesis.of(case, Kind.TEXT_REGIONS, "pixels and links", roles)


def _regions(score: Map, geometry: Map) -> Hypothesis:
    """Return a map of text whose other output holds a turned box for every cell."""
    case = Case()
    first, second = score.end, geometry.end
    case.add(STRONG, f"'{second.name}' has {geometry.channels} numbers a cell: {_GEOMETRY[geometry.channels]}")
    case.when(score.activations == {"Sigmoid"}, FAIR, f"'{first.name}' is one score a cell")
    case.when(score.stride == 4, SLIGHT, "maps of stride 4")
    case.when(score.stride >= 8, -FAIR, f"maps as coarse as stride {score.stride:g}")
    case.when(4 in second.cuts(geometry.channel_axis or 0)[:1], FAIR, f"'{second.name}' is joined after four channels")
    case.when(geometry.activations == {"Softmax"}, -DECISIVE, f"'{second.name}' ends in a Softmax")
    case.when(words.named(first, words.TEXT), STRONG, f"'{first.name}' is named as text is")
    case.when(words.named(second, words.SEGMENTATION), -STRONG, f"'{second.name}' is named as masks are")
    roles = {first.name: OutputRole.MASK, second.name: OutputRole.BOXES}
    bounded = Activation.SIGMOID if score.activations == {"Sigmoid"} else Activation.NONE
    return Hypothesis.of(case, Kind.TEXT_REGIONS, "east", roles, MaskLayout(first.name, None, 2, bounded))
