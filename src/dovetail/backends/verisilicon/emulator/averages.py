"""Poolings, and averages that the compiler turns into convolutions on the multiply-accumulate array.

The weights are quantised like those of any convolution: 255 steps where tensors are affine bytes, 7 bits in dynamic
fixed point. The accumulator's multiplier is that of a convolution, cut to the width of the part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.backend.arithmetic import cut_mantissa
from dovetail.backends.verisilicon.emulator.converting import requantised
from dovetail.backends.verisilicon.emulator.elementwise import finished
from dovetail.backends.verisilicon.emulator.floats import single
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given, samples_first, with_samples
from dovetail.backends.verisilicon.emulator.storing import MIDDLE, Store, centred, reals_of, stored_from
from dovetail.backends.verisilicon.generation import OLDEST, Generation
from dovetail.backends.verisilicon.program import Quant, Route
from dovetail.backends.verisilicon.views import OperatorView, scale_of, zero_of
from dovetail.backends.verisilicon.windows import PlaneWindow, pad_spatial, window_of
from dovetail.ir import AnyArray, DType, TensorType

STEPS = 255
"""Between the lowest and the highest byte weight."""
_FIXED_POINT_BITS = 7
_MOST_FRACTION_BITS = 12
_HALF = 0.5
"""The mantissa of a power of two."""
_FLOORED = (0, 3, 3, 1, 1)
"""The average over 3 x 3 with strides of 1 and pads that are not counted, as the shim lays it out."""
_PLANE = (0, 1)
_FLAT = 4
"""The axes of a mean over rows and columns, and of the tensor that has them."""
_WITH_PAD, _MAXIMUM = 1, 2
"""Codes of a pooling: an average that counts padding, and the largest."""
_TO_FLOAT32, _CUT = 24, 16
"""Bits of a multiplier: what float32 has, and what the oldest parts keep."""


def held(weight: float, data: float, made: float, generation: Generation) -> float:
    """Return the multiplier of a weight's, an input's and an output's scale as the array holds it."""
    quotient = float(np.float32(weight) * np.float32(data) / np.float32(made))
    return float(cut_mantissa(np.asarray(quotient), _CUT if generation in OLDEST else _TO_FLOAT32))


@dataclass(frozen=True, slots=True)
class Average:
    """An average over windows of `[N, C, H, W]` as a convolution with equal weights; `term` is its bias."""

    item: OperatorView
    window: PlaneWindow
    planes: tuple[int, ...]
    """The shape, without samples, in which the input is seen."""
    term: AnyArray | float = 0.0

    @property
    def accumulator(self) -> float:
        """Return the step of the accumulators in float32."""
        return float(np.float32(scale_of(self.item.kind())) * np.float32(self._weight[1]))

    @property
    def _weight(self) -> tuple[float, float]:
        """Return the weight as the array holds it, and its step."""
        count = math.prod(self.window.kernel)
        if self.item.kind().dtype is DType.I16 or self.item.form().quant is Quant.FIXED_POINT:
            return _fixed_weight(count)
        return float(STEPS), float(single(float(single(1.0 / count)) / STEPS))

    def accumulators(self, stored: AnyArray) -> AnyArray:
        """Return what is added up."""
        kind, (weight, step) = self.item.kind(), self._weight
        seen = centred(stored, kind).reshape(-1, *self.planes)
        total = _sums(pad_spatial(seen, self.window.paddings, 0), self.window, self.window.outputs(seen.shape[2:]))
        return np.asarray(total * weight + np.rint(np.asarray(self.term, dtype=np.float64) / (step * scale_of(kind))))

    def steps(self, stored: AnyArray, made: TensorType) -> AnyArray:
        """Return steps of a type, not rounded."""
        kind, step = self.item.kind(), self._weight[1]
        if kind.dtype is DType.I16 or self.item.form().quant is Quant.FIXED_POINT:
            multiplier = step * scale_of(kind) / scale_of(made)
        else:
            multiplier = held(step, scale_of(kind), scale_of(made), self.item.generation)
        return np.asarray(np.multiply(self.accumulators(stored), multiplier, dtype=np.float64))


