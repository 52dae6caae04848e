"""Slices, with steps and backwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.moving import check_movable, move
from dovetail.backends.verisilicon.lowering.view import NodeView, same_storage

_PLANE_AXES = 4


def lower_slice(view: NodeView) -> None:
    """Lower Slice with constant bounds; a negative step becomes a reversal after a slice."""
    taken = _taken(view)
    view.expect([len(found) for found in taken])
    emit_slice(view, taken)


def emit_slice(view: NodeView, taken: Sequence[range]) -> None:
    """Emit what is taken along each axis of the input."""
    backward = [place for place, found in enumerate(taken) if found.step < 0 and len(found) > 1]
    forward = [found if found.step > 0 else found[::-1] for found in taken]
    stepped = [place for place, found in enumerate(forward) if found.step > 1 and len(found) > 1]
    stream = view.draft.part.generation is Generation.STREAM
    cut = [place for place, found in enumerate(forward) if len(found) < view.shape(0)[place]]
    several = len(taken) > _PLANE_AXES and len(cut) > 1
    if several or (stream and (stepped or backward)):
        _slice_by_axes(view, forward, cut if len(taken) > _PLANE_AXES else stepped, backward)
        return
    if not backward:
        move(view, "strided_slice", _ints(forward))
        return
    data = view.kind(0)
    check_movable(view, data)
    view.need(same_storage(data, view.made()), "it requantises while it reverses")
    held = view.new(replace(data, shape=view.made().shape))
    view.emit("strided_slice", (view.input(0),), (held,), _ints(forward))
    view.emit("reverse", (held,), (view.output(),), [len(taken) - 1 - place for place in backward])


def _taken(view: NodeView) -> list[range]:
    """Return what is taken along each axis."""
    sizes = view.shape(0)
    rank = len(sizes)
    starts, ends = view.integers(1), view.integers(2)
    axes = view.integers(3) if view.has(3) else tuple(range(len(starts)))
    steps = view.integers(4) if view.has(4) else (1,) * len(starts)
    view.need(len(starts) == len(ends) == len(axes) == len(steps), "its bounds have different lengths")
    taken = [range(size) for size in sizes]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        view.need(step != 0, "a step is 0")
        place = rank - 1 - view.axis(axis, rank)
        view.need(taken[place] == range(sizes[place]), "an axis is given twice")
        taken[place] = range(sizes[place])[slice(start, _open(end, step), step)]
    return taken


def _open(end: int, step: int) -> int | None:
    """Return the end of a Python slice: ONNX's most negative end of a backward step means past the beginning."""
    return None if step < 0 and end < -(2**30) else end


def _ints(taken: Sequence[range]) -> tuple[int, ...]:
    """Return begins, ends and steps in the vendor's order."""
    found = taken[::-1]
    steps = (one.step if len(one) > 1 else 1 for one in found)
    return (*(one[0] for one in found), *(one[-1] + 1 for one in found), *steps)


def _slice_by_axes(view: NodeView, taken: Sequence[range], stepped: Sequence[int], backward: Sequence[int]) -> None:
    """Emit a slice without steps, then each step and each reversal along the middle of three axes.

    Where there are five axes, every part computes garbage of some slices along several of them: 4 of 500 drawn ones on
    V853 and A311D. Parts with a stream processor do of steps along vectors and along rows or columns of several
    samples, and of reversals along the fifth axis: 14 of 150 differed.
    """
    data, made = view.kind(0), view.made()
    check_movable(view, data)
    check_movable(view, made)
    view.need(
        data.dtype is made.dtype or (data.holds_reals and made.holds_reals),
        f"from {data.dtype.value} to {made.dtype.value}",
    )
    sizes, held = list(view.shape(0)), view.input(0)
    plain = [
        range(size) if place in stepped else found for place, (size, found) in enumerate(zip(sizes, taken, strict=True))
    ]
    if plain != [range(size) for size in sizes]:
        sizes = [len(found) for found in plain]
        cut = view.new(replace(data, shape=tuple(sizes)))
        view.emit("strided_slice", (held,), (cut,), _ints(plain))
        held = cut
    for place in stepped:
        before, after = math.prod(sizes[:place]), math.prod(sizes[place + 1 :])
        seen = view.reshaped(held, (before, sizes[place], after))
        sizes[place] = len(taken[place])
        held = view.new(replace(data, shape=(before, sizes[place], after)))
        view.emit("strided_slice", (seen,), (held,), _ints((range(before), taken[place], range(after))))
    for place in backward:
        shape = (math.prod(sizes[:place]), sizes[place], math.prod(sizes[place + 1 :]))
        seen, held = view.reshaped(held, shape), view.new(replace(data, shape=shape))
        view.emit("reverse", (seen,), (held,), (1,))
    if same_storage(data, made):
        view.emit("reshape", (held,), (view.output(),), tuple(reversed(view.made_shape())))
        return
    view.emit("data_convert", (view.reshaped(held, view.made_shape()),), (view.output(),))


SLICING: dict[str, Callable[[NodeView], None]] = {"Slice": lower_slice}
"""Lowerings of this module by operator."""
