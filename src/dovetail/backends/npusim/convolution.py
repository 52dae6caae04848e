"""Conv and ConvTranspose on integers.

Sums run in float32 or float64 where the weights prove them exact (every partial sum stays below 2^24 or 2^53), so
that a matrix library does the work; otherwise in int64.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backends.npusim.kernel import Kernel, NodeContext, Values, exact_type, given
from dovetail.backends.npusim.matrix import multiply
from dovetail.backends.npusim.rounding import Store, centred, largest_size
from dovetail.backends.npusim.windows import Window, pad_spatial, window_of
from dovetail.ir import AnyArray, Quantization, TensorType

_COLUMN_ELEMENTS = 1 << 24
"""Most elements of the unfolded input that are held at once; larger batches are cut."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Hold what turns accumulators `[N, O, ...]` into stored outputs."""

    bias: AnyArray | None
    multiplier: AnyArray
    store: Store | None
    """None leaves the products in float64."""

    def finish(self, sums: AnyArray) -> AnyArray:
        """Return `clip(round((sums + bias) * multiplier) + zero point)`."""
        shape = (1, -1) + (1,) * (sums.ndim - 2)
        if self.bias is not None:
            sums += self.bias.astype(sums.dtype).reshape(shape)
        steps: AnyArray = np.multiply(sums, self.multiplier.reshape(shape), dtype=np.float64)
        return steps if self.store is None else self.store.from_steps(steps)


def accumulates(context: NodeContext) -> bool:
    """Tell whether a convolution can run on integers: quantised data and output, constant quantised weight and bias."""
    kinds = context.input_kinds()
    integer = all(kind.quant is not None for kind in kinds) and context.output_kind().quant is not None
    fixed = context.constant(1) is not None and (not context.has(2) or context.constant(2) is not None)
    single = integer and not kinds[0].quant.per_channel and not context.output_kind().quant.per_channel  # type: ignore[union-attr]
    return single and fixed


def _accumulator(context: NodeContext, channel_axis: int, unstored: Quantization | None = None) -> Accumulator:
    """Return an accumulator; with `unstored` one that gives steps of that scale."""
    data, weight = context.input_kind(0).quant, context.input_kind(1).quant
    output = unstored or context.output_kind().quant
    assert data is not None
    assert weight is not None
    assert output is not None
    if weight.axis not in (None, channel_axis):
        raise context.refuse(f"its weight is quantised along axis {weight.axis}, not along its output channels")
    scales = np.asarray(weight.scale, dtype=np.float64)
    multiplier = context.arithmetic.multiplier(data.scale[0], scales, output.scale[0])
    return Accumulator(context.constant(2), multiplier, None if unstored else context.store())


def _working_type(weight: AnyArray, channel_axis: int, bias: AnyArray | None, data: TensorType) -> np.dtype[np.generic]:
    others = tuple(axis for axis in range(weight.ndim) if axis != channel_axis)
    sums = np.abs(weight).sum(axis=others, dtype=np.float64) * largest_size(data)
    largest = float(sums.max(initial=0.0))
    if bias is not None:
        largest += float(np.abs(bias.astype(np.float64)).max(initial=0.0))
    return exact_type(largest)


