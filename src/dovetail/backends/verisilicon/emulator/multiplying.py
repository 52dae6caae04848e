"""Matrix products: fully connected layers, and products of two tensors."""

from __future__ import annotations

import numpy as np

from dovetail.backends.verisilicon.emulator.convolving import (
    WeightedSum,
    centred_weight,
    multiplier_of,
    product_store,
    weighted_kernel,
    working_type,
)
from dovetail.backends.verisilicon.emulator.elementwise import as_float
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, exact_type, given
from dovetail.backends.verisilicon.emulator.matrix import multiply
from dovetail.backends.verisilicon.emulator.shading import shaded_layer
from dovetail.backends.verisilicon.emulator.storing import centred, largest_size, stored_from
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, scale_of
from dovetail.ir import AnyArray, DType


def fully_connected(item: OperatorView, threads: int, bias: AnyArray | None = None) -> WeightedSum:
    """Return rows `[N, C]` times a constant weight `[O, C]`; `bias` stands for one that the operator has not."""
    bias = item.constant(2) if bias is None else bias
    weight = centred_weight(item)
    working = working_type(item, weight, bias)
    columns = np.ascontiguousarray(weight.T).astype(working)
    return WeightedSum(item, working, lambda batch: multiply(batch, columns, threads), bias)


def build_fully_connected(item: OperatorView, threads: int) -> Kernel:
    """Return a fully connected layer as a kernel."""
    shaded = shaded_layer(item) if item.operator.route is Route.SHADER else None
    if shaded is not None:
        return shaded
    return weighted_kernel(fully_connected(item, threads))


def build_matmul(item: OperatorView, threads: int) -> Kernel:
    """Return the product of two tensors, of which neither is turned."""
    kinds, made = (item.kind(0), item.kind(1)), item.made()
    if made.quant is None:

        def multiplied(values: Values) -> AnyArray:
            left, right = (given(values, index).astype(np.float64) for index in (0, 1))
            return as_float(multiply(left, right, threads), made.dtype)

        return multiplied
    if item.operator.route is Route.SHADER and made.dtype is DType.I16:
        return _shaded_product(item)
    bound = float(largest_size(kinds[0])) * largest_size(kinds[1]) * item.shape()[-1]
    working, multiplier, store = exact_type(bound), multiplier_of(item, made).reshape(()), product_store(item)

    def run(values: Values) -> AnyArray:
        left, right = (centred(given(values, index), kinds[index], working) for index in (0, 1))
        return store.from_steps(np.multiply(multiply(left, right, threads), multiplier, dtype=np.float64))

    return run


def _shaded_product(item: OperatorView) -> Kernel:
    """Return the product of two tensors of 16 bits as a shader adds it up: in float32, one term after another."""
    made = item.made()
    scale = np.float32(np.float32(scale_of(item.kind(0)) * scale_of(item.kind(1))) / np.float32(scale_of(made)))

    def run(values: Values) -> AnyArray:
        left, right = (given(values, index).astype(np.float32) for index in (0, 1))
        total = np.zeros(np.broadcast_shapes(left[..., :1].shape, right[..., :1, :].shape), np.float32)
        for place in range(left.shape[-1]):
            total = total + left[..., place, None] * right[..., place, None, :]
        return stored_from(np.rint(total * scale), made)

    return run
