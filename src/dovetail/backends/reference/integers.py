"""Quantised operators that are defined on integers rather than on reals.

Accumulating operators (Conv, ConvTranspose, Gemm, MatMul): `acc = sum (q_x - zp_x) * (q_w - zp_w) + q_b` exactly, then
`y = clip(round(acc * M) + zp_y)` with `M = s_x * s_w / s_y` in float64, or as the target computes it.
Averages and sums: the integer total first, then `round(total / count * (s_x / s_y)) + zp_y`.
Clip: the bounds are quantised (ties to even), then the stored integers are clamped.

Everything else is defined on reals; for operators that only move values that is the same as moving the integers,
because `(q - zp) * s / s` rounds back to `q - zp`.
Where weights are no binary fractions (Resize by thirds) float64 may miss an exact tie, by one step and never more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backend.arithmetic import Accumulator, Arithmetic, Carrier
from dovetail.backends.reference.kernels import KERNELS, Call
from dovetail.backends.reference.kernels.pairs import accumulator_losses
from dovetail.backends.reference.kernels.pooling import window_sums
from dovetail.backends.reference.storing import round_to_stored, store
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType, quantize_array

_Values = Sequence[AnyArray | None]
IntegerRule = Callable[["QuantizedNode", _Values], AnyArray]

_OUTPUT_CHANNEL_AXIS = {"Conv": 1, "ConvTranspose": 1, "Gemm": -1, "MatMul": -1}
"""Axis of the output that counts the channels of an accumulating operator."""


@dataclass(frozen=True, slots=True)
class QuantizedNode:
    """A node whose first output is quantised, with the types around it."""

    node: Node
    inputs: tuple[TensorType | None, ...]
    output: TensorType
    arithmetic: Arithmetic

    @property
    def output_quant(self) -> Quantization:
        """Return the quantisation of the output."""
        assert self.output.quant is not None
        return self.output.quant

    def round(self, steps: AnyArray) -> AnyArray:
        """Round values in units of the output scale as the target does."""
        rounding = self.arithmetic.rounding(self.node.op, self.output.dtype)
        return round_to_stored(steps, self.output.dtype, self.output_quant, rounding)

    def call(self, values: _Values) -> Call:
        """Return the call of the kernel on these values."""
        return Call(self.node, tuple(values), (None,) * len(self.node.outputs))


def _centred(values: _Values, types: Sequence[TensorType | None]) -> list[AnyArray | None]:
    """Return `q - zero_point` in int64 of every quantised value."""
    centred: list[AnyArray | None] = []
    for value, kind in zip(values, types, strict=True):
        if value is not None and kind is not None and kind.quant is not None:
            centred.append(np.asarray(value.astype(np.int64) - kind.quant.zero_point_array(value.ndim)))
        else:
            centred.append(value)
    return centred


def _scale_of(kind: TensorType | None) -> AnyArray:
    assert kind is not None
    assert kind.quant is not None
    return np.asarray(kind.quant.scale, dtype=np.float64)


def _accumulate(item: QuantizedNode, values: _Values) -> AnyArray:
    (acc, *_) = KERNELS[item.node.op](item.call(_centred(values, item.inputs)))
    if item.arithmetic.accumulator is Accumulator.PAIRS:
        acc = acc + accumulator_losses(item.node, item.inputs, values)
    data, output = float(_scale_of(item.inputs[0])[0]), float(_scale_of(item.output)[0])
    multiplier = item.arithmetic.multiplier(data, _scale_of(item.inputs[1]), output)
    if multiplier.size > 1:
        shape = [1] * acc.ndim
        shape[_OUTPUT_CHANNEL_AXIS[item.node.op]] = -1
        multiplier = multiplier.reshape(shape)
    else:
        multiplier = multiplier.reshape(())
    return item.round(np.asarray(acc.astype(np.float64) * multiplier))


def _total(op: str, call: Call) -> tuple[AnyArray, AnyArray]:
    """Return the integer sums and the count that divides them."""
    if op == "AveragePool":
        return window_sums(call)
    if op == "GlobalAveragePool":
        total = np.asarray(call.x.sum(axis=tuple(range(2, call.x.ndim)), keepdims=True))
    else:
        (total,) = KERNELS["ReduceSum"](call)
    return total, np.array(1 if op == "ReduceSum" else call.x.size // max(total.size, 1))


def _average(item: QuantizedNode, values: _Values) -> AnyArray:
    total, count = _total(item.node.op, item.call(_centred(values, item.inputs)))
    ratio = _scale_of(item.inputs[0])[0] / _scale_of(item.output)[0]
    rounding = item.arithmetic.rounding(item.node.op, item.output.dtype)
    if rounding.carrier is Carrier.SINGLE:
        return store(np.asarray(total / count * _scale_of(item.inputs[0])[0]), item.output, rounding)
    return item.round(np.asarray(total / count * ratio))


def _clip(item: QuantizedNode, values: _Values) -> AnyArray:
    x = values[0]
    assert x is not None
    for bound, clamp in zip(values[1:], (np.maximum, np.minimum), strict=False):
        if bound is not None and bound.size:
            limit = quantize_array(bound.astype(np.float64).reshape(()), item.output.dtype, item.output_quant)
            x = np.asarray(clamp(x, limit))
    return x


def integer_rule(graph: Graph, node: Node) -> IntegerRule | None:
    """Return how a node is computed on integers, or None when it is defined on reals."""
    types = _types(graph.types, node.inputs)
    output = graph.types[node.outputs[0]] if node.outputs and node.outputs[0] else None
    if node.domain or output is None or output.quant is None or not types or types[0] is None:
        return None
    if node.op in _OUTPUT_CHANNEL_AXIS and _is_accumulating(node, types):
        return _accumulate
    if types[0].quant is None or types[0].quant.per_channel or output.quant.per_channel:
        return None
    if node.op in ("AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum"):
        return _average
    if node.op == "Clip" and types[0].quant == output.quant and types[0].dtype is output.dtype:
        return _clip
    return None


def _types(types: Mapping[str, TensorType], names: Sequence[str]) -> tuple[TensorType | None, ...]:
    return tuple(types[name] if name else None for name in names)


def _is_accumulating(node: Node, types: Sequence[TensorType | None]) -> bool:
    if any(kind is None or kind.quant is None for kind in types[:2]):
        return False
    bias = types[2] if len(types) > 2 else None
    if bias is not None and (bias.quant is None or bias.dtype not in (DType.I32, DType.I64)):
        return False
    return node.op != "Gemm" or (node.number("alpha", 1.0) == 1.0 and node.number("beta", 1.0) == 1.0)


def channel_refusal(graph: Graph, node: Node) -> str | None:
    """Return why the scales of an accumulating node cannot be folded into one multiplier a channel, or None."""
    if integer_rule(graph, node) is not _accumulate:
        return None
    data, weight = graph.types[node.inputs[0]], graph.types[node.inputs[1]]
    output = graph.types[node.outputs[0]]
    for kind, what in ((data, "input"), (output, "output")):
        if kind.quant is not None and kind.quant.per_channel:
            return f"its {what} has one scale a channel"
    if weight.quant is None or not weight.quant.per_channel or weight.rank is None:
        return None
    wanted = {"Conv": 0, "ConvTranspose": 1, "MatMul": weight.rank - 1}.get(node.op, 1 - node.integer("transB", 0))
    if weight.quant.axis != wanted:
        return f"its weight has scales along axis {weight.quant.axis}, not along its output channels (axis {wanted})"
    if node.op == "ConvTranspose" and node.integer("group", 1) != 1:
        return "its weight is grouped and has one scale a channel"
    return None