@dataclass(frozen=True, slots=True)
class Convolution:
    """Run Conv `[N, C, in...] -> [N, O, out...]`."""

    data: TensorType
    weight: AnyArray
    """`[G, O/G, C/G, kernel...]`, centred, in the working type."""
    window: Window
    accumulator: Accumulator
    threads: int

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        stored = given(values, 0)
        sizes = stored.shape[2:]
        outputs = self.window.outputs(sizes)
        paddings = self.window.paddings(sizes)
        groups, each, inner = self.weight.shape[:3]
        columns = groups * inner * int(np.prod(self.window.kernel)) * int(np.prod(outputs))
        step = max(1, _COLUMN_ELEMENTS // max(1, columns))
        parts: list[AnyArray] = []
        for start in range(0, max(1, stored.shape[0]), step):
            batch = centred(stored[start : start + step], self.data, self.weight.dtype)
            padded = pad_spatial(batch, paddings, (0,) * len(sizes), 0.0)
            sums = self._depthwise(padded, outputs) if inner == 1 and each <= 2 else self._product(padded, outputs)
            parts.append(self.accumulator.finish(sums.reshape(len(batch), groups * each, *outputs)))
        return (parts[0] if len(parts) == 1 else np.concatenate(parts),)

    def _product(self, padded: AnyArray, outputs: tuple[int, ...]) -> AnyArray:
        groups, each, inner = self.weight.shape[:3]
        rank, count = self.window.rank, len(padded)
        if all(size == 1 for size in self.window.kernel) and all(step == 1 for step in self.window.strides):
            windows = padded
        else:
            windows = self.window.slide(padded, outputs)
            spatial, kernel = range(2, 2 + rank), range(2 + rank, 2 + 2 * rank)
            windows = windows.transpose(0, 1, *kernel, *spatial)
        positions = int(np.prod(outputs))
        length = inner * int(np.prod(self.window.kernel))
        if groups == 1:
            flat = self.weight.reshape(each, length)
            return multiply(flat, windows.reshape(count, length, positions), self.threads)
        columns = windows.reshape(count, groups, length, positions)
        return multiply(self.weight.reshape(groups, each, length), columns, self.threads)

    def _depthwise(self, padded: AnyArray, outputs: tuple[int, ...]) -> AnyArray:
        groups, each = self.weight.shape[:2]
        sums = np.zeros((len(padded), groups, each, *outputs), dtype=self.weight.dtype)
        term = np.empty_like(sums)
        spread = (1, groups, each) + (1,) * self.window.rank
        source, weight = padded[:, :, None], self.weight[:, :, 0]
        both: tuple[slice | int, ...] = (slice(None), slice(None))
        for offset in itertools.product(*(range(size) for size in self.window.kernel)):
            taps = source[(slice(None), slice(None), slice(None), *self.window.tap(offset, outputs))]
            np.multiply(taps, weight[both + offset].reshape(spread), out=term)
            sums += term
        return sums


@dataclass(frozen=True, slots=True)
class TransposedConvolution:
    """Run ConvTranspose `[N, C, in...] -> [N, O, out...]`: one product, then every tap added at its place."""

    data: TensorType
    weight: AnyArray
    """`[G, O/G * taps, C/G]`, centred, in the working type."""
    window: Window
    accumulator: Accumulator
    threads: int
    output_padding: tuple[int, ...]
    output_shape: tuple[int, ...]

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        stored = given(values, 0)
        count, sizes = stored.shape[0], stored.shape[2:]
        groups, rows, inner = self.weight.shape
        taps = int(np.prod(self.window.kernel))
        each = rows // taps
        batch = centred(stored, self.data, self.weight.dtype).reshape(count, groups, inner, -1)
        terms = multiply(self.weight, batch, self.threads).reshape(count, groups * each, *self.window.kernel, *sizes)
        begins, outputs = self._geometry(sizes)
        full = tuple(
            max((size - 1) * self.window.strides[axis] + self.window.extent(axis), begins[axis] + outputs[axis])
            for axis, size in enumerate(sizes)
        )
        sums = np.zeros((count, groups * each, *full), dtype=self.weight.dtype)
        both: tuple[slice | int, ...] = (slice(None), slice(None))
        for offset in itertools.product(*(range(size) for size in self.window.kernel)):
            sums[both + self.window.tap(offset, sizes)] += terms[both + offset]
        keep = tuple(slice(begin, begin + size) for begin, size in zip(begins, outputs, strict=True))
        return (self.accumulator.finish(np.ascontiguousarray(sums[both + keep])),)

    def _geometry(self, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return where the output begins in the full sum, and its sizes."""
        window, begins, outputs = self.window, [], []
        for axis, size in enumerate(sizes):
            full = (size - 1) * window.strides[axis] + window.extent(axis) + self.output_padding[axis]
            if self.output_shape or window.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
                wanted = self.output_shape[axis] if self.output_shape else size * window.strides[axis]
                total = max(0, full - wanted)
                upper = window.auto_pad == "SAME_UPPER"
                begins.append(total // 2 if upper else total - total // 2)
                outputs.append(wanted)
                continue
            before, after = window.paddings(sizes)[axis]
            begins.append(before)
            outputs.append(full - before - after)
        return tuple(begins), tuple(outputs)


def build_convolution(context: NodeContext, unstored: Quantization | None = None) -> Convolution | None:
    """Return the kernel of a Conv on integers, or None when it is not one; `unstored`: it gives steps of that scale."""
    weight = context.constant(1)
    if weight is None or not accumulates(context):
        return None
    groups = context.node.integer("group", 1)
    values = centred(weight, context.input_kind(1), np.int64)
    working = _working_type(values, 0, context.constant(2), context.input_kind(0))
    shaped = values.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]).astype(working)
    window = window_of(context.node, tuple(weight.shape[2:]))
    return Convolution(context.input_kind(0), shaped, window, _accumulator(context, 0, unstored), context.threads)


def build_transposed_convolution(context: NodeContext) -> Kernel | None:
    """Return the kernel of a ConvTranspose on integers, or None when it is not one."""
    weight = context.constant(1)
    if weight is None or not accumulates(context):
        return None
    node, groups = context.node, context.node.integer("group", 1)
    values = centred(weight, context.input_kind(1), np.int64)
    inner, each = weight.shape[0] // groups, weight.shape[1]
    quant = context.input_kind(1).quant
    if groups > 1 and quant is not None and quant.per_channel:
        return None
    grouped = values.reshape(groups, inner, each, *weight.shape[2:])
    working = _working_type(
        grouped.swapaxes(1, 2).reshape(groups * each, -1), 0, context.constant(2), context.input_kind(0)
    )
    matrix = np.ascontiguousarray(grouped.reshape(groups, inner, -1).swapaxes(1, 2)).astype(working)
    rank = weight.ndim - 2
    return TransposedConvolution(
        context.input_kind(0),
        matrix,
        window_of(node, tuple(weight.shape[2:])),
        _accumulator(context, 1),
        context.threads,
        node.integers("output_padding") or (0,) * rank,
        node.integers("output_shape")[-rank:],
    )
