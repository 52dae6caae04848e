"""Conversions between formats: quantising, dequantising, requantising and casts.

The newest tensor processor rounds every step to 21 bits between floats and stored integers. Measured on all stored
values of 8 bits at three scales, and on floats for stored values of 8 and 16 bits: equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.backend.arithmetic import cut_mantissa
from dovetail.backends.verisilicon.emulator.elementwise import as_float, from_table
from dovetail.backends.verisilicon.emulator.floats import fp21, saturated, single
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.storing import centred, reals_of, store_of, stored_from
from dovetail.backends.verisilicon.emulator.tables import copied, read_table, table_of
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, all_codes, is_stored, scale_of, zero_of
from dovetail.ir import AnyArray, DType, TensorType, dequantize_array

_MULTIPLIER_BITS = {Route.SHADER: 16, Route.STREAM: 24}
"""What conversions keep of their multiplier: in a shader, and on the array beside a stream processor."""

Conversion = Callable[[AnyArray], AnyArray]


def build_conversion(item: OperatorView) -> Kernel:
    """Return the conversion between two element types or quantisations."""
    convert = _conversion(item)
    if is_stored(item.kind()) and item.kind().dtype.size_bytes == 1:
        return from_table(convert(all_codes(item.kind())))
    return lambda values: convert(given(values))


def _conversion(item: OperatorView) -> Conversion:
    kind, made = item.kind(), item.made()
    newest = item.generation is Generation.VIP9000_PLUS
    if kind.quant is not None and made.quant is not None:
        return _requantised(item)
    if made.quant is not None:
        return _to_short_floats(made) if newest and kind.dtype is DType.F32 else lambda real: _quantised(item, real)
    if kind.quant is None:
        return lambda value: as_float(value, made.dtype)
    if newest and made.dtype is DType.F32 and is_stored(kind):
        return _from_short_floats(kind)
    quant = kind.quant
    return lambda stored: as_float(dequantize_array(stored, quant), made.dtype)


def requantised(item: OperatorView, index: int = 0) -> Conversion:
    """Return what takes stored values of an input to the output's type, exactly; the same values for the same type."""
    kind, made = item.kind(index), item.made()
    if kind.quant == made.quant and kind.dtype is made.dtype:
        return lambda stored: stored
    store = store_of(item)
    if kind.dtype.size_bytes > 1:
        return lambda stored: store.from_reals(reals_of(stored, kind))
    entries = store.from_reals(reals_of(all_codes(kind), kind))
    return lambda stored: read_table(entries, stored)


def _requantised(item: OperatorView) -> Conversion:
    if item.operator.route is Route.PROCESSOR and item.is_stored:
        entries = table_of(item, copied)
        return lambda stored: read_table(entries, stored)
    bits = _MULTIPLIER_BITS.get(item.operator.route)
    if bits is not None and item.is_stored:
        multiplier = float(cut_mantissa(np.asarray(scale_of(item.kind()) / scale_of(item.made())), bits))
        return lambda stored: stored_from(np.rint(centred(stored, item.kind()) * multiplier), item.made())
    return requantised(item)


def _quantised(item: OperatorView, real: AnyArray) -> AnyArray:
    """Return stored integers of floats as ONNX defines them: the division is done in float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.divide(real.astype(np.float32), np.float32(scale_of(item.made())))
    steps = np.asarray(ratio).astype(np.float64)
    missing = np.isnan(steps)
    stored = store_of(item).from_steps(np.where(missing, 0.0, steps))
    stored[missing] = 0
    return stored


def _to_short_floats(made: TensorType) -> Conversion:
    inverse = fp21(single(1.0 / scale_of(made)))
    # Signed bytes are computed as unsigned ones.
    move = 128 if made.dtype is DType.I8 else 0
    zero = zero_of(made) + move
    lowest, highest = (edge + move for edge in made.dtype.integer_range)

    def convert(real: AnyArray) -> AnyArray:
        moved = fp21(fp21(fp21(real) * inverse) + zero)
        return np.asarray((saturated(moved, lowest, highest) - move).astype(made.dtype.carrier))

    return convert


def _from_short_floats(kind: TensorType) -> Conversion:
    scale = fp21(scale_of(kind))
    return lambda stored: np.asarray(fp21(centred(stored, kind) * scale).astype(np.float32))


def build_cast(item: OperatorView) -> Kernel:
    """Return a cast between floats, integers and truths."""
    made = item.made().dtype
    if made.is_float:
        return lambda values: as_float(given(values), made)
    return lambda values: given(values).astype(made.carrier)


def build_concat(item: OperatorView) -> Kernel:
    """Return tensors joined along an axis, each first stored as the output is."""
    count, axis = len(item.operator.inputs), -1 - item.ints[0]
    changes = [_copied(item, index) for index in range(count)]

    def run(values: Values) -> AnyArray:
        parts = [change(given(values, index)) for index, change in enumerate(changes)]
        samples = max(len(part) for part in parts)
        return np.concatenate([np.broadcast_to(part, (samples, *part.shape[1:])) for part in parts], axis)

    return run


def _copied(item: OperatorView, index: int) -> Conversion:
    """Return what a copy makes of an operand: each has its own scale."""
    kind, made = item.kind(index), item.made()
    if made.quant is None or kind.quant is None:
        return lambda value: value
    if item.operator.route is Route.PROCESSOR and is_stored(kind) and kind.dtype is made.dtype:
        entries = table_of(item, copied, index)
        return lambda stored: read_table(entries, stored)
    return requantised(item, index)


CONVERTING: dict[str, Callable[[OperatorView], Kernel]] = {
    "cast": build_cast,
    "concat": build_concat,
    "data_convert": build_conversion,
}
"""Operators of this module by the shim's names."""
