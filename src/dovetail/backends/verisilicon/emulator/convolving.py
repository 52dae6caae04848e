"""Convolutions and matrix products with constant weights.

Sums of integers run in float32 or float64 where the weights prove them exact (every partial sum stays below 2^24 or
2^53), so that a matrix library does the work; otherwise in int64. Floats are added in float64 and rounded once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.backend.arithmetic import cut_mantissa
from dovetail.backends.verisilicon.emulator.elementwise import as_float
from dovetail.backends.verisilicon.emulator.kernel import (
    Kernel,
    exact_type,
    given,
    samples_first,
    with_samples,
)
from dovetail.backends.verisilicon.emulator.matrix import multiply
from dovetail.backends.verisilicon.emulator.shading import shaded_product
from dovetail.backends.verisilicon.emulator.storing import Store, centred, largest_size, store_of
from dovetail.backends.verisilicon.generation import OLDEST
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, scale_of
from dovetail.backends.verisilicon.windows import PlaneWindow, pad_spatial, window_of
from dovetail.ir import AnyArray, TensorType

_COLUMN_ELEMENTS = 1 << 24
"""Most elements of the unfolded input that are held at once; larger batches are cut."""
_CUT, _WHOLE = 16, 24
"""Bits of an accumulator's multiplier: of the oldest parts, and of float32."""

Sums = Callable[[AnyArray], AnyArray]
"""From centred inputs `[N, C, ...]` to accumulators `[N, O, ...]`."""


@dataclass(frozen=True, slots=True)
class SumOutput:
    """What turns accumulators `[N, O, ...]` into steps of an output, or into reals."""

    bias: AnyArray | None
    multiplier: AnyArray

    def steps(self, sums: AnyArray) -> AnyArray:
        """Return `(sums + bias) * multiplier`."""
        shape = (1, -1) + (1,) * (sums.ndim - 2)
        if self.bias is not None:
            sums += self.bias.astype(sums.dtype).reshape(shape)
        return np.multiply(sums, self.multiplier.reshape(shape), dtype=np.float64)


def multiplier_of(item: OperatorView, made: TensorType) -> AnyArray:
    """Return what accumulators are multiplied by to be steps of a type: one number, or one a channel.

    The array holds `s_x * s_w / s_y` in float32, product first; for scales of channels it is float64 rounded once. The
    oldest parts cut it to 16 bits. Shaders have no multiplier of the array.
    """
    weight = item.kind(1).quant
    assert weight is not None
    data, scales, output = scale_of(item.kind()), np.asarray(weight.scale, np.float64), scale_of(made)
    if item.operator.route is Route.SHADER:
        return np.asarray(data * scales / output)
    if len(scales) > 1:
        single = (data * scales / output).astype(np.float32)
    else:
        single = np.float32(data) * scales.astype(np.float32) / np.float32(output)
    return cut_mantissa(single.astype(np.float64), _CUT if item.generation in OLDEST else _WHOLE)


