"""Operators on real values in float64 where ONNX Runtime's CPU has no double kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from dovetail.backends.npusim.elementwise import RealOperator
from dovetail.backends.npusim.kernel import Values, given
from dovetail.backends.npusim.resize import linear_resize
from dovetail.backends.npusim.windows import pad_spatial, window_of
from dovetail.ir import AnyArray, Node

Function = Callable[[Node, AnyArray], AnyArray]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(node: Node, x: AnyArray) -> AnyArray:
    if node.text("approximate", "none") == "tanh":
        return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))))


def _celu(node: Node, x: AnyArray) -> AnyArray:
    alpha = node.number("alpha", 1.0)
    return np.asarray(np.maximum(x, 0.0) + alpha * np.expm1(np.minimum(x, 0.0) / alpha))


def _selu(node: Node, x: AnyArray) -> AnyArray:
    alpha, gamma = node.number("alpha", 1.6732631921768188), node.number("gamma", 1.0507010221481323)
    return np.asarray(gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))))


def _elu(node: Node, x: AnyArray) -> AnyArray:
    return np.where(x > 0, x, node.number("alpha", 1.0) * np.expm1(np.minimum(x, 0.0)))


def _softplus(_: Node, x: AnyArray) -> AnyArray:
    return np.asarray(np.logaddexp(x, 0.0))


def _hard_sigmoid(node: Node, x: AnyArray) -> AnyArray:
    return np.asarray(np.clip(node.number("alpha", 0.2) * x + node.number("beta", 0.5), 0.0, 1.0))


def _shrink(node: Node, x: AnyArray) -> AnyArray:
    bias, limit = node.number("bias", 0.0), node.number("lambd", 0.5)
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0.0))


_FUNCTIONS: dict[str, Function] = {
    "Acos": lambda _, x: np.asarray(np.arccos(x)),
    "Acosh": lambda _, x: np.asarray(np.arccosh(x)),
    "Asin": lambda _, x: np.asarray(np.arcsin(x)),
    "Asinh": lambda _, x: np.asarray(np.arcsinh(x)),
    "Atan": lambda _, x: np.asarray(np.arctan(x)),
    "Atanh": lambda _, x: np.asarray(np.arctanh(x)),
    "Celu": _celu,
    "Cos": lambda _, x: np.asarray(np.cos(x)),
    "Cosh": lambda _, x: np.asarray(np.cosh(x)),
    "Elu": _elu,
    "Erf": lambda _, x: np.asarray(_erf(x)),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda _, x: np.asarray(x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)),
    "LeakyRelu": lambda node, x: np.where(x < 0, node.number("alpha", 0.01) * x, x),
    "Mish": lambda _, x: np.asarray(x * np.tanh(np.logaddexp(x, 0.0))),
    "Selu": _selu,
    "Shrink": _shrink,
    "Sinh": lambda _, x: np.asarray(np.sinh(x)),
    "Softplus": _softplus,
    "Softsign": lambda _, x: np.asarray(x / (1.0 + np.abs(x))),
    "Tan": lambda _, x: np.asarray(np.tan(x)),
    "ThresholdedRelu": lambda node, x: np.where(x > node.number("alpha", 1.0), x, 0.0),
}


def _prelu(node: Node, values: Values) -> AnyArray:
    x = given(values, 0)
    return np.where(x < 0, x * given(values, 1), x)


def _mean(node: Node, values: Values) -> AnyArray:
    total = given(values, 0)
    for index in range(1, len(values)):
        total = total + given(values, index)
    return np.asarray(total / len(values))


def _spatial(x: AnyArray) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _global_average(node: Node, values: Values) -> AnyArray:
    x = given(values, 0)
    return np.asarray(x.mean(axis=_spatial(x), keepdims=True))


def _global_max(node: Node, values: Values) -> AnyArray:
    x = given(values, 0)
    return np.asarray(x.max(axis=_spatial(x), keepdims=True))


def _instance_normalization(node: Node, values: Values) -> AnyArray:
    x, axes = given(values, 0), _spatial(given(values, 0))
    shape = (1, -1) + (1,) * len(axes)
    scale, shift = given(values, 1).astype(np.float64), given(values, 2).astype(np.float64)
    spread = np.sqrt(x.var(axis=axes, keepdims=True) + node.number("epsilon", 1e-5))
    return np.asarray((x - x.mean(axis=axes, keepdims=True)) / spread * scale.reshape(shape) + shift.reshape(shape))


def _mean_variance_normalization(node: Node, values: Values) -> AnyArray:
    x, axes = given(values, 0), node.integers("axes", (0, 2, 3))
    mean = x.mean(axis=axes, keepdims=True)
    spread = np.sqrt((x**2).mean(axis=axes, keepdims=True) - mean**2)
    return np.asarray((x - mean) / (spread + 1e-9))


def _local_response(node: Node, values: Values) -> AnyArray:
    x, size = given(values, 0), node.integer("size", 1)
    before = (size - 1) // 2
    widths = [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (x.ndim - 2)
    squares = np.pad(x * x, widths)
    total = sum(squares[:, start : start + x.shape[1]] for start in range(size))
    base = node.number("bias", 1.0) + node.number("alpha", 1e-4) / size * total
    return np.asarray(x / base ** node.number("beta", 0.75))


def _average_pool(node: Node, values: Values) -> AnyArray:
    x = given(values, 0)
    window = window_of(node, node.integers("kernel_shape"))
    sizes = x.shape[2:]
    outputs, paddings = window.outputs(sizes), window.paddings(sizes)
    room = tuple((count - 1) * window.strides[axis] + window.extent(axis) for axis, count in enumerate(outputs))
    padded = pad_spatial(x, paddings, room, 0.0)
    # What counts is the input, and its declared padding where the node says so; never what rounding up adds.
    counted = np.ones((1, 1, *sizes))
    if node.integer("count_include_pad", 0):
        counted = pad_spatial(counted, paddings, (0,) * len(sizes), 1.0)
        paddings = [(0, 0)] * len(sizes)
    counts = pad_spatial(counted, paddings, room, 0.0)
    both = (slice(None), slice(None))
    total, count = np.zeros((*x.shape[:2], *outputs)), np.zeros((1, 1, *outputs))
    for offset in itertools.product(*(range(size) for size in window.kernel)):
        taps = (*both, *window.tap(offset, outputs))
        total += padded[taps]
        count += counts[taps]
    return np.asarray(total / count)


def _group_normalization(node: Node, values: Values) -> AnyArray:
    x, groups = given(values, 0), node.integer("num_groups", 1)
    parts = x.reshape(x.shape[0], groups, -1)
    spread = np.sqrt(parts.var(axis=2, keepdims=True) + node.number("epsilon", 1e-5))
    normal = ((parts - parts.mean(axis=2, keepdims=True)) / spread).reshape(x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    scale, shift = given(values, 1).astype(np.float64), given(values, 2).astype(np.float64)
    return np.asarray(normal * scale.reshape(shape) + shift.reshape(shape))


_OPERATORS: dict[str, Callable[[Node, Values], AnyArray]] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_max,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response,
    "Mean": _mean,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "PRelu": _prelu,
}


def real_operator(node: Node) -> RealOperator | None:
    """Return the operator in float64, or None when this module has none."""
    if node.domain:
        return None
    if node.op == "Resize":
        return linear_resize(node)
    function, operator = _FUNCTIONS.get(node.op), _OPERATORS.get(node.op)
    if function is not None:

        def apply(values: Values) -> tuple[AnyArray, ...]:
            with np.errstate(all="ignore"):
                return (function(node, given(values, 0)),)

        return apply
    if operator is not None:
        return lambda values: (operator(node, values),)
    return None
