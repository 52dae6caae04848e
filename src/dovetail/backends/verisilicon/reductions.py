"""How the vendor's library splits a reduction over several axes into operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LAST = 3
"""The axis, the fastest first, that a mean over others, too, is taken over by itself."""
_MOST = 3
"""Axes, none beside another, of which a mean takes the last by itself."""
WIDEST_WINDOW = 15
"""The longest side of a window of newer arrays."""
_LONGEST = 65536
"""Elements of neighbouring axes that are seen as one."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A tensor whose reduced neighbouring axes are seen as one: places and sizes, the fastest axis first."""

    axes: tuple[tuple[int, ...], ...]
    """The original axes of each that is reduced."""
    places: tuple[int, ...]
    rank: int

    def stages(self, *, mean: bool) -> tuple[tuple[int, ...], ...]:
        """Return the axes of each operator, in order; a mean takes those that are together in one."""
        if not mean:
            return self.axes
        count, last = len(self.axes), self.places[-1]
        apart = last <= _LAST if count == _MOST else count == _MOST - 1 and last == _LAST
        groups = (self.axes[:-1], self.axes[-1:]) if apart else (self.axes,)
        return tuple(tuple(axis for part in group for axis in part) for group in groups)


def merged(shape: Sequence[int], axes: Sequence[int]) -> Merged:
    """Return what is reduced of a shape with the fastest axis first: axes of one element are left as they are."""
    wide = [axis for axis in sorted(axes) if shape[axis] > 1] if len(axes) > 1 else list(axes)
    wide = wide or [min(axes)]
    runs: list[list[int]] = [[wide[0]]]
    for axis in wide[1:]:
        if axis == runs[-1][-1] + 1 and math.prod(shape[one] for one in runs[-1]) * shape[axis] < _LONGEST:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    gone = 0
    places: list[int] = []
    for run in runs:
        places.append(run[0] - gone)
        gone += len(run) - 1
    return Merged(tuple(tuple(run) for run in runs), tuple(places), max(len(shape) - gone, 2))


def is_window(count: int, widest: int) -> bool:
    """Tell whether so many elements fill a window whose sides are at most so wide."""
    return any(count % side == 0 and count // side <= widest for side in range(1, widest + 1))
