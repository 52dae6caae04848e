"""Means of planes, reductions and normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING, NEWEST, Generation
from dovetail.backends.verisilicon.lowering.elementwise import check_same_kind_of
from dovetail.backends.verisilicon.lowering.moving import BYTES
from dovetail.backends.verisilicon.lowering.tiny import emit_enlarged, emit_power, emit_response
from dovetail.backends.verisilicon.lowering.view import NodeView, is_tiny, same_storage
from dovetail.backends.verisilicon.reductions import WIDEST_WINDOW, is_window, merged
from dovetail.ir import AnyArray, DType, Quantization

_MEAN, _MAXIMAL, _MINIMUM, _PRODUCT = 0, 1, 2, 4
_MOST_FACTORS = 16
_NO_TILING = 161
_AT_ONCE, _EVERY_OTHER = 64, (0, 2)
_ROW = 16
"""Of a LayerNormalization: the vendor's kernels read whole rows of so many bytes."""
_FEWEST = 9
"""Bytes of a plane: in random samples that are the ends of a range, as many are hardly ever alike."""
_TALLEST = 4096
"""Rows of a plane that are normalised as they are."""
_PLANE, _MOST_AXES = 3, 4
_CHANNELS = 2
"""Where the vendor's shape has channels."""
_LENGTH = 100
"""The square root of the sum of squares has an operator of its own there."""


def _check_plane(view: NodeView, axes: tuple[int, ...]) -> None:
    """Refuse means of planes that the newest parts' compilers do not make.

    One size ends V853's: of 180 areas from 4 to 231, each tried once. Of more samples than there are channels, those
    whose elements fill no window of the array, and would fit the largest one, are garbage: 1,610 planes were tried, and
    ten on T527.
    """
    sizes, generation = view.shape(0), view.draft.part.generation
    if generation not in NEWEST or axes != (0, 1):
        return
    count, wide = math.prod(sizes[-2:]), view.kind(0).dtype is DType.I16
    untiled = generation is Generation.VIP9000 and wide and count == _NO_TILING and 1 not in sizes[-2:]
    view.need(not untiled, f"the compiler finds no tiling for the mean of {count} elements")
    crowded = len(sizes) == _MOST_AXES and sizes[0] > sizes[1] and 1 not in sizes[2:] and count <= WIDEST_WINDOW**2
    view.need(
        not crowded or is_window(count, WIDEST_WINDOW),
        f"means of {count} elements, which fill no window, of {sizes[0]} samples, more than there are channels "
        f"({sizes[1]} are possible)",
    )


def _check_apart(view: NodeView, axes: Sequence[int]) -> None:
    """Refuse means over axes that are not neighbours where the compiler ends, or bytes are divided by a wrong number.

    All sets of two axes and more of five and six were tried on V853 and A733: the compiler ends where they come to the
    fastest and the third of more than four. Bytes in fixed point are divided by the next multiple of 64 (6 to 360
    elements), and by other numbers where neighbours among the axes are one.
    """
    sizes = view.shape(0)[::-1]
    seen = merged(sizes, axes)
    if len(seen.axes) == 1:
        return
    view.need(
        seen.places != _EVERY_OTHER or seen.rank <= _MOST_AXES,
        f"a mean along the last axis and the one before the last but one, of {seen.rank} with neighbours taken as one, "
        f"ends the compiler ({_MOST_AXES} are possible)",
    )
    if view.draft.fixed_point and view.kind(0).dtype is DType.I8:
        count, single = math.prod(sizes[axis] for axis in axes), all(len(run) == 1 for run in seen.axes)
        view.need(
            single and (count <= _AT_ONCE or count % _AT_ONCE == 0),
            f"the mean of {count} bytes in dynamic fixed point along axes that are not neighbours, which is divided by "
            f"another number (up to {_AT_ONCE} along single axes are possible, and 16 bits)",
        )


