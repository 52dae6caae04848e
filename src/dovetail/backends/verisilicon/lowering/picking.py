"""Operators that pick and place values by constant indices, and sequences by their lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.lowering.view import NodeView, same_storage
from dovetail.backends.verisilicon.translate import vendor_shape
from dovetail.ir import AnyArray, DType, TensorType

_MOST_FLAT = 65_536
"""Wider rows than this were not tried."""


def _rows(view: NodeView, index: int, sizes: Sequence[int]) -> tuple[AnyArray, int]:
    """Return constant index tuples as numbers of rows, and the length of a row.

    A tuple names a slice of the data; seen as a matrix of slices each is one row.
    """
    value = view.constant(index)
    view.need(value.dtype.kind in "iu" and value.ndim >= 1, "its indices are not integers")
    depth = value.shape[-1]
    view.need(1 <= depth <= len(sizes), f"its indices name {depth} of {len(sizes)} axes")
    bounds = np.array(sizes[:depth], np.int64)
    inside = bool(((value >= -bounds) & (value < bounds)).all())
    view.need(inside, f"an index lies outside {list(sizes[:depth])}")
    placed = np.where(value < 0, value + bounds, value).astype(np.int64)
    steps = np.array([int(np.prod(sizes[axis + 1 : depth])) for axis in range(depth)], np.int64)
    flat = (placed * steps).sum(axis=-1).reshape(-1)
    length = int(np.prod(sizes[depth:]))
    view.need(length <= _MOST_FLAT, f"rows of {length} values > {_MOST_FLAT}")
    return flat, length


def _matrix(view: NodeView, tensor: int, kind: TensorType, rows: int, length: int) -> int:
    return view.reshaped(tensor, kind, (rows, length))


def lower_gather_nd(view: NodeView) -> None:
    """Lower GatherND with constant indices as a gathering of rows."""
    sizes = view.shape(0)
    view.need(view.node.integer("batch_dims", 0) == 0, "batch dimensions")
    view.need(same_storage(view.kind(0), view.made()), "it requantises while it gathers")
    view.need(view.kind(0).holds_reals, "its input is not real")
    flat, length = _rows(view, 1, sizes)
    view.expect((*view.constant(1).shape[:-1], *sizes[view.constant(1).shape[-1] :]))
    rows = int(np.prod(sizes)) // length
    data = _matrix(view, view.input(0), view.kind(0), rows, length)
    held = view.hold(flat.astype(np.int32), TensorType(DType.I32, (flat.size,)))
    out = view.output()
    narrow = vendor_shape(view.made_shape()) != (length, flat.size)
    if narrow:
        out = view.new(replace(view.made(), shape=(flat.size, length)))
    view.emit("gather", (data, held), (out,), (1, 0))
    if narrow:
        view.emit("reshape", (out,), (view.output(),), vendor_shape(view.made_shape()))


def lower_scatter_nd(view: NodeView) -> None:
    """Lower ScatterND with constant indices as a choice of rows from data and updates, one after the other."""
    sizes = view.shape(0)
    view.need(view.node.text("reduction", "none") == "none", f"reduction={view.node.text('reduction', 'none')!r}")
    view.expect(sizes)
    for index in (0, 2):
        view.need(view.kind(index).holds_reals, "its values are not real")
    flat, length = _rows(view, 1, sizes)
    view.need(len(set(flat.tolist())) == flat.size, "two updates have the same place: which comes last is not defined")
    view.need(int(np.prod(view.shape(2))) == flat.size * length, "its updates do not fit its indices")
    rows = int(np.prod(sizes)) // length
    taken = np.arange(rows, dtype=np.int32)
    taken[flat] = rows + np.arange(flat.size, dtype=np.int32)
    data = _matrix(view, view.stored_as(0, view.made()), view.made(), rows, length)
    updates = _matrix(view, view.stored_as(2, view.made()), view.made(), flat.size, length)
    joined = view.new(replace(view.made(), shape=(rows + flat.size, length)))
    held = view.hold(taken, TensorType(DType.I32, (rows,)))
    view.emit("concat", (data, updates), (joined,), (1,))
    same = vendor_shape(sizes) == (length, rows)
    out = view.output() if same else view.new(replace(view.made(), shape=(rows, length)))
    view.emit("gather", (joined, held), (out,), (1, 0))
    if not same:
        view.emit("reshape", (out,), (view.output(),), vendor_shape(sizes))


def lower_reverse_sequence(view: NodeView) -> None:
    """Lower ReverseSequence with constant lengths as a gathering of rows."""
    sizes = view.shape(0)
    time, batch = view.node.integer("time_axis", 0), view.node.integer("batch_axis", 1)
    view.need({time, batch} == {0, 1}, "its axes are not the first two")
    view.need(view.kind(0).holds_reals, "its input is not real")
    view.expect(sizes)
    lengths = np.array(view.integers(1))
    fits = lengths.shape == (sizes[batch],) and bool(((lengths >= 1) & (lengths <= sizes[time])).all())
    view.need(fits, "its lengths do not fit its input")
    places = np.arange(sizes[time])[:, None]
    turned = np.where(places < lengths, lengths - 1 - places, places)  # [time, batch]
    flat = turned * sizes[1] + np.arange(sizes[1]) if time == 0 else (turned + np.arange(sizes[0]) * sizes[1]).T
    length = int(np.prod(sizes[2:]))
    rows = sizes[0] * sizes[1]
    data = _matrix(view, view.stored_as(0, view.made()), view.made(), rows, length)
    held = view.hold(flat.reshape(-1).astype(np.int32), TensorType(DType.I32, (rows,)))
    same = vendor_shape(sizes) == (length, rows)
    out = view.output() if same else view.new(replace(view.made(), shape=(rows, length)))
    view.emit("gather", (data, held), (out,), (1, 0))
    if not same:
        view.emit("reshape", (out,), (view.output(),), vendor_shape(sizes))


PICKING: dict[str, Callable[[NodeView], None]] = {
    "GatherND": lower_gather_nd,
    "ReverseSequence": lower_reverse_sequence,
    "ScatterND": lower_scatter_nd,
}