def product_store(item: OperatorView) -> Store:
    """Return how a product is stored: the array adds the zero point after rounding."""
    return store_of(item) if item.operator.route is Route.SHADER else Store(item.made())


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A product with constant weights: what is added for an input `[N, C, ...]`, and what becomes of it."""

    item: OperatorView
    working: np.dtype[np.generic]
    sums: Sums
    bias: AnyArray | None

    @property
    def accumulator(self) -> float:
        """Return the step of the accumulators in float32, of weights that have one scale."""
        return float(np.float32(scale_of(self.item.kind())) * np.float32(scale_of(self.item.kind(1))))

    def accumulators(self, stored: AnyArray) -> AnyArray:
        """Return what is added up."""
        return SumOutput(self.bias, np.ones(1)).steps(self.sums(centred(stored, self.item.kind(), self.working)))

    def steps(self, stored: AnyArray, made: TensorType) -> AnyArray:
        """Return steps of a type, not rounded."""
        batch = centred(stored, self.item.kind(), self.working)
        return SumOutput(self.bias, multiplier_of(self.item, made)).steps(self.sums(batch))

    def stored(self, stored: AnyArray) -> AnyArray:
        """Return the stored output."""
        if self.item.made().quant is not None:
            return product_store(self.item).from_steps(self.steps(stored, self.item.made()))
        wide = self.sums(stored.astype(np.float64))
        return as_float(SumOutput(self.bias, np.ones(1)).steps(wide), self.item.made().dtype)


def weighted_kernel(total: WeightedSum) -> Kernel:
    """Return a product as a kernel."""
    return lambda values: with_samples(total.stored(samples_first(given(values))), len(given(values)))


def centred_weight(item: OperatorView) -> AnyArray:
    """Return the constant weight as int64 around 0, or as float64."""
    value = item.constant(1)
    assert value is not None
    return value.astype(np.float64) if item.kind(1).quant is None else centred(value, item.kind(1))


def working_type(item: OperatorView, rows: AnyArray, bias: AnyArray | None) -> np.dtype[np.generic]:
    """Return the fastest type in which sums are exact; `rows` are the weights as `[O, terms]`."""
    if item.kind().quant is None:
        return np.dtype(np.float64)
    largest = float((np.abs(rows).sum(axis=1, dtype=np.float64) * largest_size(item.kind())).max(initial=0.0))
    if bias is not None:
        largest += float(np.abs(bias.astype(np.float64)).max(initial=0.0))
    return exact_type(largest)


def convolution(item: OperatorView, threads: int, bias: AnyArray | None = None) -> WeightedSum:
    """Return a convolution `[N, C, H, W] -> [N, O, H, W]`; a depthwise weight lies as `[1, O, H, W]`.

    `bias` stands for one that the operator has not.
    """
    bias = item.constant(2) if bias is None else bias
    groups, made = item.ints[10], item.ints[12]
    weight = centred_weight(item)
    inner = item.shape()[1] // groups
    weight = weight.reshape(groups, made // groups, inner, *weight.shape[2:])
    working = working_type(item, weight.reshape(made, -1), bias)
    window = window_of(item.ints[:8], item.ints[8:10])
    return WeightedSum(item, working, _Convolution(weight.astype(working), window, threads), bias)


@dataclass(frozen=True, slots=True)
class _Convolution:
    """Add the products of a window's elements and weights."""

    weight: AnyArray
    """`[G, O/G, C/G, kernel...]`, centred, in the working type."""
    window: PlaneWindow
    threads: int

    def __call__(self, batch: AnyArray) -> AnyArray:
        """Return the accumulators."""
        sizes = batch.shape[2:]
        groups, each, inner = self.weight.shape[:3]
        outputs = self.window.outputs(sizes)
        columns = groups * inner * int(np.prod(self.window.kernel)) * int(np.prod(outputs))
        step = max(1, _COLUMN_ELEMENTS // max(1, columns))
        add = self._depthwise if inner == 1 and each <= 2 else self._product
        parts: list[AnyArray] = []
        for start in range(0, max(1, len(batch)), step):
            part = batch[start : start + step]
            padded = pad_spatial(part, self.window.paddings, 0.0)
            parts.append(add(padded, outputs).reshape(len(part), groups * each, *outputs))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

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


def transposed_convolution(item: OperatorView, threads: int, bias: AnyArray | None = None) -> WeightedSum:
    """Return a transposed convolution `[N, C, H, W] -> [N, O, H, W]`; its weight lies as `[O, C, H, W]`.

    `bias` stands for one that the operator has not.
    """
    bias = item.constant(2) if bias is None else bias
    weight = centred_weight(item)
    made, inner = weight.shape[:2]
    window = window_of(item.ints[:8])
    working = working_type(item, weight.reshape(made, -1), bias)
    matrix = np.ascontiguousarray(weight.reshape(made, inner, -1).transpose(0, 2, 1)).reshape(-1, inner)
    spread = _Spread(matrix.astype(working), window, item.made_shape()[2:], threads)
    return WeightedSum(item, working, spread, bias)


@dataclass(frozen=True, slots=True)
class _Spread:
    """Make one product, then add every tap at its place."""

    matrix: AnyArray
    """`[O * taps, C]`, centred, in the working type."""
    window: PlaneWindow
    outputs: tuple[int, ...]
    threads: int

    def __call__(self, batch: AnyArray) -> AnyArray:
        """Return the accumulators."""
        count, channels, *sizes = batch.shape
        made = len(self.matrix) // int(np.prod(self.window.kernel))
        terms = multiply(self.matrix, batch.reshape(count, channels, -1), self.threads)
        terms = terms.reshape(count, made, *self.window.kernel, *sizes)
        begins = [before for before, _ in self.window.paddings]
        full = tuple(
            max((size - 1) * self.window.strides[axis] + self.window.extent(axis), begins[axis] + self.outputs[axis])
            for axis, size in enumerate(sizes)
        )
        sums = np.zeros((count, made, *full), dtype=self.matrix.dtype)
        both: tuple[slice | int, ...] = (slice(None), slice(None))
        for offset in itertools.product(*(range(size) for size in self.window.kernel)):
            sums[both + self.window.tap(offset, tuple(sizes))] += terms[both + offset]
        keep = tuple(slice(begin, begin + size) for begin, size in zip(begins, self.outputs, strict=True))
        return np.ascontiguousarray(sums[both + keep])


def build_convolution(item: OperatorView, threads: int) -> Kernel:
    """Return a convolution, transposed or not, as a kernel."""
    if item.operator.route is Route.SHADER and item.is_stored:
        shaded = shaded_product(item)
        if shaded is not None:
            return shaded
    make = transposed_convolution if item.operator.kind == "deconv2d" else convolution
    return weighted_kernel(make(item, threads))
