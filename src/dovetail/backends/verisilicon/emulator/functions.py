"""The functions that the tensor processor's tables are filled with.

`USER`: ovxlib fills a table in float32 at fixed knots (`vsi_nn_kernel_lut.c` of TIM-VX 1.2 is its public source), and
the driver reads that table again at the knots that it needs. `NATIVE`: the driver evaluates the function itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.floats import single
from dovetail.backends.verisilicon.views import OperatorView
from dovetail.ir import AnyArray

Function = Callable[[AnyArray], AnyArray]
Maker = Callable[[OperatorView], Function]
"""Reads an operator's parameters; the function takes and returns float64."""


def _exp(x: AnyArray) -> AnyArray:
    """Return the float32 exponential, correctly rounded; numpy's own float32 kernel is not."""
    return np.exp(x.astype(np.float64)).astype(float32)


def _log(x: AnyArray) -> AnyArray:
    return np.log(x.astype(np.float64)).astype(float32)


def _in_float32(function: Callable[[AnyArray], AnyArray]) -> Function:
    def wrapped(x: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            return function(x.astype(float32)).astype(np.float64)

    return wrapped


def _selu(alpha: float, gamma: float) -> Function:
    a, g = float32(alpha), float32(gamma)
    return _in_float32(lambda x: np.where(x >= 0, x * g, _exp(x) * a * g - a * g))


def _celu(alpha: float) -> Function:
    a = float32(alpha)
    return _in_float32(lambda x: np.maximum(x, float32(0)) + np.minimum(a * (_exp(x / a) - float32(1)), float32(0)))


def _hard_sigmoid(alpha: float, beta: float) -> Function:
    a, b = float32(alpha), float32(beta)
    return _in_float32(lambda x: np.clip(a * x + b, float32(0), float32(1)))


def _mish(x: AnyArray) -> AnyArray:
    soft = _log(_exp(x) + float32(1))
    return np.asarray((x.astype(np.float64) * np.tanh(soft.astype(np.float64))).astype(float32))


def _erf(x: AnyArray) -> AnyArray:
    """Sum the Maclaurin series in float32 until a term is below 1e-5, as ovxlib does; beyond 3 it is 1."""
    total, term, power = np.zeros_like(x), x.copy(), x.copy()
    factorial, sign = float32(1), 1
    for n in range(1, 60):
        going = np.abs(term) > 1e-5
        if not going.any():
            break
        total = np.where(going, total + term, total)
        factorial, sign = float32(factorial * float32(n)), -sign
        power = power * (x * x)
        following = float32(sign) / factorial * power / float32(2 * n + 1)
        term = np.where(going, following, term)
    result = total * float32(1.1283791670955126)
    return np.where(x <= -3, float32(-1), np.where(x >= 3, float32(1), result))


def clip_function(item: OperatorView) -> Function:
    """Return a clamp in float32."""
    low, high = (float32(bound) for bound in item.floats)
    return _in_float32(lambda x: np.clip(x, low, high))


USER: dict[str, Maker] = {
    "atan": lambda _: _in_float32(lambda x: np.arctan(x.astype(np.float64)).astype(float32)),
    "celu": lambda item: _celu(item.floats[0]),
    "elu": lambda item: _selu(item.floats[0], 1.0),
    "erf": lambda _: _in_float32(_erf),
    "hard_sigmoid": lambda item: _hard_sigmoid(*item.floats),
    "log": lambda _: _in_float32(_log),
    "mish": lambda _: _in_float32(_mish),
    "reciprocal": lambda _: _in_float32(lambda x: float32(1) / x),
    "selu": lambda item: _selu(*item.floats),
    "softsign": lambda _: _in_float32(lambda x: x / (float32(1) + np.abs(x))),
    "tan": lambda _: _in_float32(lambda x: np.tan(x.astype(np.float64)).astype(float32)),
}
"""Functions of tables that ovxlib fills."""


def _leaky(slope: float) -> Function:
    s = float(float32(slope))
    return lambda x: np.where(x < 0, single(s * x), x)


def _gelu(item: OperatorView) -> Function:
    if item.ints[0]:
        return _in_float32(_gelu_by_tanh)
    root = float32(math.sqrt(2.0))
    return _in_float32(lambda x: float32(0.5) * x * (float32(1) + _rational_erf(x / root)))


_ABOVE = (
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
    *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
)
_BELOW = (
    *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03),
    -1.42647390514189e-02,
)
"""Coefficients of a quotient that is used widely for erf in float32, those of the highest powers first."""
_ERF_ENDS = 4.0


