"""Activation functions, on reals."""

from __future__ import annotations

import math

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels, axis_of
from dovetail.backends.reference.kernels.elementwise import KERNELS as ELEMENTWISE
from dovetail.ir import AnyArray, Node


def sigmoid(x: AnyArray) -> AnyArray:
    """Return 1 / (1 + e^-x) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0 / (1.0 + small), small / (1.0 + small)))


def softplus(x: AnyArray) -> AnyArray:
    """Return ln(1 + e^x) without overflow."""
    return np.asarray(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0))


def _relu(call: Call) -> tuple[AnyArray, ...]:
    return (np.asarray(np.maximum(call.x, np.zeros((), call.x.dtype))),)


def _leaky_relu(call: Call) -> tuple[AnyArray, ...]:
    x, alpha = call.x, call.node.number("alpha", 0.01)
    return (np.where(x < 0, alpha * x, x),)


def _p_relu(call: Call) -> tuple[AnyArray, ...]:
    x, slope = call.input(0), call.input(1)
    return (np.where(x < 0, slope * x, x),)


def _elu(call: Call) -> tuple[AnyArray, ...]:
    x, alpha = call.x, call.node.number("alpha", 1.0)
    return (np.where(x < 0, alpha * np.expm1(x), x),)


def _celu(call: Call) -> tuple[AnyArray, ...]:
    x, alpha = call.x, call.node.number("alpha", 1.0)
    return (np.where(x < 0, alpha * np.expm1(x / alpha), x),)


def _selu(call: Call) -> tuple[AnyArray, ...]:
    x = call.x
    alpha = call.node.number("alpha", 1.67326319217681884765625)
    gamma = call.node.number("gamma", 1.05070102214813232421875)
    return (gamma * np.where(x > 0, x, alpha * np.expm1(x)),)


def _gelu(call: Call) -> tuple[AnyArray, ...]:
    x = call.x
    if call.node.text("approximate", "none") == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
        return (0.5 * x * (1.0 + np.tanh(inner)),)
    (erf,) = ELEMENTWISE["Erf"](Call(call.node, (np.asarray(x / math.sqrt(2.0)),), call.output_types))
    return (0.5 * x * (1.0 + erf),)


def hard_sigmoid(x: AnyArray, node: Node) -> AnyArray:
    """Return max(0, min(1, alpha * x + beta))."""
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return np.asarray(np.clip(alpha * x + beta, 0.0, 1.0))


def _hard_swish(call: Call) -> tuple[AnyArray, ...]:
    return (call.x * np.clip(call.x / 6.0 + 0.5, 0.0, 1.0),)


def _mish(call: Call) -> tuple[AnyArray, ...]:
    return (call.x * np.tanh(softplus(call.x)),)


def _shrink(call: Call) -> tuple[AnyArray, ...]:
    x, bias, lambd = call.x, call.node.number("bias", 0.0), call.node.number("lambd", 0.5)
    shrunk = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0))
    return (shrunk.astype(x.dtype),)


def _softsign(call: Call) -> tuple[AnyArray, ...]:
    return (call.x / (1.0 + np.abs(call.x)),)


def _thresholded_relu(call: Call) -> tuple[AnyArray, ...]:
    return (np.where(call.x > call.node.number("alpha", 1.0), call.x, 0.0),)


def _softmax(call: Call) -> tuple[AnyArray, ...]:
    x, axis = call.x, axis_of(call.node.integer("axis", -1), call.x.ndim)
    grown = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return (grown / np.sum(grown, axis=axis, keepdims=True),)


def _log_softmax(call: Call) -> tuple[AnyArray, ...]:
    x, axis = call.x, axis_of(call.node.integer("axis", -1), call.x.ndim)
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return (shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)),)


def _hardmax(call: Call) -> tuple[AnyArray, ...]:
    x, axis = call.x, axis_of(call.node.integer("axis", -1), call.x.ndim)
    first = np.expand_dims(np.argmax(x, axis=axis), axis)
    result = np.zeros_like(x)
    np.put_along_axis(result, first, 1, axis=axis)
    return (result,)


KERNELS: Kernels = {
    "Celu": _celu,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": lambda call: (hard_sigmoid(call.x, call.node),),
    "HardSwish": _hard_swish,
    "Hardmax": _hardmax,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": _log_softmax,
    "Mish": _mish,
    "PRelu": _p_relu,
    "Relu": _relu,
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": lambda call: (sigmoid(call.x),),
    "Softmax": _softmax,
    "Softplus": lambda call: (softplus(call.x),),
    "Softsign": _softsign,
    "ThresholdedRelu": _thresholded_relu,
}
