"""Operators on real values in float64: what they are in mathematics, before anything is stored."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail.backends.verisilicon.views import OperatorView
from dovetail.ir import AnyArray

Function = Callable[[AnyArray], AnyArray]
Operator = Callable[[AnyArray, AnyArray], AnyArray]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(item: OperatorView) -> Function:
    if item.ints[0]:
        return lambda x: np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))
    return lambda x: np.asarray(0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))))


def _celu(item: OperatorView) -> Function:
    alpha = item.floats[0]
    return lambda x: np.asarray(np.maximum(x, 0.0) + alpha * np.expm1(np.minimum(x, 0.0) / alpha))


def _selu(alpha: float, gamma: float) -> Function:
    return lambda x: np.asarray(gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))))


def _hard_sigmoid(alpha: float, beta: float) -> Function:
    return lambda x: np.asarray(np.clip(alpha * x + beta, 0.0, 1.0))


def _plain(function: Function) -> Callable[[OperatorView], Function]:
    return lambda _: function


_LARGEST_EXPONENT = float(np.log(np.finfo(np.float32).max))


def _softplus(x: AnyArray) -> AnyArray:
    """Return the logarithm of 1 + e^x, infinite where a float32 cannot hold e^x."""
    return np.where(x > _LARGEST_EXPONENT, np.inf, np.logaddexp(x, 0.0))


UNARY: dict[str, Callable[[OperatorView], Function]] = {
    "abs": _plain(np.abs),
    "acosh": _plain(np.arccosh),
    "atan": _plain(np.arctan),
    "atanh": _plain(np.arctanh),
    "ceil": _plain(np.ceil),
    "celu": _celu,
    "clip": lambda item: lambda x: np.asarray(np.clip(x, item.floats[0], item.floats[1])),
    "cos": _plain(np.cos),
    "elu": lambda item: _selu(item.floats[0], 1.0),
    "erf": _plain(lambda x: np.asarray(_erf(x))),
    "exp": _plain(np.exp),
    "floor": _plain(np.floor),
    "gelu": _gelu,
    "hard_sigmoid": lambda item: _hard_sigmoid(*item.floats),
    "hard_swish": _plain(lambda x: np.asarray(x * np.clip(x / 6.0 + 0.5, 0.0, 1.0))),
    "leaky_relu": lambda item: lambda x: np.where(x < 0, item.floats[0] * x, x),
    "log": _plain(np.log),
    "mish": _plain(lambda x: np.asarray(x * np.tanh(np.logaddexp(x, 0.0)))),
    "neg": _plain(np.negative),
    "reciprocal": _plain(np.reciprocal),
    "relu": _plain(lambda x: np.asarray(np.maximum(x, 0.0))),
    "round": _plain(np.rint),
    "selu": lambda item: _selu(*item.floats),
    "sigmoid": _plain(lambda x: np.asarray(1.0 / (1.0 + np.exp(-x)))),
    "sign": _plain(np.sign),
    "sin": _plain(np.sin),
    "softplus": _plain(_softplus),
    "softsign": _plain(lambda x: np.asarray(x / (1.0 + np.abs(x)))),
    "sqrt": _plain(np.sqrt),
    "square": _plain(np.square),
    "swish": _plain(lambda x: np.asarray(x / (1.0 + np.exp(-x)))),
    "tan": _plain(np.tan),
    "tanh": _plain(np.tanh),
}
"""Functions of one operand, from float64 to float64."""

BINARY: dict[str, Operator] = {
    "add": np.add,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.fmod,
    "mul": np.multiply,
    "pow": np.power,
    "prelu": lambda x, slope: np.where(x < 0, x * slope, x),
    "sub": np.subtract,
}
"""Operators of two operands that broadcast, in float64."""

COMPARISONS: tuple[Operator, ...] = (
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
    np.equal,
)
LOGICAL: tuple[Operator, ...] = (np.logical_and, np.logical_or, np.logical_xor)
"""By the shim's codes."""
