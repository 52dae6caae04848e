"""Operators that move elements: shapes, orders, joins and cuts."""

from __future__ import annotations

import numpy as np

from dovetail.importers.tflite.layout import TensorForm, axis_in, order_to, permuted
from dovetail.importers.tflite.operators.table import Converter, Converters
from dovetail.importers.tflite.site import Site
from dovetail.ir import DType, TensorType


def _reshape(site: Site) -> None:
    shape = site.ints(1) if site.has(1) else site.operator.options.integers("NewShape")
    if shape is None and site.has(1):
        name = site.read_int64(1)
    else:
        given = shape or ()
        name = site.number(site.output().shape if 0 in given else given, "shape")
    site.finish("Reshape", (site.read_flat(0), name))


def _to_output_shape(site: Site) -> None:
    site.finish("Reshape", (site.read_flat(0), site.number(site.output().shape, "shape")))


def _transpose(site: Site) -> None:
    order = tuple(site.axis(axis, site.rank(0)) for axis in site.known_ints(1, "order"))
    rank = site.rank(0)
    if sorted(order) != list(range(rank)):
        raise site.fail(f"its order {list(order)} is no permutation")
    form = site.form(0)
    if form is TensorForm.FIRST:
        back = order_to(TensorForm.LAST, rank)
        order = permuted(back, order)
    if order == tuple(range(rank)):
        site.finish("Identity", (site.read(0, form),))
        return
    site.finish("Transpose", (site.read(0, form),), {"perm": order})


def _concat(site: Site) -> None:
    indices = tuple(range(site.count))
    rank = site.rank(0)
    form = site.form(*indices) if len({site.rank(index) for index in indices}) == 1 else TensorForm.LAST
    axis = site.axis(site.operator.options.integer("Axis"), rank)
    names = [site.read(index, form) for index in indices]
    site.finish("Concat", names, {"axis": axis_in(form, axis, rank)}, form)


def _pack(site: Site) -> None:
    axis = site.axis(site.operator.options.integer("Axis"), site.rank(0) + 1)
    axes = site.number((axis,), "axes")
    kind = site.result_type()
    shape = (*site.shape(0)[:axis], 1, *site.shape(0)[axis:])
    names = [
        site.emit(
            "Unsqueeze",
            (site.read(index), axes),
            TensorType(kind.dtype, shape, site.scope.types[site.read(index)].quant),
        )
        for index in range(site.count)
    ]
    site.finish("Concat", names, {"axis": axis})


def _unpack(site: Site) -> None:
    axis = site.axis(site.operator.options.integer("Axis"), site.rank(0))
    x = site.read(0)
    kind = site.scope.types[x]
    axes = site.number((axis,), "axes")
    for index in range(len(site.operator.outputs)):
        place = site.number((index,), "index")
        shape = (*site.shape(0)[:axis], 1, *site.shape(0)[axis + 1 :])
        part = site.emit("Gather", (x, place), TensorType(kind.dtype, shape, kind.quant), {"axis": axis})
        site.conclude(index, "Squeeze", (part, axes))


def _split(site: Site) -> None:
    """Split evenly along the axis that input 0 names."""
    (axis,) = site.known_ints(0, "axis")
    count = len(site.operator.outputs)
    axis = site.axis(axis, site.rank(1))
    size, rest = divmod(site.shape(1)[axis], count)
    if rest:
        raise site.fail(f"{site.shape(1)[axis]} cannot be split into {count}")
    _cut(site, 1, axis, (size,) * count)


def _split_v(site: Site) -> None:
    sizes, (axis,) = site.known_ints(1, "sizes"), site.known_ints(2, "axis")
    axis = site.axis(axis, site.rank(0))
    rest = site.shape(0)[axis] - sum(size for size in sizes if size >= 0)
    _cut(site, 0, axis, tuple(rest if size < 0 else size for size in sizes))


def _cut(site: Site, data: int, axis: int, sizes: tuple[int, ...]) -> None:
    form = site.form(data)
    if len(sizes) != len(site.operator.outputs) or min((*sizes, 0)) < 0:
        raise site.fail(f"it has {len(site.operator.outputs)} outputs for the sizes {list(sizes)}")
    inputs = (site.read(data, form), site.number(sizes, "sizes"))
    outputs = tuple(site.scope.declare(index, form) for index in site.operator.outputs)
    moved = axis_in(form, axis, site.rank(data))
    site.scope.add("Split", inputs, outputs, site.stem, {"axis": moved})


def _pad(site: Site) -> None:
    """Pad with a value; quantised tensors are padded with their zero point unless a value is given."""
    pads = site.known_ints(1, "pads")
    rank = site.rank(0)
    form = site.form(0)
    if len(pads) != 2 * rank:
        raise site.fail(f"it has {len(pads)} pads for rank {rank}")
    inputs = [site.read(0, form), site.number(_pad_order(pads, form, rank), "pads")]
    if site.operator.kind == "PADV2" and site.has(2):
        inputs.append(_pad_value(site))
    site.finish("Pad", inputs, {"mode": "constant"}, form)


