"""Operators that treat every element alone: tables of all stored values where they are few, float64 for the rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.backends.verisilicon.emulator.floats import rounded_up
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.quotients import quotient_kernel
from dovetail.backends.verisilicon.emulator.reals import BINARY, COMPARISONS, LOGICAL, UNARY, Function, Operator
from dovetail.backends.verisilicon.emulator.shaders import FUNCTIONS, UNTABLED
from dovetail.backends.verisilicon.emulator.singles import exp2, log2
from dovetail.backends.verisilicon.emulator.storing import centred, reals_in_shaders, reals_of, store_of
from dovetail.backends.verisilicon.emulator.streaming import stream_bytes, stream_table
from dovetail.backends.verisilicon.emulator.tables import (
    processed,
    read_table,
    table_of,
)
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import (
    OperatorView,
    all_codes,
    exceeds_tables,
    is_stored,
    multiplier_of,
    scale_of,
)
from dovetail.ir import AnyArray, DType
from dovetail.ir.dtypes import round_to_bf16

_SINGLE_BITS = 24
_PAIR_BITS = 8
"""Widest operands of which all pairs are looked up."""


def as_float(values: AnyArray, output: DType) -> AnyArray:
    """Return values in the carrier of an element type, rounded to it."""
    if output is DType.BF16:
        return round_to_bf16(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(output.carrier)


def finished(item: OperatorView, reals: AnyArray, *, exact: bool = False) -> AnyArray:
    """Return real results as the output stores them."""
    kind = item.made()
    return as_float(reals, kind.dtype) if kind.quant is None else store_of(item, exact=exact).from_reals(reals)


def from_table(entries: AnyArray, position: int = 0) -> Kernel:
    """Return a look-up of one operand."""
    return lambda values: read_table(entries, given(values, position))


def build_unary(item: OperatorView) -> Kernel:
    """Return an operator of one operand."""
    entries = _measured(item) if item.is_stored else None
    if entries is not None:
        return from_table(entries)
    function, shader = UNARY[item.operator.kind](item), _shader(item)
    if shader is not None:
        return _shaded(item, shader)

    def run(stored: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            return finished(item, function(reals_of(stored, item.kind())))

    if is_stored(item.kind()):
        return from_table(run(all_codes(item.kind())))
    return lambda values: run(given(values))


def _shader(item: OperatorView) -> Function | None:
    """Return the function in float32 that a shader computes of numbers in fixed point, or None where none is known."""
    if not item.is_stored or item.operator.route is not Route.SHADER:
        return None
    kind = item.operator.kind
    if kind in FUNCTIONS and item.kind().dtype is item.made().dtype:
        return FUNCTIONS[kind]
    # A slope of 16 bits has no table anywhere: what a shader has of it are single values and those above.
    known = exceeds_tables(item) or (kind == "leaky_relu" and item.made().dtype is DType.I16)
    return UNTABLED[kind](item) if kind in UNTABLED and known else None


def _measured(item: OperatorView) -> AnyArray | None:
    """Return the entries of a table in the tensor or the stream processor, or None where there is none."""
    rule = processed if item.operator.route is Route.PROCESSOR else None
    if item.operator.route is Route.STREAM and item.kind().dtype is item.made().dtype:
        rule = stream_table if item.kind().dtype is DType.I16 else stream_bytes
    return None if rule is None else table_of(item, lambda steps, scales: rule(steps, item, scales))


def _shaded(item: OperatorView, function: Function) -> Kernel:
    """Return a function as a shader computes it, in float32; in fixed point the scales are powers of two."""
    if item.operator.kind in FUNCTIONS:
        with np.errstate(over="ignore", invalid="ignore"):
            return from_table(store_of(item).from_reals(function(reals_in_shaders(all_codes(item.kind()), item))))
    scale, inverse = np.float32(scale_of(item.kind())), np.float32(1.0 / scale_of(item.made()))
    codes = all_codes(item.kind())
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint(function(codes.astype(np.float32) * scale) * inverse)
        entries = np.clip(steps, *item.made().dtype.integer_range).astype(item.made().dtype.carrier)
    return from_table(entries)


def build_binary(item: OperatorView) -> Kernel:
    """Return an operator of two operands."""
    if item.operator.kind == "div" and item.operator.route is Route.STREAM:
        return quotient_kernel(item)
    operator = _multiplied if _is_product_of_16_bits(item) else BINARY[item.operator.kind]
    # Remainders depend on the last bit: measured on all pairs of bytes under 8 pairs of scales.
    single = item.operator.kind == "mod" and item.is_stored and is_stored(item.kind(1))

    def read(stored: AnyArray, index: int) -> AnyArray:
        return reals_in_shaders(stored, item, index) if single else reals_of(stored, item.kind(index))

    def run(first: AnyArray, other: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            return finished(item, operator(read(first, 0), read(other, 1)))

    if item.is_stored and is_stored(item.kind(1)):
        return pair_kernel(item, run)
    return lambda values: run(given(values), given(values, 1))


def _is_product_of_16_bits(item: OperatorView) -> bool:
    wide = all(
        item.kind(index).dtype is DType.I16 and item.kind(index).quant for index in range(len(item.operator.inputs))
    )
    return item.operator.kind == "mul" and item.operator.route is Route.SHADER and wide


def _multiplied(first: AnyArray, other: AnyArray) -> AnyArray:
    """Return a shader's product of numbers of 16 bits, which float32 does not hold: ties go upwards.

    Measured on four parts: 5.9 million products, all equal; to even, one in 60,000 differed.
    """
    return rounded_up(first * other, _SINGLE_BITS)


def build_slopes(item: OperatorView) -> Kernel:
    """Return the slopes of a PRelu; a shader has bytes in float32, and signed ones as unsigned ones.

    Measured on 3 million bytes of four parts: all equal.
    """
    slopes = item.constant(1)
    if (
        not item.is_stored
        or slopes is None
        or item.made().dtype is DType.I16
        or item.operator.route is not Route.SHADER
    ):
        return build_binary(item)
    factors, store = np.float32(reals_of(slopes, item.kind(1))), store_of(item)

    def run(values: Values) -> AnyArray:
        reals = reals_in_shaders(given(values), item)
        return store.from_reals(np.where(reals < 0, reals * factors, reals))

    return run


def build_extreme(item: OperatorView) -> Kernel:
    """Return the larger or the smaller of two operands, whose steps a shader has in those of its output before.

    Measured on 3 million pairs of bytes on four parts.
    """
    affine = all(
        kind.quant is not None and kind.dtype is not DType.I16 for kind in (item.kind(), item.kind(1), item.made())
    )
    if not affine or item.operator.route is not Route.SHADER:
        return build_binary(item)
    operator, store = BINARY[item.operator.kind], store_of(item)

    def run(first: AnyArray, other: AnyArray) -> AnyArray:
        return store.from_steps(operator(counted(first, item), counted(other, item, 1)))

    return pair_kernel(item, run)


def counted(stored: AnyArray, item: OperatorView, index: int = 0) -> AnyArray:
    """Return steps of the output, not rounded: those of an operand times an integer, as shaders count."""
    multiplier, shift = multiplier_of(scale_of(item.kind(index)), scale_of(item.made()))
    return centred(stored, item.kind(index), np.float64) * multiplier / 2.0**shift


def build_power(item: OperatorView) -> Kernel:
    """Return a power by a constant: a logarithm and an exponential in float32; odd whole exponents keep the sign.

    Measured on all bytes and all values of 16 bits with exponents from -3 to 6: equal. Nothing to a negative power is
    no number.
    """
    constant = item.constant(1)
    if not item.is_stored or constant is None:
        return build_binary(item)
    (exponent,) = np.float32(reals_of(constant, item.kind(1))).reshape(-1)

    def run(stored: AnyArray) -> AnyArray:
        base = centred(stored, item.kind(), np.float32) * np.float32(scale_of(item.kind()))
        with np.errstate(all="ignore"):
            power = exp2(log2(np.abs(base)) * exponent)
        power = np.where((base < 0) & (int(exponent) % 2 == 1), -power, power)
        return finished(item, np.where((base == 0) & (exponent < 0), np.float32(np.nan), power))

    return from_table(run(all_codes(item.kind())))


def pair_kernel(item: OperatorView, run: Operator) -> Kernel:
    """Return an operator on two stored operands: a table of what changes, where that is small."""
    narrow = all(8 * item.kind(index).dtype.size_bytes <= _PAIR_BITS for index in (0, 1))
    for index in (0, 1):
        value = item.constant(index)
        if value is not None and value.size == 1:
            codes = all_codes(item.kind(1 - index))
            scalar = value.reshape(1)
            return from_table(run(codes, scalar) if index else run(scalar, codes), 1 - index)
    if not narrow:
        return lambda values: run(given(values), given(values, 1))
    entries = run(all_codes(item.kind(0))[:, None], all_codes(item.kind(1))[None]).reshape(-1)

    def look_up(values: Values) -> AnyArray:
        high = given(values).view(np.uint8).astype(np.uint16) << np.uint16(8)
        return np.take(entries, high | given(values, 1).view(np.uint8))

    return look_up


def build_comparison(item: OperatorView) -> Kernel:
    """Return a comparison of reals."""
    operator = COMPARISONS[item.ints[0]]
    return lambda values: operator(reals_of(given(values), item.kind(0)), reals_of(given(values, 1), item.kind(1)))


def build_logical(item: OperatorView) -> Kernel:
    """Return an operator of two truths."""
    operator = LOGICAL[item.ints[0]]
    return lambda values: operator(given(values), given(values, 1))


def build_not(_: OperatorView) -> Kernel:
    """Return the opposite of a truth."""
    return lambda values: np.logical_not(given(values))


def build_choice(_: OperatorView) -> Kernel:
    """Return the choice between two tensors that are stored alike."""
    return lambda values: np.where(given(values), given(values, 1), given(values, 2))


ELEMENTWISE: dict[str, Callable[[OperatorView], Kernel]] = {
    **dict.fromkeys(UNARY, build_unary),
    **dict.fromkeys(set(BINARY) - {"add", "sub"}, build_binary),
    "pow": build_power,
    "prelu": build_slopes,
    "maximum": build_extreme,
    "minimum": build_extreme,
    "compare": build_comparison,
    "logical": build_logical,
    "logical_not": build_not,
    "select": build_choice,
}
"""Operators of this module by the shim's names."""
