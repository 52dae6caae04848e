"""Operators that move values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.lowering.padding import fills_wrongly, pad_by_joining
from dovetail.backends.verisilicon.lowering.view import NodeView, same_storage
from dovetail.backends.verisilicon.translate import vendor_shape
from dovetail.backends.verisilicon.views import multiplier_of, scale_of, zero_of
from dovetail.ir import AnyArray, DType, TensorType, dequantize_array


def check_movable(view: NodeView, kind: TensorType) -> None:
    view.need(kind.dtype is not DType.F64, "it has no f64 form", always=True)
    view.need(kind.quant is None or kind.quant.axis is None, "a tensor has a scale per channel")


def check_moved(view: NodeView, data: TensorType, made: TensorType) -> None:
    """Refuse a movement between two kinds of tensors that no conversion can follow."""
    check_movable(view, data)
    check_movable(view, made)
    alike = same_storage(data, made) or (data.holds_reals and made.holds_reals)
    view.need(alike, f"from {data.dtype.value} to {made.dtype.value}")


BYTES = (DType.U8, DType.I8)
_BEYOND_24_BITS = 2.0**23
_LONGEST_ROW = 65535
"""Elements that a tile may write along the fastest axis."""


def move(
    view: NodeView, kind: str, ints: Sequence[int], floats: Sequence[float] = (), more: Sequence[int] = ()
) -> None:
    """Emit an operator that moves values; where the output is stored otherwise, a conversion follows.

    The vendor's int8 transpose gives wrong values when it requantises, so no movement is asked to.
    """
    data, made = view.kind(0), view.made()
    check_moved(view, data, made)
    if same_storage(data, made):
        view.emit(kind, (view.input(0), *more), (view.output(),), ints, floats)
        return
    held = view.new(replace(data, shape=made.shape))
    view.emit(kind, (view.input(0), *more), (held,), ints, floats)
    view.emit("data_convert", (held,), (view.output(),))


def lower_reshape(view: NodeView) -> None:
    """Lower every operator that only changes the shape: the shape of its output says which."""
    view.need(math.prod(view.shape(0)) == math.prod(view.made_shape()), "its output has another number of elements")
    if view.node.op == "Dropout":
        view.need(len([name for name in view.node.outputs if name]) == 1, "its mask is asked for")
    if vendor_shape(view.shape(0)) == vendor_shape(view.made_shape()):
        copy(view)
        return
    move(view, "reshape", vendor_shape(view.made_shape()))


def copy(view: NodeView) -> None:
    """Emit a copy of the input."""
    data, made = view.kind(0), view.made()
    check_movable(view, data)
    view.need(data.holds_reals and made.holds_reals, f"it hands on {data.dtype.value} values")
    view.emit("data_convert", (view.input(0),), (view.output(),))


def lower_concat(view: NodeView) -> None:
    """Lower Concat; the vendor's copies requantise exactly."""
    count = len(view.node.inputs)
    kinds = [view.kind(index) for index in range(count)]
    made, shapes = view.made(), [view.shape(index) for index in range(count)]
    for kind in (*kinds, made):
        check_movable(view, kind)
        view.need(kind.dtype is made.dtype, f"it joins {kind.dtype.value} to {made.dtype.value}")
    view.need(all(len(shape) == len(shapes[0]) for shape in shapes), "its inputs have different ranks")
    axis = view.axis(view.node.integer("axis", 0), len(shapes[0]))
    position = len(shapes[0]) - 1 - axis
    rest = {shape[:position] + shape[position + 1 :] for shape in shapes}
    view.need(len(rest) == 1, "its inputs differ along another axis")
    total = sum(shape[position] for shape in shapes)
    view.expect((*shapes[0][:position], total, *shapes[0][position + 1 :]))
    if count == 1:
        copy(view)
        return
    view.emit("concat", tuple(view.coarse(index) for index in range(count)), (view.output(),), (axis,))


def lower_split(view: NodeView) -> None:
    """Lower Split as slices: each output may then be stored in its own way."""
    sizes, node = view.shape(0), view.node
    axis = len(sizes) - 1 - view.axis(node.integer("axis", 0), len(sizes))
    view.need(all(node.outputs), "an output is left out")
    parts = [view.made_shape(index)[axis] for index in range(len(node.outputs))]
    if view.has(1):
        view.need(view.integers(1) == tuple(parts), "its sizes are not those of its outputs")
    view.need(sum(parts) == sizes[axis], "its outputs do not add up to its input")
    at = 0
    for index, part in enumerate(parts):
        view.expect((*sizes[:axis], part, *sizes[axis + 1 :]), index)
        begins = [at if place == axis else 0 for place in range(len(sizes))]
        lengths = [part if place == axis else size for place, size in enumerate(sizes)]
        _slice(view, index, begins, lengths)
        at += part