def _rational_erf(x: AnyArray) -> AnyArray:
    """Return erf as the driver computes it for Gelu: 1059 of 1059 values read from compiled tables are equal."""
    at = np.clip(x, float32(-_ERF_ENDS), float32(_ERF_ENDS))
    above, below = (_polynomial(at * at, coefficients) for coefficients in (_ABOVE, _BELOW))
    return np.asarray(above * at / below)


def _polynomial(x: AnyArray, coefficients: tuple[float, ...]) -> AnyArray:
    """Return a polynomial in float32."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + float32(coefficient)
    return total


def _gelu_by_tanh(x: AnyArray) -> AnyArray:
    inner = float32(0.7978845834732056) * (x + float32(0.044715) * x * x * x)
    return x * (0.5 * (1.0 + np.tanh(inner.astype(np.float64)))).astype(float32)


def _sigmoid(x: AnyArray) -> AnyArray:
    return float32(1) / (float32(1) + _exp(-x))


def _swish(x: AnyArray) -> AnyArray:
    return np.asarray(x / (float32(1) + _exp(-x)))


def _hard_swish(x: AnyArray) -> AnyArray:
    return np.asarray(x * np.clip(x / 6.0 + 0.5, 0.0, 1.0))


NATIVE: dict[str, Maker] = {
    "gelu": _gelu,
    "hard_swish": lambda _: _hard_swish,
    "leaky_relu": lambda item: _leaky(item.floats[0]),
    "neg": lambda _: np.negative,
    "sigmoid": lambda _: _in_float32(_sigmoid),
    "square": lambda _: np.square,
    "swish": lambda _: _in_float32(_swish),
}
"""Functions that the driver evaluates at the knots."""

ODD: dict[str, Maker] = {"tanh": lambda _: np.tanh}
"""Functions of a table for positive values only, with twice as many knots; the sign is put back."""


_LARGEST_EXPONENT = float(np.log(np.finfo(float32).max))
_BEYOND = 1e30
"""More than any stored type holds."""


def _softplus(x: AnyArray) -> AnyArray:
    """Take the logarithm in float64 of an exponential in float32: 22,000 entries of compiled tables are equal."""
    return np.where(x > _LARGEST_EXPONENT, _BEYOND, np.log(1.0 + _exp(x).astype(np.float64)))


STREAMED: dict[str, Maker] = {
    "sigmoid": lambda _: _in_float32(lambda x: 1.0 / (1.0 + _exp(-x).astype(np.float64))),
    "softplus": lambda _: _in_float32(_softplus),
    "swish": lambda _: lambda x: x / (1.0 + np.exp(-x)),
}
"""More functions of the stream processor's tables, and those that it divides in float64."""
STREAMED_ODD: dict[str, Maker] = {"sqrt": lambda _: np.sqrt}
"""The root of a negative number of 16 bits is that of its size with the sign put back."""
STREAMED_BYTES: dict[str, Maker] = {
    "acosh": lambda _: np.arccosh,
    "atanh": lambda _: np.arctanh,
    "cos": lambda _: np.cos,
    "erf": lambda _: np.vectorize(math.erf, otypes=[np.float64]),
    "exp": lambda _: np.exp,
    "sin": lambda _: np.sin,
}
"""Functions that only bytes have in the stream processor."""