def _emit_mean(view: NodeView, out: int, axes: Sequence[int]) -> None:
    """Emit the mean over axes in the vendor's counting; rows of a single one that fill no window go by planes.

    Newer parts take of samples `[N, 1, W]` only the first sample's mean where W fills no window of theirs. Measured on
    V853, T527 and A733, of 23 lengths; `[N, W]` and `[N, 1, 1, W]` are right.
    """
    sizes = view.shape(0)
    newer = view.draft.part.generation not in CONVERTING
    lost = newer and len(sizes) == _PLANE and sizes[1] == 1 < sizes[0] and 0 in axes
    if not lost or is_window(sizes[-1], WIDEST_WINDOW):
        view.emit("reduce", (view.input(0),), (out,), (_MEAN, 1, *axes))
        return
    data = view.reshaped(view.input(0), (sizes[0], 1, 1, sizes[-1]))
    held = view.new(replace(view.made(), shape=(sizes[0], 1, 1, 1)))
    view.emit("reduce", (data,), (held,), (_MEAN, 1, 0))
    view.emit("reshape", (held,), (out,), (1, 1, sizes[0]))


@dataclass(frozen=True, slots=True)
class GlobalPool:
    """Lower a pooling over all spatial axes."""

    maximum: bool

    def __call__(self, view: NodeView) -> None:
        """Emit a reduction over the spatial axes: exact, where a pooling window would be a convolution."""
        check_same_kind_of(view, (0,))
        sizes = view.shape(0)
        view.need(len(sizes) >= 3, "no spatial axis")
        view.expect((*sizes[:2], *(1,) * (len(sizes) - 2)))
        if len(sizes) > _MOST_AXES and not self.maximum:
            # The vendor's compiler folds more than two axes itself, or ends of them.
            data = view.reshaped(view.input(0), (*sizes[:2], math.prod(sizes[2:])))
            out = view.new(replace(view.made(), shape=(*sizes[:2], 1)))
            view.emit("reduce", (data,), (out,), (0, 1, 0))
            view.emit("reshape", (out,), (view.output(),), tuple(reversed(view.made_shape())))
            return
        axes = tuple(range(len(sizes) - 2))
        if self.maximum and is_tiny(view.kind(0), view.made()):
            held = view.new(replace(view.kind(0), shape=view.made_shape()))
            view.emit("reduce", (view.input(0),), (held,), (1, 1, *axes))
            view.emit("data_convert", (held,), (view.output(),))
            return
        if not self.maximum and all(size == 1 for size in sizes[2:]):
            # The mean of single values ends compilers.
            view.convert(0, view.output(), view.made())
            return
        _check_plane(view, axes)
        if not self.maximum:
            _emit_mean(view, view.output(), axes)
            return
        view.emit("reduce", (view.input(0),), (view.output(),), (_MAXIMAL, 1, *axes))


