"""Zeros that the vendor's padding loses: around what is padded already, and beside channels of signed bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING, OLDEST
from dovetail.backends.verisilicon.lowering.view import NodeView, same_storage
from dovetail.backends.verisilicon.program import ProgramOperator
from dovetail.backends.verisilicon.windows import PlaneWindow
from dovetail.ir import DType, TensorType

_ZEROS = 0
LONGEST_SWEPT = 8191
"""Elements of an axis that the array of the oldest parts convolves: a shader does longer ones."""
_PLANES = 4
"""Dimensions of a tensor whose last two are a plane."""


def pad_apart(view: NodeView, data: int, plane: TensorType, window: PlaneWindow) -> tuple[int, PlaneWindow]:
    """Return the input of a convolution and its window; behind a Pad of zeros it is padded by an operator of its own.

    `plane` is the type of `data`, seen with four axes. The vendor's compiler joins such a Pad with the convolution and
    loses its own zeros: garbage at 8 and at 16 bits, measured on V853, A311D and i.MX 8M Plus. Two Pads are right, and
    so are a Pad of another value, and one of edges or reflections. Where the array cannot read what is padded, the two
    joined are garbage at the edges: a copy is between them.
    """
    pad = _zeros_around(view, data)
    if pad is None:
        return data, window
    bare = view.draft.tensors[pad.inputs[0]].shape
    if any(map(any, window.paddings)):
        (top, bottom), (left, right) = window.paddings
        batch, channels, height, width = plane.static_shape or ()
        bare, padded = (height, width), data
        data = view.new(replace(plane, shape=(batch, channels, height + top + bottom, width + left + right)))
        view.emit("pad", (padded,), (data,), (_ZEROS, left, top, 0, 0, right, bottom, 0, 0), (0.0,))
        window = replace(window, paddings=((0, 0), (0, 0)))
    if view.draft.part.generation in OLDEST and max(bare) <= LONGEST_SWEPT < max(view.draft.tensors[data].shape):
        padded, data = data, view.alike(data)
        view.emit("data_convert", (padded,), (data,))
    return data, window


def fills_wrongly(view: NodeView, front: Sequence[int], back: Sequence[int]) -> bool:
    """Tell whether the vendor's padding of a tensor, `front` and `back` of every axis, fills in something else than 0.

    Beside channels and batches of signed bytes whose zero is not stored as 0 it fills in 127, or ends the compiler,
    unless what is padded is an input: measured on V853, T527 and A733. Planes are right, and so are fewer axes.
    """
    data = view.kind(0)
    return (
        view.draft.part.generation not in CONVERTING
        and data.dtype is DType.I8
        and data.quant is not None
        and len(front) == _PLANES
        and any((*front[:2], *back[:2]))
    )


def pad_by_joining(view: NodeView, front: Sequence[int], back: Sequence[int]) -> None:
    """Emit a padding of `[N, C, H, W]` that joins constants of zeros with channels and batches."""
    data, made, tensor, shape = view.kind(0), view.made(), view.input(0), list(view.shape(0))
    assert data.quant is not None
    if any((*front[2:], *back[2:])):
        (top, left), (bottom, right) = front[2:], back[2:]
        shape[2:] = shape[2] + top + bottom, shape[3] + left + right
        held = view.new(replace(data, shape=tuple(shape)))
        view.emit("pad", (tensor,), (held,), (_ZEROS, left, top, 0, 0, right, bottom, 0, 0), (0.0,))
        tensor = held
    axes = [axis for axis in (1, 0) if front[axis] or back[axis]]
    for axis in axes:
        before, behind = (_zeros(view, data, shape, axis, widths[axis]) for widths in (front, back))
        shape[axis] += front[axis] + back[axis]
        is_last = axis == axes[-1] and same_storage(data, made)
        joined = view.output() if is_last else view.new(replace(data, shape=tuple(shape)))
        view.emit("concat", (*before, tensor, *behind), (joined,), (_PLANES - 1 - axis,))
        tensor = joined
    if not same_storage(data, made):
        view.emit("data_convert", (tensor,), (view.output(),))


def _zeros(view: NodeView, data: TensorType, shape: Sequence[int], axis: int, width: int) -> tuple[int, ...]:
    """Return a constant of zeros that is so wide along an axis; none where the width is 0."""
    if not width:
        return ()
    assert data.quant is not None
    sizes = (*shape[:axis], width, *shape[axis + 1 :])
    return (view.hold(np.full(sizes, data.quant.zero_point[0], np.int8), replace(data, shape=sizes)),)


def _zeros_around(view: NodeView, data: int) -> ProgramOperator | None:
    """Return what put zeros around a tensor, perhaps before it was seen with another shape."""
    makers = {tensor: operator for operator in view.draft.operators for tensor in operator.outputs}
    maker = makers.get(data)
    while maker is not None and maker.kind == "reshape":
        maker = makers.get(maker.inputs[0])
    padded = maker is not None and maker.kind == "pad" and maker.ints[0] == _ZEROS and not any(maker.floats)
    return maker if padded else None
