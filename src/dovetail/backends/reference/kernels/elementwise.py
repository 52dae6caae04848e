"""Arithmetic on elements with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernel, Kernels
from dovetail.ir import AnyArray


def _unary(function: Callable[[AnyArray], AnyArray]) -> Kernel:
    return lambda call: (np.asarray(function(call.x)),)


def _binary(function: Callable[[AnyArray, AnyArray], AnyArray]) -> Kernel:
    return lambda call: (np.asarray(function(call.input(0), call.input(1))),)


def _variadic(function: Callable[[AnyArray, AnyArray], AnyArray]) -> Kernel:
    return lambda call: (np.asarray(reduce(function, call.present())),)


def _divide(left: AnyArray, right: AnyArray) -> AnyArray:
    """Divide; integers are truncated towards zero as in C."""
    if left.dtype.kind == "f":
        return np.asarray(np.divide(left, right))
    quotient = np.asarray(np.floor_divide(left, right))
    inexact = np.asarray(quotient * right != left)
    negative = np.asarray((left < 0) != (right < 0))
    return np.asarray(quotient + (inexact & negative).astype(quotient.dtype))


def _modulo(call: Call) -> tuple[AnyArray, ...]:
    """Take the remainder: the sign of the divisor, or of the dividend with fmod=1."""
    function = np.fmod if call.node.integer("fmod", 0) else np.mod
    return (np.asarray(function(call.input(0), call.input(1))),)


def _power(call: Call) -> tuple[AnyArray, ...]:
    base, exponent = call.input(0), call.input(1)
    if base.dtype.kind == "f":
        return (np.asarray(np.power(base, exponent.astype(np.float64))),)
    if exponent.dtype.kind == "f" or bool(np.any(exponent < 0)):
        real = np.power(base.astype(np.float64), exponent.astype(np.float64))
        return (real.astype(base.dtype),)
    return (np.power(base, exponent.astype(base.dtype)),)


def _erf(x: AnyArray) -> AnyArray:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)) if x.size else x


def _mean(call: Call) -> tuple[AnyArray, ...]:
    values = call.present()
    return (np.asarray(reduce(np.add, values)) / len(values),)


def _clip(call: Call) -> tuple[AnyArray, ...]:
    """Clip between inputs 1 and 2; the upper bound wins when they cross."""
    x = call.x
    lowest, highest = call.optional(1), call.optional(2)
    if lowest is not None:
        x = np.maximum(x, lowest)
    if highest is not None:
        x = np.minimum(x, highest)
    return (np.asarray(x),)


def _bit_shift(call: Call) -> tuple[AnyArray, ...]:
    shift = np.left_shift if call.node.text("direction", "LEFT") == "LEFT" else np.right_shift
    return (np.asarray(shift(call.input(0), call.input(1))),)


def _cum_sum(call: Call) -> tuple[AnyArray, ...]:
    x, axis = call.x, int(call.scalar(1, 0))
    reverse, exclusive = call.node.integer("reverse", 0), call.node.integer("exclusive", 0)
    x = np.flip(x, axis) if reverse else x
    total = np.cumsum(x, axis=axis, dtype=x.dtype)
    total = np.asarray(total - x) if exclusive else total
    return (np.flip(total, axis) if reverse else total,)


def _reciprocal(x: AnyArray) -> AnyArray:
    return np.asarray(1.0 / x)


def _sign(x: AnyArray) -> AnyArray:
    return np.asarray(np.sign(x))


KERNELS: Kernels = {
    "Abs": _unary(np.abs),
    "Acos": _unary(np.arccos),
    "Acosh": _unary(np.arccosh),
    "Add": _binary(np.add),
    "Asin": _unary(np.arcsin),
    "Asinh": _unary(np.arcsinh),
    "Atan": _unary(np.arctan),
    "Atanh": _unary(np.arctanh),
    "BitShift": _bit_shift,
    "BitwiseAnd": _binary(np.bitwise_and),
    "BitwiseNot": _unary(np.bitwise_not),
    "BitwiseOr": _binary(np.bitwise_or),
    "BitwiseXor": _binary(np.bitwise_xor),
    "Ceil": _unary(np.ceil),
    "Clip": _clip,
    "Cos": _unary(np.cos),
    "Cosh": _unary(np.cosh),
    "CumSum": _cum_sum,
    "Div": _binary(_divide),
    "Erf": _unary(_erf),
    "Exp": _unary(np.exp),
    "Floor": _unary(np.floor),
    "Log": _unary(np.log),
    "Max": _variadic(np.maximum),
    "Mean": _mean,
    "Min": _variadic(np.minimum),
    "Mod": _modulo,
    "Mul": _binary(np.multiply),
    "Neg": _unary(np.negative),
    "Pow": _power,
    "Reciprocal": _unary(_reciprocal),
    "Round": _unary(np.rint),
    "Sign": _unary(_sign),
    "Sin": _unary(np.sin),
    "Sinh": _unary(np.sinh),
    "Sqrt": _unary(np.sqrt),
    "Sub": _binary(np.subtract),
    "Sum": _variadic(np.add),
    "Tan": _unary(np.tan),
    "Tanh": _unary(np.tanh),
}
