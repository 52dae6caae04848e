"""Where the axes of a tensor go when it is reshaped, transposed or squeezed."""

from __future__ import annotations

from collections.abc import Sequence

Labels = tuple[frozenset[int], ...]
"""For every axis of a tensor, the axes of the output that its entries end in."""


def own_axes(rank: int) -> Labels:
    """Return the labels of the output itself."""
    return tuple(frozenset((axis,)) for axis in range(rank))


def before_transpose(labels: Labels, perm: Sequence[int]) -> Labels:
    """Return the labels of a Transpose's input."""
    back: list[frozenset[int]] = [frozenset()] * len(labels)
    for axis, source in enumerate(perm):
        back[source] = labels[axis]
    return tuple(back)


def before_reshape(labels: Labels, before: Sequence[int], after: Sequence[int]) -> Labels:
    """Return the labels of a Reshape's input, given both shapes.

    Axes are grouped into the smallest runs of equal products; every axis of a run takes the labels of the whole run,
    except that an axis whose run has one axis larger than 1 on either side maps one to one.
    """
    found: list[frozenset[int]] = [frozenset()] * len(before)
    for sources, targets in _runs(before, after):
        wide = [axis for axis in targets if after[axis] != 1]
        merged = frozenset().union(*(labels[axis] for axis in wide or targets))
        for axis in sources:
            found[axis] = merged if before[axis] != 1 else frozenset()
    return tuple(found)


def _runs(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Pair the axes of two shapes of one size into the smallest runs of equal products."""
    runs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        sources, targets = [], []
        left = right = 1
        if i < len(before):
            sources.append(i)
            left *= before[i]
            i += 1
        if j < len(after):
            targets.append(j)
            right *= after[j]
            j += 1
        while left != right and (i < len(before) or j < len(after)):
            if (left < right and i < len(before)) or j == len(after):
                sources.append(i)
                left *= before[i]
                i += 1
            else:
                targets.append(j)
                right *= after[j]
                j += 1
        runs.append((sources, targets))
    return runs
