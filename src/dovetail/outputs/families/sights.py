"""Outputs read as grids of places over the picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.outputs.ends import End, Ends, ImageInput
from dovetail.outputs.layouts import Form, Level, Plane
from dovetail.outputs.places import grid_level, levels_of_parts, levels_of_sum


@dataclass(frozen=True, slots=True)
class Sight:
    """One way to read an output as channels of places."""

    end: End
    form: Form
    channels: int
    """All channels of a cell (forms with a grid) or of a place (forms with P)."""
    axis: int
    """The axis of the channels in the shape of the output."""
    level: Level | None = None
    """The grid, where the shape shows one; `anchors` is that of the shape, 1 where channels may hold several."""
    places: int = 0
    """P, where the shape shows no grid."""
    place_axis: int = 0

    def plane(self, levels: tuple[Level, ...], start: int, stop: int, channels: int) -> Plane:
        """Return channels `start` to `stop` of the `channels` of a place."""
        return Plane(self.end.name, self.form, levels, start, stop, channels)


@dataclass(frozen=True, slots=True)
class Stack:
    """Sights of the same places: one row of sights for every level, or a single row that holds all levels."""

    rows: tuple[tuple[Sight, ...], ...]
    levels: tuple[Level, ...]
    together: bool
    """One row of outputs holds the places of all levels."""
    by_parts: bool = False
    """The sizes of the levels were read from the Concats that join them."""
    anchors_known: bool = True
    """The anchors of the levels are those of the shapes; else channels may hold several."""


def stacks(ends: Ends) -> Iterator[Stack]:
    """Yield the ways in which outputs cover the grids of the picture."""
    image = ends.image
    if image is None:
        return
    grids: dict[tuple[int, int], list[Sight]] = {}
    sums: dict[int, list[Sight]] = {}
    for end in ends.outputs:
        for sight in _sights(end, image):
            if sight.level is not None:
                grids.setdefault((sight.level.rows, sight.level.cols), []).append(sight)
            else:
                sums.setdefault(sight.places, []).append(sight)
    yield from _grid_stacks(grids, ends.image is not None and image.channels_last)
    yield from _sum_stacks(sums, image)


def _sights(end: End, image: ImageInput) -> Iterator[Sight]:
    """Yield the ways to read one output; sizes of 1 in front of a grid count as anchors."""
    shape = end.shape
    if end.ragged or not shape:
        return
    if len(shape) == 4:
        yield from _anchor_grids(end, image)
    if len(shape) == 3:
        first, second, third = shape
        level = grid_level(second, third, image)
        if level is not None:
            yield Sight(end, Form.CHW, first, 0, level)
        level = grid_level(first, second, image)
        if level is not None:
            yield Sight(end, Form.HWC, third, 2, level)
    # [P, 1, C] holds no more than [P, C].
    plain = len(shape) == 3 and shape[1] == 1
    if len(shape) in (1, 2) or plain:
        places, channels = shape[0], shape[-1] if len(shape) > 1 else 1
        yield Sight(end, Form.PC, channels, len(shape) - 1, places=places)
        if len(shape) == 2 and channels > 1:
            yield Sight(end, Form.CP, places, 0, places=channels, place_axis=1)


def _anchor_grids(end: End, image: ImageInput) -> Iterator[Sight]:
    shape = end.shape
    for form, anchors, rows, cols, axis in (
        (Form.ACHW, 0, 2, 3, 1),
        (Form.AHWC, 0, 1, 2, 3),
        (Form.HWAC, 2, 0, 1, 3),
    ):
        level = grid_level(shape[rows], shape[cols], image, shape[anchors])
        if level is not None and shape[anchors] <= 9:
            yield Sight(end, form, shape[axis], axis, level)


def _grid_stacks(grids: dict[tuple[int, int], list[Sight]], channels_last: bool) -> Iterator[Stack]:
    """Yield all grids as levels of one stack, channels where the input has them first."""
    preferred = (Form.HWC, Form.AHWC, Form.HWAC) if channels_last else (Form.CHW, Form.ACHW, Form.AHWC)
    rows: list[tuple[Sight, ...]] = []
    for key in sorted(grids, key=lambda size: -size[0] * size[1]):
        best: dict[str, Sight] = {}
        for sight in grids[key]:
            kept = best.get(sight.end.name)
            if kept is None or (sight.form in preferred and kept.form not in preferred):
                best[sight.end.name] = sight
        rows.append(tuple(best.values()))
    if not rows:
        return
    counts = {len(row) for row in rows}
    if len(counts) == 1:
        yield _grid_stack(rows)
    branches = _branches(rows)
    if len(branches) > len(rows):
        yield _grid_stack(branches)
    if len(rows) > 1:
        # An output on a grid of its own, such as the prototypes of masks, must not hide the others.
        for row in rows:
            yield _grid_stack([row])
        most = max(counts)
        fullest = [row for row in rows if len(row) == most]
        if 1 < len(fullest) < len(rows):
            yield _grid_stack(fullest)


def _branches(rows: Sequence[tuple[Sight, ...]]) -> list[tuple[Sight, ...]]:
    """Return the rows with those split that hold several branches of one grid; none where rows do not repeat."""
    shortest = min(rows, key=len)
    signature = tuple(sight.channels for sight in shortest)
    size = len(signature)
    split = [row[start : start + size] for row in rows for start in range(0, len(row), size)]
    alike = all(tuple(sight.channels for sight in part) == signature for part in split)
    return split if alike and size > 1 else []


def _grid_stack(rows: Sequence[tuple[Sight, ...]]) -> Stack:
    levels = tuple(row[0].level for row in rows if row[0].level is not None)
    anchored = any(sight.form in (Form.ACHW, Form.AHWC, Form.HWAC) for row in rows for sight in row)
    return Stack(tuple(rows), levels, False, anchors_known=anchored)


def _sum_stacks(sums: dict[int, list[Sight]], image: ImageInput) -> Iterator[Stack]:
    """Yield outputs that hold all levels after one another, and outputs that hold one level each."""
    for places, sights in sums.items():
        parts = next((cuts for sight in sights if len(cuts := sight.end.cuts(sight.place_axis)) > 1), ())
        levels = levels_of_parts(parts, image) if parts else None
        if levels is not None:
            yield Stack((tuple(sights),), levels, True, by_parts=True)
        elif (levels := levels_of_sum(places, image)) is not None:
            yield Stack((tuple(sights),), levels, True)
    sizes = sorted((size for size in sums if size > 1), reverse=True)
    named = [size for size in sizes if all(sight.form is Form.PC for sight in sums[size])]
    alone = levels_of_parts(named, image) if len(named) > 1 else None
    if alone is not None and len({level.anchors for level in alone}) == 1:
        rows = [tuple(sums[size]) for size in named]
        if len({len(row) for row in rows}) == 1:
            yield Stack(tuple(rows), alone, False)