def _slice(view: NodeView, index: int, begins: Sequence[int], lengths: Sequence[int]) -> None:
    data, made = view.kind(0), view.made(index)
    check_movable(view, data)
    view.need(data.dtype is made.dtype, f"from {data.dtype.value} to {made.dtype.value}")
    out = view.output(index)
    held = out if same_storage(data, made) else view.new(replace(data, shape=made.shape))
    ends = [begin + length for begin, length in zip(begins, lengths, strict=True)]
    ints = (*reversed(begins), *reversed(ends), *(1 for _ in begins))
    view.emit("strided_slice", (view.input(0),), (held,), ints)
    if held != out:
        view.emit("data_convert", (held,), (out,))


_BATCHED = 4
"""Dimensions of a tensor whose first is the batch."""


def lower_pad(view: NodeView) -> None:
    """Lower Pad with constant widths."""
    sizes = view.shape(0)
    rank, widths = len(sizes), view.integers(1)
    axes = view.integers(3) if view.has(3) else tuple(range(rank))
    view.need(len(widths) == 2 * len(axes), "its widths do not fit its axes")
    front, back = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        place = rank - 1 - view.axis(axis, rank)
        front[place], back[place] = widths[index], widths[len(axes) + index]
    view.need(min(*front, *back) >= 0, "a width is negative")
    view.expect([low + size + high for low, size, high in zip(front, sizes, back, strict=True)])
    modes = {"constant": 0, "edge": 1, "reflect": 3}
    mode = view.node.text("mode", "constant")
    view.need(mode in modes, f"mode={mode!r} (constant, edge and reflect are possible)")
    if mode == "reflect":
        view.need(
            all(max(low, high) < size for low, size, high in zip(front, sizes, back, strict=True)),
            "a width is too large",
        )
    repeated = mode != "constant" and rank == _BATCHED and (front[0] or back[0])
    view.need(not repeated, f"mode={mode!r} along the batch, which comes out as garbage (zeros are possible)")
    value = 0.0
    if view.has(2) and mode == "constant":
        stored, kind = view.constant(2), view.kind(2)
        value = float((stored if kind.quant is None else dequantize_array(stored, kind.quant)).reshape(-1)[0])
    view.need(rank <= 4 and view.kind(0).holds_reals, f"{rank} dimensions > 4")
    if mode == "constant" and not value and fills_wrongly(view, front, back):
        check_movable(view, view.kind(0))
        check_movable(view, view.made())
        pad_by_joining(view, front, back)
        return
    move(view, "pad", (modes[mode], *reversed(front), *reversed(back)), (value,))


def lower_tile(view: NodeView) -> None:
    """Lower Tile with constant repeats."""
    sizes, repeats = view.shape(0), view.integers(1)
    view.need(len(repeats) == len(sizes) and min(repeats) >= 1, "its repeats do not fit its input")
    made = [size * times for size, times in zip(sizes, repeats, strict=True)]
    view.expect(made)
    data = view.kind(0)
    affine = data.quant is not None and data.dtype in BYTES and not view.draft.fixed_point
    inner = [axis for axis, times in enumerate(repeats) if times > 1 and sizes[axis] > 1 and axis + 1 < len(sizes)]
    if affine and inner:
        _tile_rows(view, repeats)
        return
    _check_row(view, made[-1] if made else 1)
    move(view, "tile", tuple(reversed(repeats)))


def _tile_rows(view: NodeView, repeats: Sequence[int]) -> None:
    """Lower a tile of affine bytes axis by axis, each as longer rows.

    Along any axis but the fastest the vendor's tile of them repeats every slice in its place, on all parts tried.
    """
    data, shape, tensor = view.kind(0), list(view.shape(0)), view.input(0)
    check_movable(view, data)
    check_movable(view, view.made())
    for axis in reversed(range(len(repeats))):
        if repeats[axis] == 1:
            continue
        count, row = math.prod(shape[:axis]), math.prod(shape[axis:])
        shape[axis] *= repeats[axis]
        _check_row(view, row * repeats[axis])
        longer = view.new(replace(data, shape=(count, row * repeats[axis])))
        view.emit("tile", (view.reshaped(tensor, (count, row)),), (longer,), (repeats[axis], 1))
        tensor = longer
    if same_storage(data, view.made()):
        view.emit("reshape", (tensor,), (view.output(),), vendor_shape(tuple(shape)))
    else:
        view.emit("data_convert", (view.reshaped(tensor, shape),), (view.output(),))


