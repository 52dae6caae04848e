"""Keypoints: a heat map each, coordinates, or distributions over bins."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from dovetail.outputs.decode.planes import Floats
from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.families.maps import Map, maps_of
from dovetail.outputs.layouts import BinsLayout, HeatmapsLayout, PointsLayout
from dovetail.outputs.view import Kind, OutputRole

_NAMES = (*words.LANDMARKS, *words.HEATMAP, "pose", "joints", "ld")
_WIDTHS = (2, 3, 4, 5)
"""Numbers of a point: coordinates, how visible it is, whether it is there."""
_FEWEST = 12
"""Numbers of the fewest points that tell a person."""
_CORNERS = 8
_MOST_PEOPLE = 32
_PERSON = {0: "", 1: " and a score", 4: " and a box", 5: ", a box and a score"}
"""What a row may hold beside the points of a person."""
_PEAK = 6.0
"""Standard deviations by which a heat map's peak stands out; a Gaussian field of 3,000 cells reaches 3.5."""


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which outputs are keypoints."""
    image = ends.image
    for end in ends.outputs:
        if end.integer or end.ragged:
            continue
        yield from _coordinates(ends, end)
        if image is not None:
            yield from _corners_of_cells(ends, end)
        if image is not None and end.rank == 2 and 2 <= end.shape[0] <= _MOST_PEOPLE:
            yield from _people(ends, end)
        for found in maps_of(end, image) if image is not None else ():
            if found.channels > 1 and found.channel_axis is not None:
                yield _heatmaps(ends, found)
    if image is not None:
        for x, y in itertools.permutations(ends.outputs, 2):
            yield from _bins(x, y, image.cols, image.rows)


def _heatmaps(ends: Ends, found: Map) -> Hypothesis:
    end, axis = found.end, found.channel_axis or 0
    case = Case()
    case.when(found.channels in counts.POINTS, FAIR, f"{found.channels} maps, a usual number of keypoints")
    case.when(found.stride == 4, FAIR, "maps of stride 4")
    case.when(found.stride in (2, 8), SLIGHT, f"maps of stride {found.stride:g}")
    case.when(found.stride < 2 or found.stride > 8, -STRONG, f"maps of stride {found.stride:g}")
    case.when(words.named(end, _NAMES), STRONG, f"'{end.name}' is named as keypoints are")
    case.when(words.named(end, words.SEGMENTATION), -STRONG, f"'{end.name}' is named as masks are")
    case.when(end.sums_to_one(axis), -DECISIVE, f"'{end.name}' adds up to 1 at every cell")
    case.when(end.tail.resized, -FAIR, f"'{end.name}' is resized at the end")
    case.when(ends.count("ConvTranspose") >= 2, FAIR, "transposed convolutions lead to it")
    case.when(_peaks(end, axis), STRONG, f"every map of '{end.name}' has one peak")
    layout = HeatmapsLayout(end.name, axis, found.channels)
    return Hypothesis.of(case, Kind.KEYPOINTS, "heat maps", {end.name: OutputRole.HEATMAPS}, layout)


def _peaks(end: End, axis: int) -> bool:
    """Tell whether most maps stand out at one place only."""
    maps = np.moveaxis(np.asarray(end.values, np.float64), axis + 1, 1)
    flat = maps.reshape(len(maps), maps.shape[1], -1)
    spread = flat.std(axis=2)
    height = (flat.max(axis=2) - flat.mean(axis=2)) / np.where(spread > 0, spread, np.inf)
    return float(np.median(height)) > _PEAK


def _coordinates(ends: Ends, end: End) -> Iterator[Hypothesis]:
    """Yield points of two or three numbers each, with an axis of their own or one after another."""
    shape = tuple(size for size in end.shape if size != 1)
    sizes = [(shape[0], shape[1])] if len(shape) == 2 and shape[1] in (2, 3, 4, 5) else []
    if len(shape) == 1:
        sizes = [(shape[0] // width, width) for width in _WIDTHS if shape[0] % width == 0 and shape[0] >= 8]
    for points, width in sizes:
        yield _points(ends, end, points, width, split=len(shape) == 2)


def _people(ends: Ends, end: End) -> Iterator[Hypothesis]:
    """Yield a few rows of the points of one person each, with a box after them or not (MoveNet's several people)."""
    people, width = end.shape
    for more, text in _PERSON.items():
        if width <= more + _FEWEST or (width - more) % 3 or (width - more) // 3 not in counts.POINTS:
            continue
        case = Case()
        case.add(STRONG, f"{width} numbers a row, as {(width - more) // 3} points of three numbers{text} have")
        case.when(words.named(end, _NAMES), DECISIVE, f"'{end.name}' is named as keypoints are")
        case.when(ends.flat(end), FAIR, "every number is made of the whole picture")
        case.when(end.in_unit, SLIGHT, "all numbers are shares of the picture")
        case.when(not end.in_unit and end.low < 0, -SLIGHT, "some numbers are negative")
        case.when(end.tail.activations == {"Softmax"}, -DECISIVE, f"'{end.name}' ends in a Softmax")
        roles = {end.name: OutputRole.COMBINED}
        # No layout: how rows of two runs pair up is a matter of the box, which designs place differently.
        yield Hypothesis.of(case, Kind.KEYPOINTS, f"up to {people} people", roles)


def _points(ends: Ends, end: End, points: int, width: int, *, split: bool) -> Hypothesis:
    case = Case()
    case.when(points in counts.POINTS, FAIR if split else SLIGHT, f"{points} points, a usual number")
    case.when(split and width in (2, 3) and points in counts.POINTS, FAIR, f"{width} numbers a point")
    case.when(words.named(end, _NAMES), DECISIVE, f"'{end.name}' is named as keypoints are")
    case.when(
        words.named(end, (*words.CLASSIFICATION, *words.BOXES)), -STRONG, f"'{end.name}' is not named as points are"
    )
    case.when(end.tail.activations <= {"Softmax"}, -DECISIVE, f"'{end.name}' ends in a Softmax")
    listed = not split and points * width in counts.POINT_LISTS
    case.when(listed and points in counts.POINTS, STRONG, f"{points * width} numbers, as lists of keypoints have")
    threes = not split and width == 3 and _all_threes(ends)
    case.when(threes, STRONG, "all lists are three times a usual number of points")
    case.when(not split and width > 3, -FAIR, f"{width} numbers a point")
    usual = points in counts.POINTS and ends.image is not None
    for other in ends.outputs:
        case.when(
            usual and other is not end and _has_points(other, points), STRONG, f"'{other.name}' has as many points"
        )
    case.when(ends.image is None, -STRONG, "no picture goes in")
    case.when(
        not split and _in_pixels(ends, end), STRONG, "numbers lie within the picture, in pixels, around its middle"
    )
    values = np.asarray(end.values, np.float64).reshape(len(end.values), -1, width)
    scored = split and width == 3 and _scored(values)
    case.when(scored, FAIR, "two coordinates in shares of the picture and a score")
    case.when(bool(values.size) and _spread_like_points(values), SLIGHT, "points lie inside the picture or near it")
    movenet = scored and end.shape == (1, 17, 3)
    layout = PointsLayout(end.name, points, width, "yx" if movenet else "xy", 2 if scored else None)
    return Hypothesis.of(case, Kind.KEYPOINTS, "coordinates", {end.name: OutputRole.POINTS}, layout)


def _in_pixels(ends: Ends, end: End) -> bool:
    """Tell whether numbers without an activation lie in the picture, counted in pixels, as many on either side."""
    if ends.image is None or end.tail.activations != {""} or not end.finite.size:
        return False
    side = max(ends.image.rows, ends.image.cols)
    low, middle, high = np.quantile(end.finite, (0.05, 0.5, 0.95))
    return bool(low > -0.25 * side and high < 1.25 * side and 0.2 * side < middle < 0.8 * side)


def _corners_of_cells(ends: Ends, end: End) -> Iterator[Hypothesis]:
    """Yield four corners for every step of a sequence of marks, in shares of the picture (tables)."""
    if end.rank != 2 or end.shape[1] != _CORNERS or not end.in_unit:
        return
    alike = [other for other in ends.outputs if other is not end and other.rank == 2 and other.shape[0] == end.shape[0]]
    marks = [other for other in alike if other.sums_to_one(1)]
    if not marks:
        return
    case = Case()
    case.add(STRONG, f"'{end.name}' has four corners for every step of '{marks[0].name}'")
    case.when(end.tail.activations == {"Sigmoid"}, FAIR, f"'{end.name}' ends in a Sigmoid")
    case.when("Conv" not in end.tail.operators, FAIR, "steps come from matrix products")
    layout = PointsLayout(end.name, end.shape[0] * 4, 2)
    yield Hypothesis.of(case, Kind.KEYPOINTS, "corners of cells", {end.name: OutputRole.POINTS}, layout)


def _all_threes(ends: Ends) -> bool:
    """Tell whether there are several lists of numbers, each as long as a usual number of points of three numbers."""
    lists = [max(end.shape, default=1) for end in ends.outputs if sum(size != 1 for size in end.shape) == 1]
    return len(lists) > 1 and all(size % 3 == 0 and size // 3 in counts.POINTS for size in lists)


def _has_points(end: End, points: int) -> bool:
    """Tell whether an output has a map, or a few numbers in a list, for each of some keypoints."""
    wide = [size for size in end.shape if size != 1]
    if len(wide) == 3:
        return points in wide
    return len(wide) == 1 and wide[0] // points in _WIDTHS and wide[0] % points == 0


def _scored(values: Floats) -> bool:
    """Tell whether the third number of a point is a score, and the first two lie in the picture or a little outside."""
    places, score = values[..., :2], values[..., 2]
    near = float(places.min()) > -0.5 and float(places.max()) < 1.5
    return near and float(score.min()) >= 0 and float(score.max()) <= 1


def _spread_like_points(values: Floats) -> bool:
    """Tell whether coordinates are neither all alike nor negative."""
    return float(values[..., :2].min()) >= 0 and float(values[..., :2].std()) > 0


def _bins(x: End, y: End, cols: int, rows: int) -> Iterator[Hypothesis]:
    """Yield two outputs `[points, bins]` whose bins are the same multiple of the picture's sides (SimCC)."""
    if x.rank != 2 or y.rank != 2 or x.shape[0] != y.shape[0] or x.shape[0] < 2:
        return
    if x.shape[1] * rows != y.shape[1] * cols or x.shape[1] % cols:
        return
    case = Case()
    case.add(STRONG, f"'{x.name}' and '{y.name}' have {x.shape[1] // cols} bins a column and a row of the picture")
    case.when(cols != rows, STRONG, "as the picture is not square, that is no accident")
    case.when(x.shape[0] in counts.POINTS, FAIR, f"{x.shape[0]} points, a usual number")
    case.when("x" in x.words and "y" in y.words, FAIR, "they are named x and y")
    case.when("y" in x.words and "x" in y.words, -STRONG, "they are named y and x")
    case.when("simcc" in x.label, STRONG, "they are named SimCC")
    roles = {x.name: OutputRole.POINTS, y.name: OutputRole.POINTS}
    yield Hypothesis.of(case, Kind.KEYPOINTS, "simcc", roles, BinsLayout(x.name, y.name, x.shape[0]))
