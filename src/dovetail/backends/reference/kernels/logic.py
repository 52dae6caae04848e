"""Comparisons and logic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernel, Kernels
from dovetail.ir import AnyArray


def _binary(function: Callable[[AnyArray, AnyArray], AnyArray]) -> Kernel:
    return lambda call: (np.asarray(function(call.input(0), call.input(1))),)


def _is_inf(call: Call) -> tuple[AnyArray, ...]:
    x = call.x
    up = np.isposinf(x) & bool(call.node.integer("detect_positive", 1))
    down = np.isneginf(x) & bool(call.node.integer("detect_negative", 1))
    return (np.asarray(up | down),)


def _where(call: Call) -> tuple[AnyArray, ...]:
    return (np.where(call.input(0), call.input(1), call.input(2)),)


KERNELS: Kernels = {
    "And": _binary(np.logical_and),
    "Equal": _binary(np.equal),
    "Greater": _binary(np.greater),
    "GreaterOrEqual": _binary(np.greater_equal),
    "IsInf": _is_inf,
    "IsNaN": lambda call: (np.isnan(call.x),),
    "Less": _binary(np.less),
    "LessOrEqual": _binary(np.less_equal),
    "Not": lambda call: (np.logical_not(call.x),),
    "Or": _binary(np.logical_or),
    "Where": _where,
    "Xor": _binary(np.logical_xor),
}
