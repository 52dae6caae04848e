"""Whether a node will be lowered at a precision: asked of its lowering itself, with stand-ins for what data decides.

A verdict comes before calibration. What quantisation will store is known of every tensor but the numbers: scales and
the elements of quantised constants. Lowering may depend on neither, so stand-ins take their place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dovetail.backends.verisilicon.lowering.batch import bind_batch
from dovetail.backends.verisilicon.lowering.refusals import LoweringRefusal
from dovetail.backends.verisilicon.lowering.table import lower_node
from dovetail.backends.verisilicon.lowering.view import ProgramDraft
from dovetail.backends.verisilicon.part import Part
from dovetail.backends.verisilicon.program import TensorRole
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.node import is_fact
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import Role, input_roles, is_pass_through, weight_layout

_STORED_AS_THEY_ARE = frozenset({"DequantizeLinear", "QuantizeLinear", "Requantize"})
_BINARY_STEP, _STEP = 0.0625, 0.05
"""Scales of stand-ins: a power of two where the format wants one."""


class TrialDraft(ProgramDraft):
    """A draft whose constants have no bytes."""

    def constant(self, value: AnyArray, kind: TensorType, where: str, *, fixed_point: bool | None = None) -> int:
        """Return the id of a new constant."""
        made = self.new(kind, where, fixed_point=fixed_point)
        self.tensors[made] = replace(self.tensors[made], role=TensorRole.CONSTANT)
        return made


class Trial(NamedTuple):
    """A node without its name and what a lowering may not depend on: equal nodes are tried once."""

    op: str
    domain: str
    attributes: tuple[tuple[str, type, object], ...]
    inputs: tuple[TrialInput | None, ...]
    """None where an optional input is left out."""
    outputs: tuple[TensorType | None, ...]
    precision: Precision
    part: Part


class TrialInput(NamedTuple):
    """One input: its place among different ones, its type, whether it is constant, and a value that is read."""

    place: int
    kind: TensorType
    constant: bool
    value: bytes | None


def lowering_refusal(graph: Graph, node: Node, precision: Precision, part: Part) -> str | None:
    """Return why a part's lowering would refuse a node of a graph at a precision, or None."""
    attributes = tuple((name, type(value), value) for name, value in node.attributes.items() if not is_fact(name))
    makes = tuple(graph.types[name] if name else None for name in node.outputs)
    trial = Trial(node.op, node.domain, attributes, _read_inputs(graph, node), makes, precision, part)
    try:
        hash(trial)
    except TypeError:
        # An attribute is an array or a graph.
        return _try.__wrapped__(trial)
    return _try(trial)


def _read_inputs(graph: Graph, node: Node) -> tuple[TrialInput | None, ...]:
    found: list[TrialInput | None] = []
    for name, role in zip(node.inputs, input_roles(graph, node), strict=True):
        if not name:
            found.append(None)
            continue
        value = graph.constants.get(name)
        read = value.tobytes() if value is not None and role is Role.CONTROL else None
        found.append(TrialInput(node.inputs.index(name), graph.types[name], value is not None, read))
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def _try(trial: Trial) -> str | None:
    try:
        single, _ = bind_batch(_stored(_float_graph(trial), trial.precision, trial.part.target))
        lower_node(TrialDraft(single, trial.part), single.nodes[0])
    except LoweringRefusal as error:
        return error.reason
    except CompileError as error:
        return error.message.partition(": ")[2].rstrip(".")
    return None


