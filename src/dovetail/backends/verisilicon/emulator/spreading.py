"""Instance and group normalisations as the shaders compute them: sums of stored integers, then float32 in their order.

The order is that of the public kernels of ovxlib (TIM-VX, `libnnext/ops/vx`), checked on the vendor's simulator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given, samples_first, with_samples
from dovetail.backends.verisilicon.emulator.singles import cut_single, dotted, grouped, in_turn, inverse_root
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, scale_of, zero_of
from dovetail.ir import AnyArray, DType

_THREADS = 16
_WAYS = 4
_MIDDLE = 128
"""Between a signed byte and the unsigned one of the same bits in order."""
_WORD = (-(2.0**31), 2.0**31 - 1.0)
"""Ends of what a shader converts to, of whose results 16 bits are kept."""


def is_spread_by_shader(item: OperatorView) -> bool:
    """Tell whether a shader normalises stored integers of one type: its rule is known."""
    alike = item.is_stored and item.kind().dtype is item.made().dtype
    return alike and item.operator.route is Route.SHADER


class _Steps:
    """Stored integers as the kernels read them: signed bytes that are not in fixed point as unsigned ones."""

    def __init__(self, item: OperatorView) -> None:
        kind, made = item.kind(), item.made()
        self.wide = kind.dtype is DType.I16
        self.move = _MIDDLE if kind.dtype is DType.I8 and not item.in_fixed_point else 0
        self.zero_in, self.zero_out = zero_of(kind) + self.move, zero_of(made) + self.move
        self.scale, self.inverse = float32(scale_of(kind)), float32(1) / float32(scale_of(made))
        self.lanes = 8 if self.wide else 16
        self.made = made

    def totals(self, rows: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the sums of reals and of their squares over `[..., rows, columns]`: `[..., groups]` of threads."""
        square = float32(self.scale * self.scale)
        # What lies beyond a row is read as the zero point.
        chunks = grouped(rows - self.zero_in, self.lanes)
        columns: list[AnyArray]
        if self.wide:
            parts = [(cut_single(chunks.sum(-1)), self.scale), (cut_single((chunks * chunks).sum(-1)), square)]
            columns = [in_turn(np.moveaxis(part, -2, -1)) * factor for part, factor in parts]
        else:
            # Of stored bytes, and then by the zero point: three terms that nearly cancel.
            read, zero, held = chunks + self.zero_in, self.zero_in, rows.shape[-2] * self.lanes
            sums, squares = cut_single(read.sum((-1, -3))), cut_single((read * read).sum((-1, -3)))
            columns = [
                sums * self.scale + float32(-zero * held) * self.scale,
                squares * square + float32(zero * zero * held) * square + sums * (float32(-2 * zero) * square),
            ]
        first, second = (in_turn(dotted(grouped(column, _THREADS))) for column in columns)
        return first, second

    def weights(self, first: AnyArray, second: AnyArray, count: int, epsilon: float) -> tuple[AnyArray, AnyArray]:
        """Return the mean and the inverse root of the variance; no number where that comes out below 0."""
        share = float32(1.0 / count)
        mean = first * share
        return mean, inverse_root(second * share - mean * mean + float32(epsilon))

    def stored(self, steps: AnyArray, factor: AnyArray, term: AnyArray, *, cut: bool) -> AnyArray:
        """Return stored integers times a factor, with a term added; what is no number becomes 0 before it is stored.

        What is cut wraps around where 16 bits do not hold it: measured on 4,000 such values on V853, A311D and i.MX 8M
        Plus. Whatever is rounded ends at the ends.
        """
        moved = steps.astype(float32) * factor + (term - float32(self.zero_in) * factor)
        if cut:
            numbers = np.where(np.isnan(moved), 0, np.clip(moved.astype(np.float64), *_WORD))
            return np.asarray(np.trunc(numbers).astype(np.int64).astype(self.made.dtype.carrier))
        numbers = np.rint(moved)
        low, high = self.made.dtype.integer_range
        whole = np.where(np.isnan(moved), 0, np.clip(numbers, low + self.move, high + self.move))
        return np.asarray((whole - self.move).astype(self.made.dtype.carrier))

    def read(self, stored: AnyArray) -> AnyArray:
        """Return stored integers as the kernels read them."""
        return stored.astype(np.int64) + self.move

    def line(self, mean: AnyArray, weight: AnyArray, shift: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the factor of steps and the term that is added."""
        return float32(self.scale * self.inverse) * weight, (shift - weight * mean) * self.inverse + float32(
            self.zero_out
        )


def instance_norm(item: OperatorView, gain: AnyArray, shift: AnyArray) -> Kernel:
    """Return `[N, C, H, W]` normalised over H and W; in 16 bits results are cut towards zero."""
    steps = _Steps(item)

    def run(values: Values) -> AnyArray:
        rows = steps.read(samples_first(given(values)))
        with np.errstate(all="ignore"):
            first, second = (in_turn(total) for total in steps.totals(rows))
            mean, root = steps.weights(first, second, rows.shape[-2] * rows.shape[-1], item.floats[0])
            factor, term = steps.line(mean, gain * root, shift)
            found = steps.stored(rows, factor[..., None, None], term[..., None, None], cut=steps.wide)
        return with_samples(found, len(given(values)))

    return run


def group_norm(item: OperatorView, gain: AnyArray, shift: AnyArray) -> Kernel:
    """Return `[N, C, H, W]` normalised over groups of channels, each of which the kernels see as one row."""
    steps, groups = _Steps(item), item.ints[0]

    def run(values: Values) -> AnyArray:
        planes = steps.read(samples_first(given(values)))
        rows = planes.reshape(len(planes), groups, 1, -1)
        with np.errstate(all="ignore"):
            first, second = (_over_threads(total) for total in steps.totals(rows))
            mean, root = steps.weights(first, second, rows.shape[-1], item.floats[0])
            mean, root = (np.repeat(value, planes.shape[1] // groups, axis=-1) for value in (mean, root))
            factor, term = steps.line(mean, gain * root, shift)
            found = steps.stored(planes, factor[..., None, None], term[..., None, None], cut=False)
        return with_samples(found, len(given(values)))

    return run


def _over_threads(totals: AnyArray) -> AnyArray:
    """Return the sums of `[..., groups]` of threads: every sixteenth, then every fourth, then the rest."""
    lanes = np.moveaxis(grouped(totals, _THREADS), -2, -1)
    held = in_turn(lanes)
    ways = held.reshape(*held.shape[:-1], -1, _WAYS)
    return in_turn(in_turn(np.moveaxis(ways, -2, -1)))


SPREADING: dict[str, Callable[[OperatorView, AnyArray, AnyArray], Kernel]] = {
    "group_norm": group_norm,
    "instance_norm": instance_norm,
}
"""Operators of this module by the shim's names."""
