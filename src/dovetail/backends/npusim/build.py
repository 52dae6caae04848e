"""Choose the kernel of every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dovetail.backends.npusim.boundary import (
    as_float,
    build_cast,
    build_dequantize,
    build_quantize,
    build_requantize,
)
from dovetail.backends.npusim.convolution import build_convolution, build_transposed_convolution
from dovetail.backends.npusim.elementwise import RealOperator, RealRoute, build_clamp, build_table
from dovetail.backends.npusim.kernel import Kernel, NodeContext, Values
from dovetail.backends.npusim.movement import build_concat, build_movement
from dovetail.backends.npusim.product import build_gemm, build_matmul
from dovetail.backends.npusim.reals import real_operator
from dovetail.backends.npusim.single import single_operator
from dovetail.backends.vip.rules import vip_rule
from dovetail.backends.vip.scene import Rule, product_in_shader
from dovetail.ir import AnyArray, DType
from dovetail.ir.node import DOVETAIL_DOMAIN

_INTEGER_KERNELS: dict[str, Callable[[NodeContext], Kernel | None]] = {
    "Cast": build_cast,
    "Clip": build_clamp,
    "Concat": build_concat,
    "Conv": build_convolution,
    "ConvTranspose": build_transposed_convolution,
    "DequantizeLinear": build_dequantize,
    "Gemm": build_gemm,
    "MatMul": build_matmul,
    "QuantizeLinear": build_quantize,
    "Relu": build_clamp,
    "Requantize": build_requantize,
}

_DELICATE = frozenset({"GroupNormalization", "InstanceNormalization"})
"""Normalisations whose float32 kernels lose the variance of nearly constant data: they run in float64."""


def build_kernel(context: NodeContext) -> Kernel:
    """Return what runs a node; raise CompileError when nothing does."""
    node = context.node
    if node.domain not in ("", DOVETAIL_DOMAIN):
        raise context.refuse(f"it has no operator {node.domain}::{node.op}")
    if node.bodies():
        raise context.refuse("control flow does not run on the NPU")
    measured = None if context.arithmetic.vip is None else vip_rule(context.graph, node, context.arithmetic.vip)
    if measured is not None:
        return _as_kernel(measured)
    if context.arithmetic.vip is not None and product_in_shader(context.graph, node, context.arithmetic.vip):
        context = replace(context, arithmetic=context.arithmetic.in_shaders())
    builder = _INTEGER_KERNELS.get(node.op)
    kernel = None if builder is None else builder(context)
    if kernel is not None:
        return kernel
    kinds = [context.graph.types[name] for name in (*node.inputs, *node.outputs) if name]
    if not any(kind.quant is not None for kind in kinds):
        return _float_kernel(context)
    moved = build_movement(context, lambda: _runner(context, DType.F32)) if context.has(0) else None
    if moved is not None:
        return moved
    operator = _real(context)
    table = build_table(context, operator)
    return table if table is not None else _real_route(context, operator)


def _as_kernel(rule: Rule) -> Kernel:
    return lambda values: (rule(values),)


def _real(context: NodeContext) -> RealOperator:
    """Return the operator on reals: in float64 where there is one, else in float32."""
    own = real_operator(context.node)
    if own is not None:
        return own
    double = single_operator(context, DType.F64, context.threads)
    return _runner(context, DType.F32) if isinstance(double, str) else double


def _runner(context: NodeContext, real: DType) -> RealOperator:
    found = single_operator(context, real, context.threads)
    if isinstance(found, str):
        raise context.refuse(found)
    return found


def _real_route(context: NodeContext, operator: RealOperator) -> Kernel:
    node = context.node
    kinds = tuple(
        context.graph.types[name] if name and context.graph.types[name].quant is not None else None
        for name in node.inputs
    )
    outputs = [context.graph.types[name] if name else None for name in node.outputs]
    stores = tuple(
        context.store(index) if kind is not None and kind.quant is not None else None
        for index, kind in enumerate(outputs)
    )
    route = RealRoute(operator, kinds, stores)
    floats = {index: kind.dtype for index, kind in enumerate(outputs) if kind is not None and kind.dtype.is_float}
    if not floats:
        return route

    def run(values: Values) -> Sequence[AnyArray]:
        results = route(values)
        return tuple(
            as_float(value, floats[index]) if index in floats else value for index, value in enumerate(results)
        )

    return run


def _widened(value: AnyArray | None) -> AnyArray | None:
    return value.astype(np.float64) if value is not None and value.dtype.kind == "f" else value


def _float_kernel(context: NodeContext) -> Kernel:
    """Return a plain ONNX operator; 16-bit floats compute in float32 and are rounded once."""
    names = [name for name in (*context.node.inputs, *context.node.outputs) if name]
    own = real_operator(context.node) if context.node.op in _DELICATE else None
    wide = any(context.graph.types[name].dtype is DType.F64 for name in names)
    operator = own or _runner(context, DType.F64 if wide else DType.F32)
    outputs = [context.graph.types[name].dtype if name else DType.F32 for name in context.node.outputs]

    def run(values: Values) -> Sequence[AnyArray]:
        results = operator(values if own is None else [_widened(value) for value in values])
        return tuple(
            as_float(value, dtype) if dtype.is_float and value.dtype.kind == "f" else np.asarray(value)
            for value, dtype in zip(results, outputs, strict=False)
        )

    return run