@dataclass(frozen=True, slots=True)
class Reduce:
    """Lower a reduction over constant axes."""

    code: int

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        check_same_kind_of(view, (0,))
        node, sizes = view.node, view.shape(0)
        rank = len(sizes)
        axes = view.integers(1) if view.has(1) else node.integers("axes")
        if not axes:
            view.need(not node.integer("noop_with_empty_axes", 0), "it does nothing")
            axes = tuple(range(rank))
        found = sorted({view.axis(axis, rank) for axis in axes})
        view.need(len(found) == len(axes), "an axis is given twice")
        view.need(len(found) <= _MOST_AXES, f"{len(found)} axes at once end the compiler ({_MOST_AXES} are possible)")
        keep = bool(node.integer("keepdims", 1))
        gone = {rank - 1 - axis for axis in found}
        kept = [1 if axis in gone else size for axis, size in enumerate(sizes) if keep or axis not in gone]
        view.expect(kept)
        out = view.output()
        if not keep:
            out = view.new(replace(view.made(), shape=tuple(1 if i in gone else size for i, size in enumerate(sizes))))
        self._reduce(view, out, found)
        if not keep:
            view.emit("reshape", (out,), (view.output(),), tuple(reversed(kept)) or (1,))

    def _reduce(self, view: NodeView, out: int, axes: list[int]) -> None:
        data, made = view.kind(0), view.made()
        if self.code == _LENGTH:
            view.emit("reduce_l2", (view.input(0),), (out,), (1, *axes))
            return
        if self.code == _MEAN and all(view.shape(0)[-1 - axis] == 1 for axis in axes):
            # The mean of single values ends compilers.
            view.convert(0, out, made)
            return
        if self.code == _MEAN:
            _check_plane(view, tuple(axes))
            _check_apart(view, axes)
            _emit_mean(view, out, axes)
            return
        if self.code == _PRODUCT:
            count = math.prod(view.shape(0)[-1 - axis] for axis in axes)
            view.need(
                count <= _MOST_FACTORS or data.quant is None,
                f"a product of {count} stored numbers, whose steps are below what the vendor's kernel computes with "
                f"({_MOST_FACTORS} are possible)",
            )
            kind = replace(made, shape=_reduced(view.shape(0), axes))
            emit_power(view, "reduce", kind, out, count, (self.code, 1, *axes))
            return
        if self.code == _MAXIMAL and is_tiny(data, made):
            held = view.new(replace(data, shape=_reduced(view.shape(0), axes)))
            view.emit("reduce", (view.input(0),), (held,), (self.code, 1, *axes))
            view.emit("data_convert", (held,), (out,))
            return
        if self.code != _MINIMUM or data.dtype is not DType.I8 or view.draft.fixed_point:
            view.emit("reduce", (view.input(0),), (out,), (self.code, 1, *axes))
            return
        # The vendor's minimum of 8-bit signed integers is always 0: negate, take the maximum, negate again.
        view.need(data.quant is not None, "its input is not quantised")
        assert data.quant is not None
        mirrored = Quantization(data.quant.scale, (-1 - data.quant.zero_point[0],))
        turned = view.new(replace(data, quant=mirrored))
        shape = _reduced(view.shape(0), axes)
        most = view.new(replace(data, shape=shape, quant=mirrored))
        view.emit("neg", (view.input(0),), (turned,))
        view.emit("reduce", (turned,), (most,), (1, 1, *axes))
        least = out if same_storage(data, made) else view.new(replace(data, shape=shape))
        view.emit("neg", (most,), (least,))
        if least != out:
            view.emit("data_convert", (least,), (out,))


