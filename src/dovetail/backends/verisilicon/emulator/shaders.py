"""Functions that the programmable shaders compute in 16 bits, from float32 to float32.

The order of operations of `FUNCTIONS` is that of the public kernels of ovxlib (TIM-VX, `libnnext/ops/vx`), that of
`UNTABLED` was found; both were checked on the vendor's simulator with all values of 16 bits: equal on each, but for one
in 30,000 of Gelu, one in 6,000 of Atanh and one in 20,000 of Acosh.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.singles import LN_2, LOG2_E, cosine, cut_single, exp2, log2, sine
from dovetail.backends.verisilicon.views import OperatorView
from dovetail.ir import AnyArray

Function = Callable[[AnyArray], AnyArray]


def _acosh(values: AnyArray) -> AnyArray:
    """Return the logarithm of x and the root of its square less one: sums and the square are cut, not rounded."""
    with np.errstate(invalid="ignore"):
        squares = cut_single(np.square(values.astype(np.float64)))
        roots = np.sqrt(cut_single(squares.astype(np.float64) - 1.0).astype(np.float64)).astype(float32)
        return np.asarray(log2(cut_single(values.astype(np.float64) + roots)) * LN_2)


def _atanh(values: AnyArray) -> AnyArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return cut_single(np.arctanh(values.astype(np.float64)))


FUNCTIONS: dict[str, Function] = {
    "acosh": _acosh,
    "atanh": _atanh,
    "cos": cosine,
    "exp": lambda values: exp2(values * LOG2_E),
    "sin": sine,
    "softplus": lambda values: np.asarray(log2(exp2(values * LOG2_E) + float32(1)) * LN_2),
}

_ONE, _TWO, _HALF, _SIXTH = float32(1), float32(2), float32(0.5), float32(1) / float32(6)
_ROOT_OF_HALF = float32(math.sqrt(0.5))
_ROOT_OF_TWO_OVER_PI = float32(math.sqrt(2.0 / math.pi))
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(values: AnyArray) -> AnyArray:
    return np.asarray(_ONE / (_ONE + exp2(-values * LOG2_E)))


def _tanh(values: AnyArray) -> AnyArray:
    return np.asarray(_TWO / (_ONE + exp2(-(_TWO * values) * LOG2_E)) - _ONE)


def _gelu(values: AnyArray) -> AnyArray:
    return np.asarray(values * (_HALF * (_ONE + _erf(values * _ROOT_OF_HALF).astype(float32))))


def _gelu_by_tanh(values: AnyArray) -> AnyArray:
    inner = _ROOT_OF_TWO_OVER_PI * (values + float32(0.044715) * values * values * values)
    return np.asarray(values * (_HALF * (_ONE + _tanh(inner))))


def _hard_swish(values: AnyArray) -> AnyArray:
    return np.asarray(values * np.clip(values + float32(3), float32(0), float32(6)) * _SIXTH)


def _leaky(item: OperatorView) -> Function:
    slope = float(np.float16(item.floats[0]))
    return lambda values: np.where(values < 0, slope * values.astype(np.float64), values)


def _elu(item: OperatorView) -> Function:
    alpha = float32(item.floats[0])
    return lambda values: np.where(values < 0, alpha * exp2(values * LOG2_E) - alpha, values)


UNTABLED: dict[str, Callable[[OperatorView], Function]] = {
    "elu": _elu,
    "gelu": lambda item: _gelu_by_tanh if item.ints[0] else _gelu,
    "hard_swish": lambda _: _hard_swish,
    "leaky_relu": _leaky,
    "sigmoid": lambda _: _sigmoid,
    "square": lambda _: lambda values: np.square(values.astype(np.float64)),
    "swish": lambda _: lambda values: np.asarray(values * _sigmoid(values)),
    "tanh": lambda _: _tanh,
}
"""Functions that have a table of the driver's, but not for numbers with more than 15 bits behind the point.

The slope of a LeakyRelu has 16 bits; its product and squares are rounded once only.
"""
