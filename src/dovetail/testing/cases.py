"""Single-operator cases for comparing two executors of Dovetail graphs, at every precision.

for case in CASES:
    found = quantized(case, Precision.I8PC)
    for inputs in found.inputs:
        ...run found.graph on inputs with both executors and compare the stored outputs
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dovetail.backends.reference import run_graph
from dovetail.ir import DOVETAIL_DOMAIN, AnyArray, DType, Graph, Node, TensorType, quantize_array
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.dtypes import round_to_bf16
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import Role, input_roles, is_pass_through, weight_layout
from dovetail.ir.types import Quantization
from dovetail.quantize.parameters import choose_quantization, choose_weight_quantization, quantize_bias
from dovetail.quantize.ranges import Range
from dovetail.testing.operator_case import OperatorCase
from dovetail.testing.operator_table import operator_cases

CASES: tuple[OperatorCase, ...] = operator_cases()


@dataclass(frozen=True, slots=True)
class QuantizedCase:
    """A case at one precision: the graph, and stored inputs to run it on.

    The inputs are two samples from the range, one uniform over all stored values, one of only extreme values and zero
    points, one all lowest and one all highest.
    """

    graph: Graph
    inputs: tuple[Mapping[str, AnyArray], ...]


def quantized(case: OperatorCase, precision: Precision) -> QuantizedCase:
    """Return a case with its tensors in the formats of a precision, ranges taken from its samples."""
    graph = case.graph()
    if precision is Precision.FP32:
        return QuantizedCase(graph, _inputs(case, graph))
    build = _Build(case, graph, precision, _ranges(case, graph))
    kinds = {name: build.activation(name) for name in graph.inputs}
    kinds.update({name: build.output(name, kinds) for name in graph.outputs})
    constants: dict[str, AnyArray] = {}
    node = graph.nodes[0]
    for index, name in enumerate(node.inputs):
        if name in graph.constants:
            kinds[name], constants[name] = build.constant(index, kinds)
    if case.is_boundary:
        node = _boundary(case, node, kinds)
    result = Graph(graph.name, (node,), graph.inputs, graph.outputs, kinds, constants)
    return QuantizedCase(result, _inputs(case, result))


def _boundary(case: OperatorCase, node: Node, kinds: Mapping[str, TensorType]) -> Node:
    """Return the boundary node; between floats it is a Cast, and nothing to requantise leaves an Identity."""
    output = kinds[node.outputs[0]]
    if any(kinds[name].quant is not None for name in (*node.inputs, *node.outputs)):
        domain = DOVETAIL_DOMAIN if case.op == "Requantize" else ""
        return Node(node.name, case.op, node.inputs, node.outputs, domain=domain)
    if case.op == "Requantize":
        return node
    return Node(node.name, "Cast", node.inputs, node.outputs, {"to": ONNX_CODES[output.dtype]})


def _ranges(case: OperatorCase, graph: Graph) -> dict[str, Range]:
    runs = [run_graph(graph, sample) for sample in case.samples()]
    return {
        name: Range(float(min(run[name].min() for run in runs)), float(max(run[name].max() for run in runs)))
        for name in (*graph.inputs, *graph.outputs)
    }


@dataclass(frozen=True, slots=True)
class _Build:
    """Choose the type of every tensor of a case."""

    case: OperatorCase
    graph: Graph
    precision: Precision
    ranges: Mapping[str, Range]

    def activation(self, name: str) -> TensorType:
        """Return the type of a graph input or output."""
        kind, form = self.graph.types[name], self.precision.activation
        floats = {"QuantizeLinear": self.graph.inputs, "DequantizeLinear": self.graph.outputs}.get(self.case.op, ())
        if not kind.dtype.is_float or name in floats:
            return kind
        return _typed(kind, form, None if form.dtype.is_float else choose_quantization(self.ranges[name], form))

    def output(self, name: str, kinds: Mapping[str, TensorType]) -> TensorType:
        """Return the type of an output: that of the first input where the operator shares it."""
        node, kind = self.graph.nodes[0], self.activation(name)
        shares = (is_pass_through(self.graph, node) and not self.case.is_boundary) or self.case.same_scale
        if shares and kind.quant is not None:
            return replace(kind, quant=kinds[node.inputs[0]].quant)
        if self.case.op == "Requantize" and kind.quant is not None:
            (zero,) = kind.quant.zero_point
            moved = 0 if self.precision.activation.symmetric else max(zero - 3, kind.dtype.integer_range[0])
            scale = kind.quant.scale[0] * (2.0 if self.precision.activation.power_of_two else 1.25)
            return replace(kind, quant=Quantization((float(np.float32(scale)),), (moved,)))
        return kind

    def constant(self, index: int, kinds: Mapping[str, TensorType]) -> tuple[TensorType, AnyArray]:
        """Return the type and stored value of a constant input."""
        node, name = self.graph.nodes[0], self.graph.nodes[0].inputs[index]
        value, kind = self.graph.constants[name], self.graph.types[name]
        role, layout = input_roles(self.graph, node)[index], weight_layout(self.graph, node)
        if role is Role.CONTROL:
            return kind, value
        form = self.precision.weight if role is Role.WEIGHT else self.precision.activation
        if form.dtype.is_float:
            typed = TensorType(form.dtype, kind.shape)
            return typed, _stored(value, typed)
        if role is Role.BIAS:
            assert layout is not None
            data, weight = kinds[node.inputs[0]].quant, kinds[node.inputs[layout.weight]].quant
            assert data is not None
            assert weight is not None
            stored, quant = quantize_bias(value, self.precision.bias, data.scale[0], weight)
            return TensorType(self.precision.bias, tuple(stored.shape), quant), stored
        if role is Role.WEIGHT and layout is not None:
            quant = choose_weight_quantization(value, form, layout.channel_axis)
        else:
            quant = choose_quantization(Range(float(value.min()), float(value.max())), form)
        return _typed(kind, form, quant), quantize_array(value.astype(np.float64), form.dtype, quant)


def _typed(kind: TensorType, form: NumberFormat, quant: Quantization | None) -> TensorType:
    return TensorType(form.dtype, kind.shape, quant)


def _inputs(case: OperatorCase, graph: Graph) -> tuple[Mapping[str, AnyArray], ...]:
    generator = np.random.default_rng((zlib.crc32(case.name.encode()), 99))
    drawn = [{name: _stored(sample[name], graph.types[name]) for name in graph.inputs} for sample in case.samples()[:2]]
    pickers = (_uniform, _extreme, _lowest, _highest)
    for pick in pickers:
        drawn.append({name: pick(graph.types[name], drawn[0][name], generator) for name in graph.inputs})
    return tuple(drawn)


def _stored(value: AnyArray, kind: TensorType) -> AnyArray:
    if kind.quant is not None:
        return quantize_array(value.astype(np.float64), kind.dtype, kind.quant)
    if kind.dtype is DType.BF16:
        return round_to_bf16(value)
    return value.astype(kind.dtype.carrier)


def _limits(kind: TensorType, sample: AnyArray) -> tuple[float, float, float]:
    """Return the lowest, highest and zero value of a tensor; floats stay within ten times the sample."""
    if kind.quant is not None:
        return *kind.dtype.integer_range, kind.quant.zero_point[0]
    size = 10.0 * float(np.abs(sample).max())
    return -size, size, 0.0


def _uniform(kind: TensorType, sample: AnyArray, generator: np.random.Generator) -> AnyArray:
    lowest, highest, _ = _limits(kind, sample)
    if kind.quant is not None:
        whole = generator.integers(int(lowest), int(highest) + 1, sample.shape)
        return np.asarray(whole).astype(sample.dtype)
    drawn = np.asarray(generator.uniform(lowest, highest, sample.shape))
    return _stored(drawn.astype(np.float32), kind)


def _extreme(kind: TensorType, sample: AnyArray, generator: np.random.Generator) -> AnyArray:
    chosen = np.asarray(generator.choice(np.array(_limits(kind, sample)), sample.shape))
    return chosen.astype(sample.dtype) if kind.quant is not None else _stored(chosen.astype(np.float32), kind)


def _lowest(kind: TensorType, sample: AnyArray, _: np.random.Generator) -> AnyArray:
    return _filled(kind, sample, 0)


def _highest(kind: TensorType, sample: AnyArray, _: np.random.Generator) -> AnyArray:
    return _filled(kind, sample, 1)


def _filled(kind: TensorType, sample: AnyArray, which: int) -> AnyArray:
    value = np.full(sample.shape, _limits(kind, sample)[which])
    return value.astype(sample.dtype) if kind.quant is not None else _stored(value.astype(np.float32), kind)