def _float_graph(trial: Trial) -> Graph:
    """Return a graph of the node alone, as the model has it; constants that are not read are zeros."""
    types: dict[str, TensorType] = {}
    constants: dict[str, AnyArray] = {}
    reads: list[str] = []
    for item in trial.inputs:
        name = "" if item is None else f"input {item.place}"
        reads.append(name)
        if item is None or name in types:
            continue
        types[name] = item.kind
        if item.constant:
            shape, carrier = item.kind.static_shape or (), item.kind.dtype.carrier
            zeros = item.value is None
            constants[name] = (
                _zeros(carrier, shape) if zeros else np.frombuffer(item.value or b"", carrier).reshape(shape)
            )
    makes = ["" if kind is None else f"output {index}" for index, kind in enumerate(trial.outputs)]
    types.update({name: kind for name, kind in zip(makes, trial.outputs, strict=True) if kind is not None})
    attributes = {name: value for name, _, value in trial.attributes}
    node = Node("node", trial.op, tuple(reads), tuple(makes), attributes, trial.domain)
    edges = tuple(dict.fromkeys(name for name in reads if name and name not in constants))
    return Graph("node", (node,), edges, tuple(name for name in makes if name), types, constants)


def _zeros(carrier: np.dtype[Any], shape: tuple[int, ...]) -> AnyArray:
    """Return zeros that take no memory."""
    return np.broadcast_to(np.zeros((), carrier), shape)


def _stored(graph: Graph, precision: Precision, target: str) -> Graph:
    """Return a graph of one node with the types that quantisation will give its tensors.

    Raises LoweringRefusal where a bias cannot have a scale for each channel.
    """
    (node,), form = graph.nodes, precision.activation
    if form.dtype is DType.F32 or node.op in _STORED_AS_THEY_ARE:
        return graph
    types = dict(graph.types)
    _retype_inputs(graph, precision, types, target)
    shared = types[node.inputs[0]].quant if is_pass_through(graph, node) else None
    for name in graph.outputs:
        kind = _in_form(types[name], form, scale=2.0)
        types[name] = replace(kind, quant=shared) if shared is not None and kind.quant is not None else kind
    constants = {
        name: value if types[name] is graph.types[name] else _zeros(types[name].dtype.carrier, value.shape)
        for name, value in graph.constants.items()
    }
    return graph.evolve(types=types, constants=constants)


def _retype_inputs(graph: Graph, precision: Precision, types: dict[str, TensorType], target: str) -> None:
    (node,) = graph.nodes
    layout = weight_layout(graph, node)
    weight = ""
    for name, role in zip(node.inputs, input_roles(graph, node), strict=True):
        if role is Role.CONTROL:
            continue
        kind = graph.types[name]
        if role is Role.WEIGHT and layout is not None:
            weight = name
            types[name] = _weight_type(kind, precision.weight, layout.channel_axis)
        elif role is Role.BIAS and precision.is_quantized and kind.quant is None:
            data, weights = types[node.inputs[0]].quant, types[weight].quant
            assert data is not None
            assert weights is not None
            count = len(weights.scale)
            if count > 1 and kind.shape != (count,):
                reason = f"its bias has shape {list(kind.shape or ())} where {[count]} has a scale for each channel"
                raise LoweringRefusal(node.label, target, reason)
            product = float(np.float32(data.scale[0] * weights.scale[0]))
            types[name] = TensorType(precision.bias, kind.shape, _scales(product, count, 0 if count > 1 else None))
        else:
            types[name] = _in_form(kind, precision.activation)


def _in_form(kind: TensorType, form: NumberFormat, scale: float = 1.0) -> TensorType:
    """Return the type of a tensor of reals in a format; what is quantised already stays."""
    if not kind.holds_reals or kind.quant is not None:
        return kind
    if form.dtype.is_float:
        return TensorType(form.dtype, kind.shape)
    step = _BINARY_STEP if form.power_of_two else _STEP
    return TensorType(form.dtype, kind.shape, _scales(scale * step, 1, None))


def _weight_type(kind: TensorType, form: NumberFormat, axis: int) -> TensorType:
    shape = kind.static_shape or ()
    if not form.per_channel or kind.quant is not None or not 0 <= axis < len(shape):
        return _in_form(kind, form)
    return TensorType(form.dtype, shape, _scales(_STEP, shape[axis], axis))


@lru_cache(maxsize=1 << 10)
def _scales(step: float, count: int, axis: int | None) -> Quantization:
    return Quantization((float(np.float32(step)),) * count, (0,) * count, axis)
