"""Operators that only move values."""

from __future__ import annotations

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels, axes_of, axis_of, product
from dovetail.ir import AnyArray


def _reshape(call: Call) -> tuple[AnyArray, ...]:
    x, shape = call.x, list(call.sizes(1) or ())
    if not call.node.integer("allowzero", 0):
        shape = [x.shape[index] if size == 0 else size for index, size in enumerate(shape)]
    return (x.reshape(shape),)


def _flatten(call: Call) -> tuple[AnyArray, ...]:
    x, axis = call.x, call.node.integer("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return (x.reshape(product(x.shape[:axis]), product(x.shape[axis:])),)


def _squeeze(call: Call) -> tuple[AnyArray, ...]:
    axes = call.sizes(1)
    return (np.squeeze(call.x, axis=None if axes is None else axes_of(axes, call.x.ndim)),)


def _unsqueeze(call: Call) -> tuple[AnyArray, ...]:
    return (np.expand_dims(call.x, call.sizes(1) or ()),)


def _transpose(call: Call) -> tuple[AnyArray, ...]:
    return (np.transpose(call.x, call.node.integers("perm") or None),)


def _expand(call: Call) -> tuple[AnyArray, ...]:
    shape = np.broadcast_shapes(call.x.shape, call.sizes(1) or ())
    return (np.broadcast_to(call.x, shape),)


def _tile(call: Call) -> tuple[AnyArray, ...]:
    return (np.tile(call.x, call.sizes(1) or ()),)


def _concat(call: Call) -> tuple[AnyArray, ...]:
    return (np.concatenate(call.present(), axis=call.node.integer("axis", 0)),)


def _split(call: Call) -> tuple[AnyArray, ...]:
    x, axis, sizes = call.x, axis_of(call.node.integer("axis", 0), call.x.ndim), call.sizes(1)
    if sizes is None:
        parts = call.node.integer("num_outputs", len(call.node.outputs))
        each = -(-x.shape[axis] // parts)
        sizes = (each,) * (parts - 1) + (x.shape[axis] - each * (parts - 1),)
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ValueError(f"parts {sizes} do not add up to {x.shape[axis]}")
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


def _slice(call: Call) -> tuple[AnyArray, ...]:
    x, starts, ends = call.x, call.sizes(1) or (), call.sizes(2) or ()
    axes = axes_of(call.sizes(3) or tuple(range(len(starts))), x.ndim)
    steps = call.sizes(4) or (1,) * len(starts)
    place = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        lowest = -1 if step < 0 else 0
        first = min(max(start + size if start < 0 else start, 0), size - 1 if step < 0 else size)
        last = min(max(end + size if end < 0 else end, lowest), size)
        place[axis] = slice(first, None if last < 0 else last, step)
    return (x[tuple(place)],)


_PAD_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _pad(call: Call) -> tuple[AnyArray, ...]:
    x, pads = call.x, call.sizes(1) or ()
    axes = axes_of(call.sizes(3), x.ndim)
    half = len(pads) // 2
    widths = [(0, 0)] * x.ndim
    for index, axis in enumerate(axes):
        widths[axis] = (pads[index], pads[half + index])
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(widths, x.shape, strict=True))
    x, grown = x[cut], [(max(a, 0), max(b, 0)) for a, b in widths]
    mode = call.node.text("mode", "constant")
    if mode == "constant":
        value = call.optional(2)
        fill = np.zeros((), x.dtype) if value is None or value.size == 0 else value.reshape(()).astype(x.dtype)
        return (np.pad(x, grown, constant_values=fill),)
    return (np.pad(x, grown, mode=_PAD_MODES[mode]),)  # type: ignore[call-overload]


def _depth_to_space(call: Call) -> tuple[AnyArray, ...]:
    x, size = call.x, call.node.integer("blocksize", 1)
    batch, channels, height, width = x.shape
    depth = channels // (size * size)
    if call.node.text("mode", "DCR") == "DCR":
        blocks = x.reshape(batch, size, size, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(batch, depth, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    return (blocks.reshape(batch, depth, height * size, width * size),)


def _space_to_depth(call: Call) -> tuple[AnyArray, ...]:
    x, size = call.x, call.node.integer("blocksize", 1)
    batch, channels, height, width = x.shape
    blocks = x.reshape(batch, channels, height // size, size, width // size, size).transpose(0, 3, 5, 1, 2, 4)
    return (blocks.reshape(batch, channels * size * size, height // size, width // size),)


def _trilu(call: Call) -> tuple[AnyArray, ...]:
    diagonal = int(call.scalar(1, 0))
    return (np.triu(call.x, diagonal) if call.node.integer("upper", 1) else np.tril(call.x, diagonal),)


def _reverse_sequence(call: Call) -> tuple[AnyArray, ...]:
    x, lengths = call.x, call.sizes(1) or ()
    batch_axis, time_axis = call.node.integer("batch_axis", 1), call.node.integer("time_axis", 0)
    moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    result = moved.copy()
    for index, length in enumerate(lengths):
        result[index, :length] = moved[index, :length][::-1]
    return (np.moveaxis(result, (0, 1), (batch_axis, time_axis)),)


def _center_crop_pad(call: Call) -> tuple[AnyArray, ...]:
    x, sizes = call.x, call.sizes(1) or ()
    axes = axes_of(call.node.integers("axes") or None, x.ndim)
    for axis, size in zip(axes, sizes, strict=True):
        spare = size - x.shape[axis]
        if spare >= 0:
            widths = [(0, 0)] * x.ndim
            widths[axis] = (spare // 2, spare - spare // 2)
            x = np.pad(x, widths)
        else:
            first = -spare // 2
            x = np.take(x, range(first, first + size), axis=axis)
    return (x,)


def _col2im(call: Call) -> tuple[AnyArray, ...]:
    """Add blocks `[N, C * block, L]` into images `[N, C, *image]`."""
    x, image, block = call.x, call.sizes(1) or (), call.sizes(2) or ()
    rank = len(image)
    strides = call.node.integers("strides") or (1,) * rank
    dilations = call.node.integers("dilations") or (1,) * rank
    pads = call.node.integers("pads") or (0,) * (2 * rank)
    room = tuple(size + pads[i] + pads[rank + i] for i, size in enumerate(image))
    counts = tuple((room[i] - ((block[i] - 1) * dilations[i] + 1)) // strides[i] + 1 for i in range(rank))
    parts = x.reshape(x.shape[0], -1, product(block), *counts)
    canvas = np.zeros((*parts.shape[:2], *room), x.dtype)
    for index, offset in enumerate(np.ndindex(*block)):
        starts = [at * dilation for at, dilation in zip(offset, dilations, strict=True)]
        place = [slice(starts[i], starts[i] + (counts[i] - 1) * strides[i] + 1, strides[i]) for i in range(rank)]
        canvas[(slice(None), slice(None), *place)] += parts[:, :, index]
    cut = (slice(pads[i], pads[i] + image[i]) for i in range(rank))
    return (canvas[(slice(None), slice(None), *cut)],)


KERNELS: Kernels = {
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": lambda call: (call.x,),
    "Pad": _pad,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
