"""TFLite's float32 sums in the order of its reference kernels, one product after the other.

A hybrid kernel quantises what float operators gave it: a last bit there may move a value to the next integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.backends.reference.kernels import KERNELS, Call
from dovetail.backends.reference.kernels.call import product
from dovetail.backends.reference.kernels.pooling import averaging_window, window_sums
from dovetail.backends.reference.kernels.window import slide, window_of
from dovetail.backends.reference.tflite_hybrid import run_hybrid, runs_hybrid
from dovetail.backends.reference.tflite_lstm import run_lstm, runs_lstm
from dovetail.ir import AnyArray, DType, Graph, Node

_SUMS = frozenset({"AveragePool", "Conv", "Gemm"})


FloatRule = Callable[[Node, Sequence[AnyArray | None]], AnyArray]
"""Takes a node and the values of its inputs; returns its first output."""


def float_rule(graph: Graph, node: Node) -> FloatRule | None:
    """Return how TFLite computes a node between floats: in the order of its kernels, or on integers by its facts."""
    if runs_lstm(node):
        return run_lstm
    if runs_hybrid(node):
        return run_hybrid
    if node.domain or node.op not in _SUMS:
        return None
    names = [name for name in (*node.inputs, *node.outputs) if name]
    if any(graph.types[name].dtype is not DType.F32 for name in names):
        return None
    plain = (node.integer("transA", 0), node.number("alpha", 1.0), node.number("beta", 1.0)) == (0, 1.0, 1.0)
    return sum_in_order if plain or node.op != "Gemm" else None


def sum_in_order(node: Node, stored: Sequence[AnyArray | None]) -> AnyArray:
    """Return the node's output; integers that floats hold are summed exactly, as a hybrid kernel does."""
    values = [value for value in stored if value is not None]
    if node.op == "AveragePool":
        return _average(node, values[0])
    if all(_is_whole(value) for value in values[:2]):
        (whole,) = KERNELS[node.op](Call(node, tuple(value.astype(np.float64) for value in values), (None,)))
        return np.asarray(whole).astype(np.float32)
    total = _convolution(node, *values[:2]) if node.op == "Conv" else _rows(node, *values[:2])
    if len(values) < 3:
        return total
    bias = values[2].reshape(-1, *(1,) * (total.ndim - 2)) if node.op == "Conv" else values[2]
    return np.asarray(total + bias)


def _is_whole(value: AnyArray) -> bool:
    return bool((value == np.rint(value)).all())


def _convolution(node: Node, x: AnyArray, w: AnyArray) -> AnyArray:
    """Sum by place in the window first, then by channel."""
    group, kernel = node.integer("group", 1), tuple(w.shape[2:])
    window = window_of(node, kernel, tuple(x.shape[2:]))
    view = slide(x, window, 0)
    rank, batch = len(kernel), x.shape[0]
    output = tuple(view.shape[2 : 2 + rank])
    split = view.reshape(batch, group, -1, *view.shape[2:])
    order = (*range(3 + rank, 3 + 2 * rank), 2, 0, 1, *range(3, 3 + rank))
    columns = split.transpose(order).reshape(-1, batch, group, 1, product(output))
    weights = w.reshape(group, -1, *w.shape[1:]).transpose(*range(3, 3 + rank), 2, 0, 1)
    weights = weights.reshape(columns.shape[0], 1, group, -1, 1)
    total: AnyArray = np.zeros((batch, group, weights.shape[3], product(output)), np.float32)
    for column, weight in zip(columns, weights, strict=True):
        total += column * weight
    return total.reshape(batch, w.shape[0], *output)


def _rows(node: Node, x: AnyArray, w: AnyArray) -> AnyArray:
    weight = w.T if node.integer("transB", 0) else w
    total: AnyArray = np.zeros((x.shape[0], weight.shape[1]), np.float32)
    for column, row in zip(x.T, weight, strict=True):
        total += column[:, None] * row
    return total


def _average(node: Node, x: AnyArray) -> AnyArray:
    _, count = window_sums(Call(node, (np.zeros(x.shape, np.float32),), (None,)))
    view = slide(x, averaging_window(Call(node, (x,), (None,)))[0], 0)
    flat = view.reshape(*view.shape[: x.ndim], -1)
    # numpy's own sum adds in pairs.
    total = np.add.accumulate(flat, axis=-1, dtype=np.float32)[..., -1]
    return np.asarray(total / count.astype(np.float32))
