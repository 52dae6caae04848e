"""Pooling over windows and over whole images."""

from __future__ import annotations

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels
from dovetail.backends.reference.kernels.window import Window, round_up, slide, window_of
from dovetail.ir import AnyArray


def _window(call: Call) -> Window:
    spatial = tuple(call.x.shape[2:])
    window = window_of(call.node, call.node.integers("kernel_shape"), spatial)
    return round_up(window, spatial) if call.node.integer("ceil_mode", 0) else window


def _kernel_axes(window: Window) -> tuple[int, ...]:
    return tuple(range(-len(window.kernel), 0))


def window_sums(call: Call) -> tuple[AnyArray, AnyArray]:
    """Return the sum of every window and the count that AveragePool divides it by (broadcastable)."""
    x, window = call.x, _window(call)
    axes = _kernel_axes(window)
    total = np.asarray(slide(x, window, 0).sum(axis=axes))
    ones = np.ones((1, 1, *x.shape[2:]), np.int64)
    if call.node.integer("count_include_pad", 0):
        # Padding counts, but not the extra columns that ceil_mode adds behind it.
        given = window_of(call.node, window.kernel, tuple(x.shape[2:]))
        ones = np.pad(ones, [(0, 0), (0, 0), *zip(given.begins, given.ends, strict=True)], constant_values=1)
        rest = tuple(end - known for end, known in zip(window.ends, given.ends, strict=True))
        none = (0,) * len(rest)
        window = Window(window.kernel, window.strides, window.dilations, none, rest)
    return total, np.asarray(slide(ones, window, 0).sum(axis=axes))


def averaging_window(call: Call) -> tuple[Window, AnyArray]:
    """Return the window of an AveragePool and its counts as integer kernels have them: ceil_mode's columns count."""
    window = _window(call)
    if call.node.integer("count_include_pad", 0):
        return window, np.asarray(np.prod(window.kernel))
    ones = np.ones((1, 1, *call.x.shape[2:]), np.int64)
    return window, np.asarray(slide(ones, window, 0).sum(axis=_kernel_axes(window)))


def _average_pool(call: Call) -> tuple[AnyArray, ...]:
    total, count = window_sums(call)
    return (total / count,)


def _lp_pool(call: Call) -> tuple[AnyArray, ...]:
    power, window = call.node.integer("p", 2), _window(call)
    total = (np.abs(slide(call.x, window, 0)) ** power).sum(axis=_kernel_axes(window))
    return (total ** (1.0 / power),)


def _lowest(x: AnyArray) -> float:
    """Return the value that never wins a maximum."""
    return float("-inf") if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)


def _max_pool(call: Call) -> tuple[AnyArray, ...]:
    x, window = call.x, _window(call)
    view = slide(x, window, _lowest(x))
    flat = view.reshape(*view.shape[: x.ndim], -1)
    winner = flat.argmax(axis=-1)
    result = np.take_along_axis(flat, winner[..., None], axis=-1)[..., 0]
    if not call.wants(1):
        return (result,)
    return result, _max_indices(call, window, winner)


def _max_indices(call: Call, window: Window, winner: AnyArray) -> AnyArray:
    """Return the position of each maximum in the flattened input; storage_order=1 counts columns first."""
    spatial = call.x.shape[2:]
    inside = np.unravel_index(winner, window.kernel)
    positions: list[AnyArray] = []
    for axis, at in enumerate(inside):
        shape = [1] * call.x.ndim
        shape[2 + axis] = -1
        start = np.arange(winner.shape[2 + axis]).reshape(shape) * window.strides[axis] - window.begins[axis]
        positions.append(np.clip(start + at * window.dilations[axis], 0, spatial[axis] - 1))
    order = list(range(len(spatial)))
    if call.node.integer("storage_order", 0) == 1:
        order.reverse()
    flat = np.zeros(winner.shape, np.int64)
    for axis in order:
        flat = np.asarray(flat * spatial[axis] + positions[axis])
    planes = np.arange(call.x.shape[0] * call.x.shape[1], dtype=np.int64)
    planes = planes.reshape(*call.x.shape[:2], *(1,) * len(spatial))
    return np.asarray(flat + planes * int(np.prod(spatial)))


def _max_unpool(call: Call) -> tuple[AnyArray, ...]:
    x, indices, sizes = call.input(0), call.input(1), call.sizes(2)
    window = window_of(call.node, call.node.integers("kernel_shape"), tuple(x.shape[2:]))
    natural = tuple(
        (size - 1) * stride - begin - end + extent
        for size, stride, begin, end, extent in zip(
            x.shape[2:], window.strides, window.begins, window.ends, window.extents, strict=True
        )
    )
    shape = (*x.shape[:2], *natural)
    small = np.zeros(shape, x.dtype)
    small.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    if sizes is None or sizes == shape:
        return (small,)
    # Indices count in the natural shape; a larger output_shape leaves the new places at zero.
    large = np.zeros(sizes, x.dtype)
    large[tuple(slice(0, min(a, b)) for a, b in zip(shape, sizes, strict=True))] = small
    return (large,)


def _spatial(x: AnyArray) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _global_lp_pool(call: Call) -> tuple[AnyArray, ...]:
    power = call.node.integer("p", 2)
    total = np.sum(np.abs(call.x) ** power, axis=_spatial(call.x), keepdims=True)
    return (np.asarray(total ** (1.0 / power)),)


KERNELS: Kernels = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda call: (np.mean(call.x, axis=_spatial(call.x), keepdims=True),),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": lambda call: (np.max(call.x, axis=_spatial(call.x), keepdims=True),),
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