def _check_row(view: NodeView, length: int) -> None:
    """Refuse to repeat into rows that were seen to come out as garbage."""
    view.need(length <= _LONGEST_ROW, f"it repeats into rows of {length} elements > {_LONGEST_ROW}")


def lower_expand(view: NodeView) -> None:
    """Lower Expand as a tile of what is 1."""
    sizes, made = view.shape(0), view.made_shape()
    view.need(len(made) >= len(sizes), "its output has fewer dimensions")
    wide = (1,) * (len(made) - len(sizes)) + sizes
    view.need(all(one in (1, size) for one, size in zip(wide, made, strict=True)), "its shapes do not broadcast")
    view.need(same_storage(view.kind(0), view.made()), "it requantises while it repeats")
    if wide == made:
        lower_reshape(view)
        return
    data = view.reshaped(view.input(0), wide)
    times = [size // one for one, size in zip(wide, made, strict=True)]
    view.emit("tile", (data,), (view.output(),), tuple(reversed(times)))


def lower_depth_to_space(view: NodeView) -> None:
    """Lower DepthToSpace."""
    sizes, block = view.shape(0), view.node.integer("blocksize", 0)
    view.need(len(sizes) == 4 and block >= 1 and sizes[1] % (block * block) == 0, f"blocksize={block}")
    view.expect((sizes[0], sizes[1] // (block * block), sizes[2] * block, sizes[3] * block))
    move(view, "depth_to_space", (block, int(view.node.text("mode", "DCR") == "CRD")))


def lower_space_to_depth(view: NodeView) -> None:
    """Lower SpaceToDepth."""
    sizes, block = view.shape(0), view.node.integer("blocksize", 0)
    fits = len(sizes) == 4 and block >= 1 and sizes[2] % block == 0 and sizes[3] % block == 0
    view.need(fits, f"blocksize={block}")
    view.expect((sizes[0], sizes[1] * block * block, sizes[2] // block, sizes[3] // block))
    if block == 1:
        # A copy; of a single element the vendor's ends its simulator.
        move(view, "reshape", vendor_shape(sizes))
        return
    move(view, "space_to_depth", (block,))


def lower_resize(view: NodeView) -> None:
    """Lower Resize of the two last axes, nearest or linear, where the vendor's grid is ONNX's."""
    sizes, made, node = view.shape(0), view.made_shape(), view.node
    view.need(
        len(sizes) == 4 and made[:2] == sizes[:2],
        f"{list(sizes)} to {list(made)}: of four axes the last two can be resized",
    )
    mode = node.text("mode", "nearest")
    grid = node.text("coordinate_transformation_mode", "half_pixel")
    view.need(mode in ("nearest", "linear"), f"mode={mode!r} (nearest and linear are possible)")
    grids = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    view.need(grid in grids, f"coordinate_transformation_mode={grid!r} ({', '.join(grids)} are possible)")
    view.need(not node.integer("antialias", 0), "antialias=1")
    _check_scales(view, sizes, made)
    if mode == "nearest":
        whole = all(big % small == 0 for big, small in zip(made[2:], sizes[2:], strict=True))
        rounding = node.text("nearest_mode", "round_prefer_floor")
        view.need(whole, f"a nearest resize of {list(sizes)} to {list(made)}: only whole factors are possible")
        exact = (grid == "asymmetric" and rounding == "floor") or grid in ("half_pixel", "pytorch_half_pixel")
        view.need(
            exact,
            f"nearest with grid {grid!r} and rounding {rounding!r} (half_pixel is possible, and asymmetric with floor)",
        )
    if mode == "nearest" or sizes[2:] == (1, 1):
        # By a whole factor both grids repeat every value: the simpler one. A linear resize of a plane of one pixel
        # repeats it too, where the vendor's shader of fixed point hands on its integers in whatever steps.
        mode, grid = "nearest", "asymmetric"
    view.need(view.kind(0).dtype is view.made().dtype and view.kind(0).holds_reals, "its input is stored otherwise")
    ints = (int(mode == "linear"), made[3], made[2], int(grid == "align_corners"), int("half_pixel" in grid))
    if mode == "nearest" or ("half_pixel" in grid and _loses_in_counting(view, sizes[2:], made[2:])):
        move(view, "resize", ints)
        return
    data, out = view.input(0), view.output()
    doubled = grid == "align_corners" and made[2:] == (2 * sizes[2], 2 * sizes[3]) and sizes[0] > 1
    if doubled:
        # The vendor's kernel for that makes garbage of all samples but the first: channels of one sample are right.
        data = view.reshaped(data, (1, sizes[0] * sizes[1], *sizes[2:]))
        out = view.new(replace(view.made(), shape=(1, sizes[0] * sizes[1], *made[2:])))
    view.emit("resize", (data,), (out,), ints)
    if doubled:
        view.emit("reshape", (out,), (view.output(),), vendor_shape(made))


def _loses_in_counting(view: NodeView, sizes: Sequence[int], made: Sequence[int]) -> bool:
    """Tell whether the vendor's kernel for that factor is inexact, or begins with a number beyond its 24 bits.

    Measured on bytes in other steps: at 3 times the size up to a twentieth of the elements are one step off; at 3 and
    8 times garbage from 2^23 on. Without another scale there is neither.
    """
    kinds = (view.kind(0), view.made())
    if kinds[0].dtype not in BYTES or any(kind.quant is None or kind.quant.axis is not None for kind in kinds):
        return False
    thrice, much = (made == tuple(factor * size for size in sizes) for factor in (3, 8))
    if thrice or not much:
        return thrice
    multiplier, shift = multiplier_of(*(scale_of(kind) for kind in kinds))
    # Signed bytes are computed as unsigned ones.
    zero, made_zero = (zero_of(kind) - kind.dtype.integer_range[0] for kind in kinds)
    return abs(made_zero * 2.0**shift - zero * multiplier) >= _BEYOND_24_BITS


def _check_scales(view: NodeView, sizes: Sequence[int], made: Sequence[int]) -> None:
    """Refuse scales that are not the ratio of the sizes: the vendor knows only sizes."""
    if view.has(3):
        view.need(view.integers(3) == tuple(made), "its sizes are not those of its output")
        return
    if view.has(2) and view.constant(2).size:
        scales = [float(value) for value in view.constant(2).reshape(-1)]
        view.need(len(scales) == len(sizes), "its scales do not fit its input")
        ratios = [big / small for big, small in zip(made, sizes, strict=True)]
        view.need(np.allclose(scales, ratios, rtol=1e-6), "its scales are not the ratio of the sizes")


def _indices(view: NodeView, index: int, bound: int) -> AnyArray:
    """Return constant indices, counted from the beginning."""
    value = view.constant(index)
    view.need(value.dtype.kind in "iu", "its indices are not integers")
    view.need(bool(((value >= -bound) & (value < bound)).all()), f"an index lies outside {bound} entries")
    found: AnyArray = np.where(value < 0, value + bound, value).astype(np.int32)
    return found


def lower_gather(view: NodeView) -> None:
    """Lower Gather with constant indices."""
    sizes = view.shape(0)
    axis = view.axis(view.node.integer("axis", 0), len(sizes))
    place = len(sizes) - 1 - axis
    found = _indices(view, 1, sizes[place])
    view.expect((*sizes[:place], *found.shape, *sizes[place + 1 :]))
    flat = found.reshape(-1)
    held = view.hold(flat, TensorType(DType.I32, (flat.size,)))
    view.need(same_storage(view.kind(0), view.made()), "it requantises while it gathers")
    check_movable(view, view.kind(0))
    middle = (*sizes[:place], flat.size, *sizes[place + 1 :])
    out = view.output()
    if vendor_shape(middle) != vendor_shape(view.made_shape()):
        out = view.new(replace(view.made(), shape=middle))
    view.emit("gather", (view.input(0), held), (out,), (axis, 0))
    if vendor_shape(middle) != vendor_shape(view.made_shape()):
        view.emit("reshape", (out,), (view.output(),), vendor_shape(view.made_shape()))


def lower_gather_elements(view: NodeView) -> None:
    """Lower GatherElements with constant indices."""
    sizes = view.shape(0)
    axis = view.axis(view.node.integer("axis", 0), len(sizes))
    found = _indices(view, 1, sizes[len(sizes) - 1 - axis])
    view.need(found.ndim == len(sizes), "its indices have another rank")
    view.expect(found.shape)
    held = view.hold(found, TensorType(DType.I32, tuple(found.shape)))
    move(view, "gather_elements", (axis,), more=(held,))


MOVING: dict[str, Callable[[NodeView], None]] = {
    "Concat": lower_concat,
    "DepthToSpace": lower_depth_to_space,
    "Dropout": lower_reshape,
    "Expand": lower_expand,
    "Flatten": lower_reshape,
    "Gather": lower_gather,
    "GatherElements": lower_gather_elements,
    "Identity": lower_reshape,
    "Pad": lower_pad,
    "Reshape": lower_reshape,
    "Resize": lower_resize,
    "SpaceToDepth": lower_space_to_depth,
    "Split": lower_split,
    "Squeeze": lower_reshape,
    "Tile": lower_tile,
    "Unsqueeze": lower_reshape,
}
