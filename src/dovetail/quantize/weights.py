"""Quantised constants, made once per format and kept for further plans while there is room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.errors import QuantizeError
from dovetail.ir.dtypes import AnyArray, DType, round_to_bf16
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import WeightLayout
from dovetail.ir.types import Quantization, TensorType, dequantize_array, quantize_array
from dovetail.quantize.cache import BoundedCache
from dovetail.quantize.correction import bias_shift
from dovetail.quantize.parameters import (
    bias_scale_floor,
    choose_quantization,
    choose_weight_quantization,
    quantize_bias,
)
from dovetail.quantize.ranges import Range

_KEPT_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class StoredConstant:
    """A constant in some format, with the name that it gets in the quantised graph."""

    name: str
    kind: TensorType
    value: AnyArray


class WeightStore:
    """The quantised constants of one graph; what was not asked for longest is made again where room is short.

    Biases are corrected where the node reads a tensor whose channels have known `means`.
    """

    def __init__(
        self, graph: Graph, means: Mapping[str, tuple[float, ...]] | None = None, most_bytes: int = _KEPT_BYTES
    ) -> None:
        self._graph = graph
        self._means = means or {}
        self._kept = BoundedCache[StoredConstant](most_bytes)
        self._count = 0
        """Constants made so far: it makes names unique, whatever is still kept."""
        self._plain: dict[str, Quantization] = {}
        """The quantisation behind every name without a number."""

    def data(self, tensor: str, form: NumberFormat) -> StoredConstant:
        """Return a constant operand (such as the addend of an Add) in an activation format."""
        key = (tensor, form)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        value = self._real(tensor)
        if form.dtype.is_float:
            return self._keep(key, self._cast(tensor, value, form.dtype))
        quant = choose_quantization(Range(float(value.min(initial=0)), float(value.max(initial=0))), form)
        stored = quantize_array(value.astype(np.float64), form.dtype, quant)
        return self._keep(key, _stored(tensor, self._suffix(tensor, form, quant), stored, form.dtype, quant))

    def weight(self, node: Node, layout: WeightLayout, precision: Precision, input_scale: float) -> StoredConstant:
        """Return the weight of an accumulating node; its scales leave room for the bias."""
        tensor = node.inputs[layout.weight]
        bias = self._bias_name(node, layout)
        key = (tensor, precision.weight, layout.channel_axis, bias, input_scale if bias else None)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        value = self._real(tensor)
        has_floor = bias is not None and precision.bias in (DType.I32, DType.I64)
        floor = bias_scale_floor(self._real(bias), input_scale, precision.bias) if bias and has_floor else None
        quant = choose_weight_quantization(value, precision.weight, layout.channel_axis, floor)
        form = precision.weight
        # In its own precision, as ONNX's QuantizeLinear divides it: whoever derives the integers gets these.
        stored = quantize_array(value, form.dtype, quant)
        return self._keep(key, _stored(tensor, self._suffix(tensor, form, quant), stored, form.dtype, quant))

    def bias(
        self, node: Node, layout: WeightLayout, precision: Precision, input_scale: float, weight: Quantization
    ) -> StoredConstant:
        """Return the bias of an accumulating node at scale `s_x * s_w`."""
        assert layout.bias is not None
        tensor = node.inputs[layout.bias]
        key = (tensor, precision.bias, input_scale, weight, node.inputs[0] if node.inputs[0] in self._means else "")
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        real = self._corrected(self._real(tensor), node, layout, precision, input_scale)
        stored, quant = quantize_bias(real, precision.bias, input_scale, weight)
        kind = TensorType(precision.bias, tuple(stored.shape), quant)
        stored.setflags(write=False)
        return self._keep(key, StoredConstant(f"{tensor}@{precision.bias.value}#{self._count}", kind, stored))

    def _corrected(
        self, bias: AnyArray, node: Node, layout: WeightLayout, precision: Precision, input_scale: float
    ) -> AnyArray:
        """Return a bias less what the rounding of the weights adds on average."""
        mean = self._means.get(node.inputs[0])
        if mean is None:
            return bias
        rounded = self.weight(node, layout, precision, input_scale)
        assert rounded.kind.quant is not None
        error = dequantize_array(rounded.value, rounded.kind.quant).astype(np.float64) - self._real(
            node.inputs[layout.weight]
        )
        shift = bias_shift(self._graph, node, error, np.asarray(mean))
        return bias if shift is None or shift.shape != bias.shape[-1:] else bias - shift / node.number("beta", 1.0)

    def _suffix(self, tensor: str, form: NumberFormat, quant: Quantization) -> str:
        """Return what ends the name: a number too where the plain name stands for another quantisation."""
        plain = self._plain.setdefault(f"{tensor}@{form.key}", quant)
        return form.key if plain == quant else f"{form.key}#{self._count}"

    def _keep(self, key: tuple[object, ...], stored: StoredConstant) -> StoredConstant:
        self._count += 1
        return self._kept.put(key, stored, stored.value.nbytes)

    def _bias_name(self, node: Node, layout: WeightLayout) -> str | None:
        if layout.bias is None or len(node.inputs) <= layout.bias or not node.inputs[layout.bias]:
            return None
        return node.inputs[layout.bias] if node.inputs[layout.bias] in self._graph.constants else None

    def _real(self, tensor: str) -> AnyArray:
        value = self._graph.constants[tensor]
        if not np.isfinite(value).all():
            raise QuantizeError(
                f"constant '{tensor}' holds NaN or infinity and cannot be quantised.",
                hint="Place the nodes that read it on cpu@fp32.",
            )
        return value

    def _cast(self, tensor: str, value: AnyArray, dtype: DType) -> StoredConstant:
        cast = round_to_bf16(value) if dtype is DType.BF16 else value.astype(dtype.carrier)
        cast.setflags(write=False)
        return StoredConstant(f"{tensor}@{dtype.value}", TensorType(dtype, tuple(value.shape)), cast)


def _stored(tensor: str, suffix: str, array: AnyArray, dtype: DType, quant: Quantization) -> StoredConstant:
    array.setflags(write=False)
    return StoredConstant(f"{tensor}@{suffix}", TensorType(dtype, tuple(array.shape), quant), array)
