"""State the tensors of one node of a quantised graph in other formats, and tell what that changes.

Signed bytes become unsigned ones without a change of any value, and a bias moves to the scale of its accumulator; all
else is another grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import Role, WeightLayout, input_roles, weight_layout
from dovetail.ir.types import Quantization, TensorType, dequantize_array, quantize_array
from dovetail.quantize.formats import StoredFormat
from dovetail.quantize.parameters import (
    bias_scale_floor,
    choose_quantization,
    choose_weight_quantization,
    quantize_bias,
)
from dovetail.quantize.ranges import Range
from dovetail.quantize.weights import StoredConstant


class Change(IntEnum):
    """What stating a tensor otherwise does to its values."""

    NONE = 0
    RESTATED = 1
    """Other integers for the same reals; a bias is rounded to the steps of its accumulator."""
    REQUANTIZED = 2
    """Another grid."""


@dataclass(frozen=True, slots=True)
class NodeForm:
    """The formats that a node shall be stated in, and the precision whose rules hold for them."""

    activation: NumberFormat
    weight: NumberFormat
    bias: DType
    precision: Precision

    @classmethod
    def of(cls, precision: Precision) -> NodeForm:
        """Return the formats of a precision."""
        return cls(precision.activation, precision.weight, precision.bias, precision)


@dataclass(frozen=True, slots=True)
class RestatedNode:
    """One node with the types that its tensors have in other formats."""

    node: Node
    types: Mapping[str, TensorType]
    """Of all its tensors, by the names that they have in the graph."""
    constants: Mapping[str, StoredConstant]
    """The constants that are stored otherwise, by the same names."""
    change: Change
    notes: tuple[str, ...] = ()
    """What is stated otherwise, in words."""

    def alone(self) -> Graph:
        """Return the graph of the node alone."""
        fixed = {name: item.value for name, item in self.constants.items()}
        inputs = tuple(dict.fromkeys(name for name in self.node.inputs if name and name not in fixed))
        outputs = tuple(name for name in self.node.outputs if name)
        return Graph(self.node.name, (self.node,), inputs, outputs, self.types, fixed)


def restate(graph: Graph, node: Node, form: NodeForm) -> RestatedNode | None:
    """Return a node of a quantised graph in other formats; None where it reads or makes a computed float."""
    draft = _NodeDraft(graph, node, form)
    return draft.restated() if draft.is_quantized else None


def restated_type(kind: TensorType, form: NumberFormat) -> TensorType:
    """Return the type of quantised data in another format: the same steps where they exist there."""
    assert kind.quant is not None
    if _fits(kind, form):
        return kind
    shifted = _shifted(kind, form.dtype)
    if shifted is not None and _fits(shifted, form):
        return shifted
    return TensorType(form.dtype, kind.shape, choose_quantization(stored_range(kind), form))


def stored_range(kind: TensorType) -> Range:
    """Return the least and the largest real that a quantised tensor holds, in whichever channel."""
    assert kind.quant is not None
    lowest, highest = kind.dtype.integer_range
    pairs = list(zip(kind.quant.scale, kind.quant.zero_point, strict=True))
    return Range(
        min((lowest - zero) * scale for scale, zero in pairs), max((highest - zero) * scale for scale, zero in pairs)
    )


def change_between(old: TensorType, new: TensorType) -> Change:
    """Return what happens to values of one type that are stored as another."""
    if old == new:
        return Change.NONE
    if old.quant is None or new.quant is None or old.quant.scale != new.quant.scale or old.quant.axis != new.quant.axis:
        return Change.REQUANTIZED
    least, largest = old.dtype.integer_range
    lowest, highest = new.dtype.integer_range
    zeros = zip(old.quant.zero_point, new.quant.zero_point, strict=True)
    kept = all(lowest <= least - before + now and largest - before + now <= highest for before, now in zeros)
    return Change.RESTATED if kept else Change.REQUANTIZED


def _fits(kind: TensorType, form: NumberFormat) -> bool:
    stored = StoredFormat.of(kind)
    if kind.dtype is not form.dtype or (stored.per_channel and not form.per_channel):
        return False
    return (not form.symmetric or stored.symmetric) and (not form.power_of_two or stored.power_of_two)


def _shifted(kind: TensorType, dtype: DType) -> TensorType | None:
    """Return the type with the same reals in integers of the same width, signed or not; None for another width."""
    quant = kind.quant
    if quant is None or not dtype.is_integer or dtype.size_bytes != kind.dtype.size_bytes:
        return None
    move = dtype.integer_range[0] - kind.dtype.integer_range[0]
    zeros = tuple(zero + move for zero in quant.zero_point)
    return TensorType(dtype, kind.shape, Quantization(quant.scale, zeros, quant.axis))


class _NodeDraft:
    """Collect the types and constants of one node in other formats."""

    def __init__(self, graph: Graph, node: Node, form: NodeForm) -> None:
        self._graph = graph
        self._node = node
        self._form = form
        self._layout = weight_layout(graph, node)
        self._roles = input_roles(graph, node)
        self._types = {name: graph.types[name] for name in (*node.inputs, *node.outputs) if name}
        self._constants: dict[str, StoredConstant] = {}
        self._change = Change.NONE
        self._notes: dict[str, None] = {}

    @property
    def is_quantized(self) -> bool:
        """Tell whether all reals that the node reads from others or makes are quantised."""
        data = [name for name, role in zip(self._node.inputs, self._roles, strict=True) if role is Role.DATA]
        computed = [name for name in data if name not in self._graph.constants]
        kinds = [self._graph.types[name] for name in (*computed, *self._node.outputs) if name]
        whole = all(kind.quant is not None for kind in kinds if kind.holds_reals)
        return bool(computed) and not self._node.bodies() and whole

    def restated(self) -> RestatedNode:
        """Return the node; its weight and bias follow the scale of its first input."""
        for name, role in zip(self._node.inputs, self._roles, strict=True):
            if role is Role.DATA:
                self._state(name, self._data_type(name), "input")
            elif name and name in self._graph.constants and role is Role.CONTROL:
                self._keep(name, self._graph.types[name], self._graph.constants[name])
        for name in self._node.outputs:
            if name and self._graph.types[name].holds_reals:
                self._state(name, restated_type(self._graph.types[name], self._form.activation), "output")
        if self._layout is not None:
            self._weigh(self._layout)
        return RestatedNode(self._node, self._types, self._constants, self._change, tuple(self._notes))

    def _data_type(self, name: str) -> TensorType:
        kind, form = self._graph.types[name], self._form.activation
        if kind.quant is not None:
            return restated_type(kind, form)
        value = self._graph.constants[name]
        limits = Range(float(value.min(initial=0)), float(value.max(initial=0)))
        return TensorType(form.dtype, kind.shape, choose_quantization(limits, form))

    def _state(self, name: str, kind: TensorType, what: str) -> None:
        self._types[name] = kind
        if name in self._graph.constants:
            self._keep(name, kind, self._stored_again(name, kind))
        self._note(self._graph.types[name], kind, what)

    def _stored_again(self, name: str, kind: TensorType) -> AnyArray:
        """Return a constant of reals as the integers of another type."""
        value, old = self._graph.constants[name], self._graph.types[name]
        assert kind.quant is not None
        if old == kind:
            return value
        if old.quant is not None and change_between(old, kind) is Change.RESTATED:
            whole = value.astype(np.int64) - old.quant.zero_point_array(value.ndim)
            return np.asarray((whole + kind.quant.zero_point_array(value.ndim)).astype(kind.dtype.carrier))
        return quantize_array(self._reals(name).astype(np.float64), kind.dtype, kind.quant)

    def _reals(self, name: str) -> AnyArray:
        value, quant = self._graph.constants[name], self._graph.types[name].quant
        return value if quant is None else dequantize_array(value, quant)

    def _weigh(self, layout: WeightLayout) -> None:
        name = self._node.inputs[layout.weight]
        scale = self._input_scale()
        kind = self._weight_type(name, layout, scale)
        self._state(name, kind, "weight")
        bias = self._bias_name(layout)
        if bias is not None:
            self._bias(bias, kind, scale)

    def _weight_type(self, name: str, layout: WeightLayout, scale: float) -> TensorType:
        """Return the type of the weight: as it is, shifted, or with scales of its own."""
        old, form = self._graph.types[name], self._form.weight
        for kind in (old, _shifted(old, form.dtype)):
            if kind is not None and kind.quant is not None and kind.quant.axis in (None, layout.channel_axis):
                fine = kind.quant.per_channel or not form.per_channel
                if fine and _fits(kind, form):
                    return kind
        bias = self._bias_name(layout)
        floor = None if bias is None else bias_scale_floor(self._reals(bias), scale, self._form.bias)
        quant = choose_weight_quantization(self._reals(name), form, layout.channel_axis, floor)
        return TensorType(form.dtype, old.shape, quant)

    def _bias(self, name: str, weight: TensorType, scale: float) -> None:
        assert weight.quant is not None
        old = self._graph.types[name]
        stored, quant = quantize_bias(self._reals(name), self._form.bias, scale, weight.quant)
        if old.quant is not None and old.dtype is self._form.bias and _alike(old.quant, quant):
            self._keep(name, old, self._graph.constants[name])
            return
        self._keep(name, TensorType(self._form.bias, tuple(stored.shape), quant), stored)
        # No integer arithmetic has a bias in float: a file that leaves it so asks for nothing else.
        self._change = max(self._change, Change.NONE if old.quant is None else Change.RESTATED)
        self._notes[f"bias: {StoredFormat.of(old).text} rounded to the steps of its accumulator"] = None

    def _bias_name(self, layout: WeightLayout) -> str | None:
        place = layout.bias
        given = place is not None and place < len(self._roles) and self._roles[place] is Role.BIAS
        return self._node.inputs[place] if given and place is not None else None

    def _input_scale(self) -> float:
        quant = self._types[self._node.inputs[0]].quant
        assert quant is not None
        return quant.scale[0]

    def _keep(self, name: str, kind: TensorType, value: AnyArray) -> None:
        self._types[name] = kind
        same = kind == self._graph.types[name]
        self._constants[name] = StoredConstant(name if same else f"{name}@{self._node.name}", kind, value)

    def _note(self, old: TensorType, new: TensorType, what: str) -> None:
        change = change_between(old, new)
        self._change = max(self._change, change)
        if change is not Change.NONE:
            how = "is" if change is Change.RESTATED else "becomes"
            self._notes[f"{what}: {StoredFormat.of(old).text} {how} {StoredFormat.of(new).text}"] = None


def _alike(one: Quantization, other: Quantization) -> bool:
    """Tell whether two biases have the same steps: float32 products differ in their last bits."""
    return len(one.scale) == len(other.scale) and np.allclose(one.scale, other.scale, rtol=1e-5, atol=0.0)