def average_of(item: OperatorView, term: AnyArray | float = 0.0) -> Average:
    """Return the average that a pooling or a mean on the array is; `term` is added to each channel."""
    shape = item.shape()
    if item.operator.kind == "pool2d":
        return Average(item, window_of(item.ints[1:9]), shape[1:], term)
    # A plane of four axes, or a row of whatever others are seen as one.
    count = math.prod(shape) // math.prod(item.made_shape())
    rows, columns = shape[2:] if item.ints[2:] == _PLANE and len(shape) == _FLAT else (1, count)
    window = PlaneWindow((rows, columns), (1, 1), (1, 1), ((0, 0), (0, 0)))
    return Average(item, window, (math.prod(shape[1:]) // count, rows, columns), term)


def array_average(average: Average) -> Kernel:
    """Return an average on the array as a kernel."""
    made, shape = average.item.made(), average.item.made_shape()

    def run(values: Values) -> AnyArray:
        steps = np.rint(average.steps(samples_first(given(values)), made))
        return stored_from(steps, made).reshape(len(given(values)), *shape)

    return run


def _fixed_weight(count: int) -> tuple[float, float]:
    """Return 1 / count as the array holds it, and its step: 7 bits, of which none lies below 2 ** -12.

    Of a power of two it is a single step: a bias is rounded to those.
    """
    mantissa, exponent = math.frexp(1.0 / count)
    if mantissa == _HALF:
        return 1.0, 1.0 / count
    bits = min(_FIXED_POINT_BITS - exponent, _MOST_FRACTION_BITS)
    return float(np.rint(math.ldexp(1.0 / count, bits))), math.ldexp(1.0, -bits)


def _sums(padded: AnyArray, window: PlaneWindow, outputs: tuple[int, ...]) -> AnyArray:
    """Return the sums over the windows of a padded input."""
    total = np.zeros((*padded.shape[:2], *outputs), padded.dtype)
    for offset in itertools.product(*(range(size) for size in window.kernel)):
        total += padded[(slice(None), slice(None), *window.tap(offset, outputs))]
    return total


def build_pool(item: OperatorView) -> Kernel:
    """Return a pooling of `[N, C, H, W]`."""
    window = window_of(item.ints[1:9])
    if item.ints[0] == _MAXIMUM:
        return _maximum(item, window)
    if item.operator.route is Route.ARRAY:
        return array_average(average_of(item))
    if item.is_stored:
        wide = item.in_fixed_point or item.kind().dtype is DType.I16
        floored = item.ints[:5] == _FLOORED and not wide
        return _floored_average(item, window) if floored else _shaded_average(item, window)
    counted, made = item.ints[0] == _WITH_PAD, item.made()
    # A shader's everywhere: parts with a stream processor add the zero point before rounding, too.
    store = None if made.quant is None else Store(made, moved_before=True)

    def run(values: Values) -> AnyArray:
        sums, counts = _totals(samples_first(reals_of(given(values), item.kind())), window, counted=counted)
        stored = finished(item, sums / counts) if store is None else store.from_reals(np.asarray(sums / counts))
        return with_samples(stored, len(given(values)))

    return run


def _shaded_average(item: OperatorView, window: PlaneWindow) -> Kernel:
    """Return averages in float32: sums times the quotient of the scales and the number of values.

    The kernel finds the number itself where it varies, in float32, too. The sum of a whole plane of bytes in fixed
    point is multiplied by half precision: measured on four parts.
    """
    kind, made, counted = item.kind(), item.made(), item.ints[0] == _WITH_PAD
    varied = any(map(any, window.paddings)) and not counted
    factor = np.asarray(scale_of(kind) / scale_of(made), np.float32 if varied else np.float64)
    signed = made.dtype is DType.I8 and not item.in_fixed_point
    halved = item.in_fixed_point and DType.I16 not in (kind.dtype, made.dtype) and window.kernel == item.shape()[-2:]
    store = Store(made, moved_before=True, single=True, shift=MIDDLE if signed else 0)

    def run(values: Values) -> AnyArray:
        sums, counts = _totals(centred(samples_first(given(values)), kind), window, counted=counted)
        each = factor / counts.astype(factor.dtype)
        each = each.astype(np.float16) if halved else each
        steps = sums.astype(np.float32) * each.astype(np.float32)
        return with_samples(store.from_steps(steps), len(given(values)))

    return run


def _floored_average(item: OperatorView, window: PlaneWindow) -> Kernel:
    """Return averages of affine bytes over 3 x 3, which the vendor's kernel rounds down."""
    kind, made = item.kind(), item.made()
    factor, (low, high) = scale_of(kind) / scale_of(made), made.dtype.integer_range

    def run(values: Values) -> AnyArray:
        sums, counts = _totals(centred(samples_first(given(values)), kind), window, counted=False)
        steps = np.floor(single(sums / counts * factor + zero_of(made)))
        return with_samples(np.clip(steps, low, high).astype(made.dtype.carrier), len(given(values)))

    return run


def _totals(x: AnyArray, window: PlaneWindow, *, counted: bool) -> tuple[AnyArray, AnyArray]:
    """Return the sums over all windows and how many values they are of; `counted`: of padding too."""
    outputs = window.outputs(x.shape[2:])
    ones = pad_spatial(np.ones((1, 1, *x.shape[2:])), window.paddings, float(counted))
    return _sums(pad_spatial(x, window.paddings, 0.0), window, outputs), _sums(ones, window, outputs)


def _maximum(item: OperatorView, window: PlaneWindow) -> Kernel:
    """Return the largest of every window: order does not change when values are stored otherwise."""
    kind = item.kind()
    lowest = -math.inf if kind.quant is None else kind.dtype.integer_range[0]
    store = requantised(item)

    def run(values: Values) -> AnyArray:
        stored = samples_first(given(values))
        padded, outputs = pad_spatial(stored, window.paddings, lowest), window.outputs(stored.shape[2:])
        taps = itertools.product(*(range(size) for size in window.kernel))
        both = (slice(None), slice(None))
        most = padded[(*both, *window.tap(next(taps), outputs))]
        for offset in taps:
            most = np.maximum(most, padded[(*both, *window.tap(offset, outputs))])
        return with_samples(store(most), len(given(values)))

    return run


POOLING: dict[str, Callable[[OperatorView], Kernel]] = {"pool2d": build_pool}
"""Operators of this module by the shim's names."""
