"""Operators that pick elements: slices, gathers, scatters, the largest."""

from __future__ import annotations

import numpy as np

from dovetail.importers.tflite.layout import TensorForm, axis_in
from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.site import Site
from dovetail.ir import DType, TensorType
from dovetail.ir.codes import ONNX_CODES

_END = 2**31 - 1


def _slice(site: Site) -> None:
    begins, sizes = site.ints(1), site.ints(2)
    rank = site.rank(0)
    if begins is None or sizes is None:
        _computed_slice(site)
        return
    if len(begins) != rank or len(sizes) != rank:
        raise site.fail(f"it has {len(begins)} begins for rank {rank}")
    form = site.form(0)
    axes = tuple(axis_in(form, axis, rank) for axis in range(rank))
    ends = tuple(_END if size < 0 else begin + size for begin, size in zip(begins, sizes, strict=True))
    inputs = (
        site.read(0, form),
        site.number(begins, "starts"),
        site.number(ends, "ends"),
        site.number(axes, "axes"),
    )
    site.finish("Slice", inputs, None, form)


def _computed_slice(site: Site) -> None:
    sizes = site.ints(2)
    if sizes is None or min((*sizes, 0)) < 0:
        raise site.fail("its sizes are computed at run time")
    begins = site.read_int64(1)
    kind = TensorType(DType.I64, (site.rank(0),))
    ends = site.emit("Add", (begins, site.number(sizes, "sizes")), kind)
    axes = site.number(tuple(range(site.rank(0))), "axes")
    site.finish("Slice", (site.read(0), begins, ends, axes))


def _strided_slice(site: Site) -> None:
    """Slice with masks: bits of the begin and end masks open an axis, shrunk axes vanish."""
    options = site.operator.options
    if options.integer("EllipsisMask") or options.integer("NewAxisMask") or options.flag("Offset"):
        raise site.fail("its ellipsis, new axes or offsets are not supported")
    begins, ends, strides = (site.known_ints(index, "bounds") for index in (1, 2, 3))
    if not len(begins) == len(ends) == len(strides) <= site.rank(0) or 0 in strides:
        raise site.fail("its bounds do not fit its data")
    opened_begin, opened_end = options.integer("BeginMask"), options.integer("EndMask")
    shrunk = options.integer("ShrinkAxisMask")
    starts: list[int] = []
    stops: list[int] = []
    for axis, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True)):
        bit = 1 << axis
        if shrunk & bit:
            starts.append(begin)
            stops.append(_END if begin == -1 else begin + 1)
            continue
        starts.append((0 if stride > 0 else _END) if opened_begin & bit else begin)
        stops.append((_END if stride > 0 else -_END) if opened_end & bit else end)
    gone = tuple(axis for axis in range(len(begins)) if shrunk & (1 << axis))
    form = TensorForm.LAST if gone else site.form(0)
    rank = site.rank(0)
    inputs = (
        site.read(0, form),
        site.number(starts, "starts"),
        site.number(stops, "ends"),
        site.number(tuple(axis_in(form, axis, rank) for axis in range(len(begins))), "axes"),
        site.number(tuple(1 if axis in gone else stride for axis, stride in enumerate(strides)), "steps"),
    )
    if not gone:
        site.finish("Slice", inputs, None, form)
        return
    kind = site.result_type()
    shape = list(site.output().shape)
    for axis in gone:
        shape.insert(axis, 1)
    part = site.emit("Slice", inputs, TensorType(kind.dtype, tuple(shape), kind.quant))
    site.finish("Squeeze", (part, site.number(gone, "axes")))


def _gather(site: Site) -> None:
    options = site.operator.options
    axis = site.axis(options.integer("Axis"), site.rank(0))
    batch = options.integer("BatchDims")
    if batch == 0:
        site.finish("Gather", (site.read(0), site.read_int64(1)), {"axis": axis})
        return
    if batch != axis or site.rank(1) != batch + 1:
        raise site.fail(f"it gathers along axis {axis} with {batch} batch dimensions")
    # One index a row along the axis: GatherND with batch dimensions and indices of length 1.
    indices = site.read_int64(1)
    kind = TensorType(DType.I64, (*site.shape(1), 1))
    spread = site.emit("Unsqueeze", (indices, site.number((-1,), "axes")), kind)
    site.finish("GatherND", (site.read(0), spread), {"batch_dims": batch})