def _reduced(sizes: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with 1 for what is reduced; axes are in the vendor's counting."""
    return tuple(1 if len(sizes) - 1 - index in axes else size for index, size in enumerate(sizes))


@dataclass(frozen=True, slots=True)
class ArgReduce:
    """Lower ArgMax or ArgMin; indices are 32 bits wide there."""

    kind: str

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        node, sizes = view.node, view.shape(0)
        view.need(view.kind(0).holds_reals, "its input is not real")
        view.need(view.made().dtype in (DType.I64, DType.I32), "its output holds no indices")
        view.need(not node.integer("select_last_index", 0), "select_last_index=1")
        axis = view.axis(node.integer("axis", 0), len(sizes))
        position, keep = len(sizes) - 1 - axis, bool(node.integer("keepdims", 1))
        kept = [1 if index == position else size for index, size in enumerate(sizes) if keep or index != position]
        view.expect(kept)
        out = view.new(replace(view.made(), shape=sizes[:position] + sizes[position + 1 :] or (1,)))
        view.emit(self.kind, (view.input(0),), (out,), (axis, 0))
        view.emit("reshape", (out,), (view.output(),), tuple(reversed(kept)) or (1,))


@dataclass(frozen=True, slots=True)
class AlongAxis:
    """Lower Softmax and its like."""

    kind: str
    default: int = -1
    floats: tuple[float, ...] = (1.0,)

    def __call__(self, view: NodeView) -> None:
        """Emit the operator."""
        check_same_kind_of(view, (0,))
        sizes = view.shape(0)
        view.expect(sizes)
        axis = view.axis(view.node.integer("axis", self.default), len(sizes))
        seen = self._seen(sizes, len(sizes) - 1 - axis)
        stream = view.draft.part.generation is Generation.STREAM
        unfilled = stream and self.kind == "softmax" and view.shape(0)[-1 - axis] == 1 and math.prod(sizes) > 1
        view.need(
            not unfilled, "rows of one element, of which nothing fills all but the first (2 and more are possible)"
        )
        if not stream or seen is None:
            view.emit(self.kind, (view.input(0),), (view.output(),), (axis,), self.floats)
            return
        wide, axis = seen
        made = view.new(replace(view.made(), shape=wide))
        view.emit(self.kind, (view.reshaped(view.input(0), wide),), (made,), (axis,), self.floats)
        view.emit("reshape", (made,), (view.output(),), tuple(reversed(view.made_shape())))

    def _seen(self, sizes: Sequence[int], place: int) -> tuple[tuple[int, ...], int] | None:
        """Return with which shape, and along which axis of the vendor's, it is right beside a stream processor.

        Measured on A733 at 8 and 16 bits. The kernel of a Softmax along axes between others, and along batches, is up
        to 30 steps off at 16 bits and one at 8 (seven of 14 shapes), that of a LogSoftmax along rows and channels up to
        two; those along channels, and along columns, are right.
        """
        axis, before, behind = len(sizes) - 1 - place, math.prod(sizes[:place]), math.prod(sizes[place + 1 :])
        if self.kind == "softmax" and axis not in (0, _CHANNELS):
            return (before, sizes[place], 1, behind), _CHANNELS
        if self.kind == "log_softmax" and axis != 1:
            return (before, sizes[place], behind), 1
        return None


def lower_lp_norm(view: NodeView) -> None:
    """Lower LpNormalization with p=2."""
    view.need(view.node.integer("p", 2) == 2, "p is not 2")
    axis = view.node.integer("axis", -1)
    alone = view.shape(0)[axis] == 1
    stream = view.draft.part.generation is Generation.STREAM
    beyond = stream and view.axis(axis, len(view.shape(0))) >= _PLANE
    view.need(
        not beyond, f"along the batch, axis {axis}, which leaves the values as they are (the last three are possible)"
    )
    view.need(not (alone and stream), "rows of one element, which nothing fills (2 and more are possible)")
    AlongAxis("l2_norm", floats=())(view)


def _parameter(view: NodeView, index: int, size: int, fill: float) -> int:
    """Return the id of a float32 vector: a constant input, or `fill` where it is omitted."""
    if not view.has(index):
        return view.hold_float(np.full(size, fill, np.float32))
    value = view.constant(index)
    view.need(view.kind(index).quant is None, f"input {index} is quantised")
    view.need(value.size == size, f"input {index} has {value.size} values for {size} channels")
    return view.hold_float(value.reshape(size))


def lower_batch_norm(view: NodeView) -> None:
    """Lower BatchNormalization with constant statistics."""
    check_same_kind_of(view, (0,))
    view.need(not view.node.integer("training_mode", 0), "training_mode=1")
    sizes = view.shape(0)
    view.need(len(sizes) >= 2, "no channel axis")
    view.expect(sizes)
    scale, bias, mean, variance = (_parameter(view, index, sizes[1], 0.0) for index in (1, 2, 3, 4))
    floats = (view.node.number("epsilon", 1e-5),)
    view.emit("batch_norm", (view.input(0), mean, variance, scale, bias), (view.output(),), (), floats)


def lower_layer_norm(view: NodeView) -> None:
    """Lower LayerNormalization over the last axis."""
    check_same_kind_of(view, (0,))
    sizes = view.shape(0)
    view.expect(sizes)
    view.need(len(view.node.outputs) == 1, "its statistics are asked for")
    axis = view.axis(view.node.integer("axis", -1), len(sizes))
    view.need(axis == 0, "more than the last axis is normalised")
    stream = view.draft.part.generation is Generation.STREAM
    view.need(
        not (view.draft.fixed_point and view.kind(0).dtype is DType.I8) or stream,
        "rows of bytes in dynamic fixed point are normalised to garbage (16 bits are possible)",
    )
    even = view.kind(0).dtype not in BYTES or sizes[-1] % _ROW == 0
    view.need(
        even, f"rows of {sizes[-1]} bytes are normalised to garbage (multiples of {_ROW} and 16 bits are possible)"
    )
    scale, bias = _parameter(view, 1, sizes[-1], 1.0), _parameter(view, 2, sizes[-1], 0.0)
    floats = (view.node.number("epsilon", 1e-5),)
    view.emit("layer_norm", (view.input(0), bias, scale), (view.output(),), (0,), floats)


def lower_instance_norm(view: NodeView) -> None:
    """Lower InstanceNormalization over two spatial axes; planes of many rows are seen as one.

    Of 8,000 rows and more bytes are garbage now and then, of 4,500 a step off; a single row of 60,000 is right.
    """
    check_same_kind_of(view, (0,))
    sizes = view.shape(0)
    view.need(len(sizes) == 4, f"{len(sizes) - 2} spatial axes (2 are possible)")
    view.expect(sizes)
    _check_spread(view, math.prod(sizes[2:]))
    scale, bias = _parameter(view, 1, sizes[1], 1.0), _parameter(view, 2, sizes[1], 0.0)
    floats = (view.node.number("epsilon", 1e-5),)
    data, out, tall = view.input(0), view.output(), sizes[2] > _TALLEST
    if tall:
        row = (*sizes[:2], 1, math.prod(sizes[2:]))
        data, out = view.reshaped(data, row), view.new(replace(view.made(), shape=row))
    view.emit("instance_norm", (data, bias, scale), (out,), (0, 1), floats)
    if tall:
        view.emit("reshape", (out,), (view.output(),), tuple(reversed(view.made_shape())))


def _check_spread(view: NodeView, count: int) -> None:
    """Refuse so few affine bytes that they are often all alike.

    The vendor's kernels subtract the square of the mean from the mean of the squares: what is left of equal bytes is
    often below 0, and its root no number.
    """
    affine = view.kind(0).dtype in BYTES and not view.draft.fixed_point
    shaded = view.draft.part.generation is not Generation.STREAM
    view.need(
        count > _FEWEST or not (affine and shaded),
        f"{count} bytes that are normalised together: equal ones come out as the least value (more than {_FEWEST} are "
        "possible, dynamic fixed point and 16 bits)",
    )


def _check_chunks(view: NodeView, channels: AnyArray) -> None:
    """Refuse a group whose chunks would be scaled as other channels.

    The vendor's kernels see a group as a row, and read the scale of each chunk's first element: the channel that the
    place times the rounded inverse of the plane is cut to.
    """
    plane = math.prod(view.shape(0)[2:])
    shaded = view.draft.part.generation is not Generation.STREAM and view.kind(0).quant is not None
    if not shaded or (channels == channels[0]).all():
        return
    lanes = _ROW if view.kind(0).dtype in BYTES else _ROW // 2
    places = np.arange(plane * len(channels))
    read = ((places // lanes * lanes).astype(np.float32) * np.float32(1.0 / plane)).astype(np.int64)
    view.need(
        bool((read == places // plane).all()),
        f"channels of {plane} elements take the scales of others (groups of one scale are possible, and multiples of "
        f"{lanes})",
    )


def lower_group_norm(view: NodeView) -> None:
    """Lower GroupNormalization with a scale for each channel."""
    check_same_kind_of(view, (0,))
    sizes, groups = view.shape(0), view.node.integer("num_groups", 1)
    view.need(len(sizes) == 4, f"{len(sizes) - 2} spatial axes (2 are possible)")
    view.need(groups >= 1 and sizes[1] % groups == 0, f"{groups} groups of {sizes[1]} channels")
    view.need(all(view.constant(index).size == sizes[1] for index in (1, 2)), "its parameters are not per channel")
    view.expect(sizes)
    _check_spread(view, math.prod(sizes[1:]) // groups)
    for index in (1, 2):
        rows = view.constant(index).reshape(groups, -1)
        view.need(
            bool((rows == rows[0]).all()), "its groups have different scales: the vendor's kernel reads the first's"
        )
        _check_chunks(view, rows[0])
    scale, bias = _parameter(view, 1, sizes[1], 1.0), _parameter(view, 2, sizes[1], 0.0)
    floats = (view.node.number("epsilon", 1e-5),)
    view.emit("group_norm", (view.input(0), bias, scale), (view.output(),), (groups,), floats)


def lower_lrn(view: NodeView) -> None:
    """Lower LRN across channels."""
    check_same_kind_of(view, (0,))
    sizes, node = view.shape(0), view.node
    view.need(len(sizes) == 4, f"{len(sizes) - 2} spatial axes (2 are possible)")
    view.expect(sizes)
    size = node.integer("size", 1)
    view.need(size >= 1 and size % 2 == 1, f"size={size} (odd sizes are possible)")
    fixed = view.kind(0).dtype is DType.I16 or view.draft.fixed_point
    exact = not fixed or node.number("bias", 1.0) == 1.0
    view.need(exact, f"bias={node.number('bias', 1.0):g} at 16 bits or in dynamic fixed point (1 is possible)")
    alone = size == 1 and fixed and view.draft.part.generation is Generation.STREAM
    view.need(not alone, "size=1 in fixed point, which comes out as garbage (3 and affine bytes are possible)")
    tiny = sizes[2:] == (1, 1) and view.draft.fixed_point and view.kind(0).dtype is not DType.I16
    view.need(not tiny, "planes of one byte in dynamic fixed point, which come out as garbage (affine bytes do not)")
    # ONNX divides alpha by the size; the vendor does not.
    emit_response(view, size, node.number("alpha", 1e-4) / size, node.number("beta", 0.75), node.number("bias", 1.0))


def lower_cumsum(view: NodeView) -> None:
    """Lower CumSum along a constant axis."""
    turned = view.node.integer("reverse", 0) and view.kind(0).dtype in BYTES
    view.need(not turned, "reverse=1 of bytes, which comes out as garbage (0 is possible, and 16 bits)")
    check_same_kind_of(view, (0,))
    view.need(view.kind(0).dtype is not DType.I16, "its 16-bit kernel stops the simulator", always=True)
    sizes, node = view.shape(0), view.node
    view.expect(sizes)
    axis = view.whole(1)
    exclusive = node.integer("exclusive", 0) and view.kind(0).dtype in BYTES
    fastest = math.prod(sizes[axis % max(1, len(sizes)) + 1 :]) == 1
    view.need(not (exclusive and fastest), "exclusive=1 of bytes along the last axis, which comes out as garbage")
    ints = (view.axis(axis, len(sizes)), node.integer("exclusive", 0), node.integer("reverse", 0))
    emit_enlarged(view, "cumsum", (), ints)


def lower_topk(view: NodeView) -> None:
    """Lower TopK of the largest values along the last axis, sorted."""
    node, sizes = view.node, view.shape(0)
    count = view.whole(1)
    axis = view.axis(node.integer("axis", -1), len(sizes))
    view.need(axis == 0, "an axis that is not the last")
    view.need(node.integer("largest", 1) == 1 and node.integer("sorted", 1) == 1, "only the largest, sorted")
    view.need(1 <= count <= sizes[-1], f"k={count} of {sizes[-1]}")
    view.need(len(view.node.outputs) == 2 and all(view.node.outputs), "both outputs are needed")
    view.need(view.kind(0).dtype is view.made().dtype and view.kind(0).quant == view.made().quant, "it requantises")
    for index in (0, 1):
        view.expect((*sizes[:-1], count), index)
    view.emit("topk", (view.input(0),), (view.output(0), view.output(1)), (count, 0))


REDUCING: dict[str, Callable[[NodeView], None]] = {
    "ArgMax": ArgReduce("argmax"),
    "ArgMin": ArgReduce("argmin"),
    "BatchNormalization": lower_batch_norm,
    "CumSum": lower_cumsum,
    "GlobalAveragePool": GlobalPool(maximum=False),
    "GlobalMaxPool": GlobalPool(maximum=True),
    "GroupNormalization": lower_group_norm,
    "InstanceNormalization": lower_instance_norm,
    "LRN": lower_lrn,
    "LayerNormalization": lower_layer_norm,
    "LogSoftmax": AlongAxis("log_softmax"),
    "LpNormalization": lower_lp_norm,
    "ReduceL2": Reduce(_LENGTH),
    "ReduceMax": Reduce(1),
    "ReduceMean": Reduce(0),
    "ReduceMin": Reduce(2),
    "ReduceProd": Reduce(4),
    "ReduceSum": Reduce(3),
    "Softmax": AlongAxis("softmax"),
    "TopK": lower_topk,
}
