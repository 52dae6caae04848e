"""Transpositions.

Of six axes of which no two stay beside each other the vendor's kernel moves what is left of 65,536 elements, and the
rest becomes garbage: in each of eight pairs of part and precision all that were drawn. Beside a stream processor, of
five axes, and of fewer elements all were right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.moving import check_moved, copy, move
from dovetail.backends.verisilicon.lowering.view import NodeView, same_storage
from dovetail.backends.verisilicon.translate import vendor_order, vendor_shape

_MOST_AXES = 5
_MOST_ELEMENTS = 1 << 16
"""Of a tensor with more axes than that."""


def lower_transpose(view: NodeView) -> None:
    """Lower Transpose; one that the vendor's kernel is too small for in two, with fewer axes."""
    sizes = view.shape(0)
    order = view.node.integers("perm") or tuple(reversed(range(len(sizes))))
    view.need(sorted(order) == list(range(len(sizes))), f"perm={list(order)} is not an order of {len(sizes)} axes")
    view.expect([sizes[axis] for axis in order])
    if list(order) == list(range(len(sizes))):
        copy(view)
    elif [axis for axis in order if sizes[axis] > 1] == [axis for axis, size in enumerate(sizes) if size > 1]:
        # Only seen with another shape; the vendor's compiler ends where it turns that and a slice of it around.
        move(view, "reshape", tuple(reversed(view.made_shape())))
    elif len(sizes) <= _MOST_AXES or math.prod(sizes) <= _MOST_ELEMENTS or _is_beside_a_stream(view):
        move(view, "transpose", vendor_order(order))
    else:
        _turn_seen_with_fewer_axes(view, sizes, order)


def _is_beside_a_stream(view: NodeView) -> bool:
    return view.draft.part.generation is Generation.STREAM


def _turn_seen_with_fewer_axes(view: NodeView, sizes: Sequence[int], order: Sequence[int]) -> None:
    """Emit it with axes merged that stay beside each other; where none do, one is first moved to where it belongs."""
    data, made = view.kind(0), view.made()
    check_moved(view, data, made)
    sizes, order = merged(sizes, order)
    tensor = view.input(0)
    if len(sizes) > _MOST_AXES:
        first, second = order[:2]
        before = [axis for axis in range(len(sizes)) if axis != first]
        before.insert(before.index(second), first)
        tensor = _turn(view, tensor, *merged(sizes, before))
        sizes, order = merged([sizes[axis] for axis in before], [before.index(axis) for axis in order])
    tensor = _turn(view, tensor, sizes, order)
    if same_storage(data, made):
        view.emit("reshape", (tensor,), (view.output(),), vendor_shape(view.made_shape()))
    else:
        view.emit("data_convert", (view.reshaped(tensor, view.made_shape()),), (view.output(),))


def _turn(view: NodeView, tensor: int, sizes: Sequence[int], order: Sequence[int]) -> int:
    """Emit a transposition of a tensor that is seen with some sizes; return what it makes."""
    made = view.new(replace(view.kind(0), shape=tuple(sizes[axis] for axis in order)))
    view.emit("transpose", (view.reshaped(tensor, sizes),), (made,), vendor_order(order))
    return made


def merged(sizes: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return sizes and an order without axes of one element, with those as one that stay beside each other."""
    kept = [axis for axis in order if sizes[axis] > 1]
    left = [axis for axis in range(len(sizes)) if sizes[axis] > 1]
    place = {axis: number for number, axis in enumerate(left)}
    blocks: list[list[int]] = []
    for axis in kept:
        if blocks and place[axis] == place[blocks[-1][-1]] + 1:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    first = sorted(block[0] for block in blocks)
    found = {block[0]: math.prod(sizes[axis] for axis in block) for block in blocks}
    return [found[axis] for axis in first], [first.index(block[0]) for block in blocks]
