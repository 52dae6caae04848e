"""Matrix products."""

from __future__ import annotations

import numpy as np

from dovetail.backend.arithmetic import Accumulator
from dovetail.backends.reference.kernels.call import Call, Kernels, exact_matmul
from dovetail.backends.reference.kernels.pairs import product_losses
from dovetail.ir import AnyArray


def _wide(x: AnyArray) -> AnyArray:
    return x if x.dtype.kind == "f" else x.astype(np.int64)


def _matmul(call: Call) -> tuple[AnyArray, ...]:
    return (exact_matmul(call.input(0), call.input(1)),)


def _matmul_integer(call: Call) -> tuple[AnyArray, ...]:
    left, right = call.input(0).astype(np.int64), call.input(1).astype(np.int64)
    left_zero, right_zero = call.optional(2), call.optional(3)
    if left_zero is not None:
        zero = left_zero.astype(np.int64)
        left = np.asarray(left - (zero[..., None] if zero.ndim == 1 and zero.size > 1 else zero))
    if right_zero is not None:
        right = np.asarray(right - right_zero.astype(np.int64))
    sums = exact_matmul(left, right)
    if call.accumulator is Accumulator.PAIRS:
        sums = sums + product_losses(call.input(0), call.input(1))
    return (sums.astype(np.int32),)


def _gemm(call: Call) -> tuple[AnyArray, ...]:
    left, right, bias = _wide(call.input(0)), _wide(call.input(1)), call.optional(2)
    left = left.T if call.node.integer("transA", 0) else left
    right = right.T if call.node.integer("transB", 0) else right
    alpha, beta = call.node.number("alpha", 1.0), call.node.number("beta", 1.0)
    y = exact_matmul(left, right)
    y = y if alpha == 1.0 else np.asarray(alpha * y)
    if bias is not None:
        y = np.asarray(y + (bias if beta == 1.0 else beta * bias))
    return (y.astype(np.float64) if left.dtype.kind == "f" else y,)


def _einsum(call: Call) -> tuple[AnyArray, ...]:
    equation = call.node.text("equation", "").replace(" ", "")
    return (np.asarray(np.einsum(equation, *call.present())),)


def _det(call: Call) -> tuple[AnyArray, ...]:
    return (np.asarray(np.linalg.det(call.x)),)


KERNELS: Kernels = {
    "Det": _det,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
}