def _pad_order(pads: tuple[int, ...], form: TensorForm, rank: int) -> tuple[int, ...]:
    order = order_to(form, rank) if form is TensorForm.FIRST else tuple(range(rank))
    return (*permuted(pads[0::2], order), *permuted(pads[1::2], order))


def _pad_value(site: Site) -> str:
    tensor = site.tensor(2)
    if tensor.is_quantized:
        return site.read_real(2)
    value = site.value(2)
    if value is None:
        return site.read(2)
    kind = site.scope.tensor_type(site.operator.inputs[2], TensorForm.LAST)
    return site.scope.store(f"{site.stem}/pad", value.reshape(()), kind)


def _mirror_pad(site: Site) -> None:
    """Mirror at the border: mode 0 leaves the border out, mode 1 (symmetric) repeats it."""
    pads, rank = site.known_ints(1, "pads"), site.rank(0)
    form = site.form(0)
    if len(pads) != 2 * rank:
        raise site.fail(f"it has {len(pads)} pads for rank {rank}")
    if site.operator.options.integer("Mode") == 0:
        order = site.number(_pad_order(pads, form, rank), "pads")
        site.finish("Pad", (site.read(0, form), order), {"mode": "reflect"}, form)
        return
    name, kind = site.read(0), site.scope.types[site.read(0)]
    last = [axis for axis in range(rank) if pads[2 * axis] or pads[2 * axis + 1]]
    if not last:
        site.finish("Identity", (name,))
    shape = list(site.shape(0))
    for axis in last:
        begin, end = pads[2 * axis : 2 * axis + 2]
        size = shape[axis]
        if max(begin, end) > size:
            raise site.fail(f"it mirrors {max(begin, end)} of {size} elements")
        places = [*range(begin - 1, -1, -1), *range(size), *range(size - 1, size - 1 - end, -1)]
        inputs = (name, site.number(places, "places"))
        shape[axis] = len(places)
        if axis == last[-1]:
            site.finish("Gather", inputs, {"axis": axis})
        else:
            name = site.emit("Gather", inputs, TensorType(kind.dtype, tuple(shape), kind.quant), {"axis": axis})


def _tile(site: Site) -> None:
    site.finish("Tile", (site.read(0), site.read_int64(1)))


def _broadcast_to(site: Site) -> None:
    site.finish("Expand", (site.read(0), site.read_int64(1)))


def _fill(site: Site) -> None:
    site.finish("Expand", (site.read(1), site.read_int64(0)))


def _shape_of(site: Site) -> None:
    """Give the shape, which is a constant here: sizes are static."""
    kind = site.result_type()
    value = np.asarray(site.shape(0), kind.dtype.carrier)
    name = site.scope.store(f"{site.stem}/value", value, TensorType(kind.dtype, value.shape))
    site.finish("Identity", (name,))


def _rank_of(site: Site) -> None:
    value = np.asarray(site.rank(0), np.int32)
    name = site.scope.store(f"{site.stem}/value", value, TensorType(DType.I32, ()))
    site.finish("Identity", (name,))


def _reverse(site: Site) -> None:
    axes = tuple(site.axis(axis, site.rank(0)) for axis in site.known_ints(1, "axes"))
    form = site.form(0)
    moved = tuple(axis_in(form, axis, site.rank(0)) for axis in axes)
    count = len(moved)
    inputs = (
        site.read(0, form),
        site.number((-1,) * count, "starts"),
        site.number((-(2**31),) * count, "ends"),
        site.number(moved, "axes"),
        site.number((-1,) * count, "steps"),
    )
    site.finish("Slice", inputs, None, form)


def _reverse_sequence(site: Site) -> None:
    options = site.operator.options
    attributes = {"batch_axis": options.integer("BatchDim"), "time_axis": options.integer("SeqDim")}
    if sorted(attributes.values()) == [0, 1]:
        site.finish("ReverseSequence", (site.read(0), site.read_int64(1)), attributes)
        return
    raise site.fail("ONNX reverses sequences along the first two axes only")


def _range(site: Site) -> None:
    site.finish("Range", tuple(site.read(index) for index in range(3)))


_SHAPES: dict[str, Converter] = dict.fromkeys(("EXPAND_DIMS", "SQUEEZE"), _to_output_shape)

CONVERTERS: Converters = {
    **_SHAPES,
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concat,
    "FILL": _fill,
    "MIRROR_PAD": _mirror_pad,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RANGE": _range,
    "RANK": _rank_of,
    "RESHAPE": _reshape,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "REVERSE_V2": _reverse,
    "SHAPE": _shape_of,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