def _gather_nd(site: Site) -> None:
    site.finish("GatherND", (site.read(0), site.read_int64(1)))


def _scatter_nd(site: Site) -> None:
    """Add updates into zeros of a given shape."""
    kind = site.result_type()
    if kind.quant is not None:
        raise site.fail("scattering into a quantised tensor is not supported")
    zero = site.scope.store(f"{site.stem}/zero", np.zeros((), kind.dtype.carrier), TensorType(kind.dtype, ()))
    base = site.emit("Expand", (zero, site.read_int64(2)), kind)
    site.finish("ScatterND", (base, site.read_int64(0), site.read(1)), {"reduction": "add"})


def _update_slice(site: Site) -> None:
    """Write a block over data at a position, moved inside where it would stick out."""
    shape, block = site.shape(0), site.shape(1)
    starts = site.read_int64(2)
    rank = len(shape)
    kind = TensorType(DType.I64, (rank,))
    room = site.number(tuple(max(0, size - part) for size, part in zip(shape, block, strict=True)), "room")
    low = site.emit("Max", (starts, site.number((0,) * rank, "zeros")), kind)
    place = site.emit("Min", (low, room), kind)
    grid = np.stack(np.meshgrid(*(np.arange(part) for part in block), indexing="ij"), axis=-1).reshape(*block, rank)
    site.scope.settings.spend(grid.nbytes, site.label)
    offsets = TensorType(DType.I64, grid.shape)
    indices = site.emit("Add", (site.scope.store(f"{site.stem}/grid", grid.astype(np.int64), offsets), place), offsets)
    site.finish("ScatterND", (site.read(0), indices, site.read(1)))


def _top_k(site: Site) -> None:
    count = site.read_int64(1)
    kind, places = site.result_type(0), site.result_type(1)
    shape = TensorType(DType.I64, (1,))
    k = site.emit("Reshape", (count, site.number((1,), "shape")), shape)
    x = site.read(0)
    values, wide = site.scope.fresh(f"{site.stem}/values"), site.scope.fresh(f"{site.stem}/places")
    site.scope.types[values], site.scope.types[wide] = kind, TensorType(DType.I64, places.shape)
    site.scope.add("TopK", (x, k), (values, wide), f"{site.stem}/topk", {"axis": -1})
    site.conclude(0, "Identity", (values,))
    site.conclude(1, "Cast", (wide,), {"to": ONNX_CODES[places.dtype]})


def _where(site: Site) -> None:
    """List the places of true elements, one a row."""
    if site.count != 1:
        raise site.fail("it has more than a condition")
    found = site.emit("NonZero", (site.read_flat(0),), TensorType(DType.I64, (site.rank(0), None)))
    site.finish("Transpose", (found,), {"perm": (1, 0)})


def _one_hot(site: Site) -> None:
    on, off = (site.value(index) for index in (2, 3))
    if on is None or off is None:
        raise site.fail("its values are computed at run time")
    kind = site.result_type()
    values = np.asarray([off.reshape(-1)[0], on.reshape(-1)[0]], kind.dtype.carrier)
    pair = site.scope.store(f"{site.stem}/values", values, TensorType(kind.dtype, (2,), kind.quant))
    inputs = (site.read_int64(0), site.read_int64(1), pair)
    site.finish("OneHot", inputs, {"axis": site.operator.options.integer("Axis")})


def _sparse_to_dense(site: Site) -> None:
    """Write values at places into a constant background."""
    kind = site.result_type()
    base = site.emit("Expand", (site.read(3), site.read_int64(1)), kind)
    rank = len(kind.shape or ())
    places = site.read_int64(0)
    count = 1 if site.rank(0) < 1 else site.shape(0)[0]
    rows = site.emit("Reshape", (places, site.number((count, rank), "rows")), TensorType(DType.I64, (count, rank)))
    values = site.emit("Expand", (site.read(2), site.number((count,), "count")), TensorType(kind.dtype, (count,)))
    site.finish("ScatterND", (base, rows, values))


CONVERTERS: Converters = {
    "DYNAMIC_UPDATE_SLICE": _update_slice,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "ONE_HOT": _one_hot,
    "SCATTER_ND": _scatter_nd,
    "SLICE": _slice,
    "SPARSE_TO_DENSE": _sparse_to_dense,
    "STRIDED_SLICE": _strided_slice,
    "TOPK_V2": _top_k,
    "WHERE": _where,
}
