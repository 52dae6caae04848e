"""Whether a node will be lowered at a precision: asked of its lowering itself, with stand-ins for what data decides.

A verdict comes before calibration. What quantisation will store is known of every tensor but the numbers: scales and
the elements of quantised constants. Lowering may depend on neither, so stand-ins take their place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

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


class TrialInput(NamedTuple):
    """One input of a node that is tried."""

    place: int
    """Of its tensor among the inputs: the first of those that read it."""
    kind: TensorType
    role: Role
    constant: bool
    value: bytes | None
    """Elements of a constant that lowering may read."""


class LoweringTrial(NamedTuple):
    """A node without its name and what lowering may not depend on: equal nodes are tried once."""

    op: str
    domain: str
    attributes: tuple[tuple[str, type, object], ...]
    """Name, type and value: 1 and 1.0 are not the same attribute."""
    inputs: tuple[TrialInput | None, ...]
    """None where an optional input is left out."""
    outputs: tuple[TensorType | None, ...]
    channel_axis: int
    """Of a constant weight; negative where its channels have no scales of their own."""
    passes_through: bool
    precision: Precision
    part: Part

    @property
    def keeps_types(self) -> bool:
        """Tell whether quantisation changes no type."""
        return self.precision.activation.dtype is DType.F32 or self.op in _STORED_AS_THEY_ARE


def lowering_refusal(graph: Graph, node: Node, precision: Precision, part: Part) -> str | None:
    """Return why a part's lowering would refuse a node of a graph at a precision, or None."""
    trial = trial_of(graph, node, precision, part)
    return _try(trial) if is_hashable(node) else _try.__wrapped__(trial)


def is_hashable(node: Node) -> bool:
    """Tell whether the trial of a node can be the key of a table."""
    return not any(isinstance(value, np.ndarray | Graph) for value in node.attributes.values())


def stand_in(trial: LoweringTrial) -> Graph:
    """Return the graph of a node alone that its lowering is tried with: no scale and no weight in it is a real one."""
    return _stored_graph(trial)


def trial_of(graph: Graph, node: Node, precision: Precision, part: Part) -> LoweringTrial:
    """Return how lowering sees a node of a graph at a precision, before data are known."""
    layout = weight_layout(graph, node)
    return LoweringTrial(
        op=node.op,
        domain=node.domain,
        attributes=tuple((name, type(value), value) for name, value in node.attributes.items() if not is_fact(name)),
        inputs=_read_inputs(graph, node),
        outputs=tuple(graph.types[name] if name else None for name in node.outputs),
        channel_axis=-1 if layout is None else layout.channel_axis,
        passes_through=is_pass_through(graph, node),
        precision=precision,
        part=part,
    )


def _read_inputs(graph: Graph, node: Node) -> tuple[TrialInput | None, ...]:
    found: list[TrialInput | None] = []
    for name, role in zip(node.inputs, input_roles(graph, node), strict=True):
        if not name:
            found.append(None)
            continue
        value = graph.constants.get(name)
        read = value.tobytes() if value is not None and role is Role.CONTROL else None
        found.append(TrialInput(node.inputs.index(name), graph.types[name], role, value is not None, read))
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def _try(trial: LoweringTrial) -> str | None:
    try:
        single, _ = bind_batch(_stored_graph(trial))
        lower_node(TrialDraft(single, trial.part), single.nodes[0])
    except LoweringRefusal as error:
        return error.reason
    except CompileError as error:
        return error.message.partition(": ")[2].rstrip(".")
    return None


def _stored_graph(trial: LoweringTrial) -> Graph:
    """Return a graph of the node alone with the types that quantisation will give its tensors.

    Constants that lowering may not read are zeros.
    """
    types, reads = _input_types(trial)
    constants = {
        name: _value(item, types[name])
        for name, item in zip(reads, trial.inputs, strict=True)
        if item and item.constant
    }
    makes = ["" if kind is None else f"output {index}" for index, kind in enumerate(trial.outputs)]
    shared = types[reads[0]].quant if trial.passes_through else None
    for name, kind in zip(makes, trial.outputs, strict=True):
        if kind is not None:
            stored = kind if trial.keeps_types else _in_form(kind, trial.precision.activation, scale=2.0)
            types[name] = replace(stored, quant=shared) if shared is not None and stored.quant is not None else stored
    attributes = {name: value for name, _, value in trial.attributes}
    node = Node("node", trial.op, tuple(reads), tuple(makes), attributes, trial.domain)
    edges = tuple(dict.fromkeys(name for name in reads if name and name not in constants))
    return Graph("node", (node,), edges, tuple(name for name in makes if name), types, constants)


def _input_types(trial: LoweringTrial) -> tuple[dict[str, TensorType], list[str]]:
    """Return the types of the inputs as they will be stored, and the names of all inputs in order."""
    types: dict[str, TensorType] = {}
    names: list[str] = []
    weight = data = None
    for item in trial.inputs:
        names.append("" if item is None else f"input {item.place}")
        if item is None:
            continue
        kind = item.kind
        if trial.keeps_types or item.role is Role.CONTROL:
            stored = kind
        elif item.role is Role.WEIGHT:
            stored = weight = _weight_type(kind, trial.precision.weight, trial.channel_axis)
        elif item.role is Role.BIAS and trial.precision.is_quantized and kind.quant is None:
            stored = _bias_type(trial, kind, data, weight)
        else:
            stored = _in_form(kind, trial.precision.activation)
        data = data or stored
        types[names[-1]] = stored
    return types, names


def _bias_type(
    trial: LoweringTrial, kind: TensorType, data: TensorType | None, weight: TensorType | None
) -> TensorType:
    assert data is not None
    assert data.quant is not None
    assert weight is not None
    assert weight.quant is not None
    count, shape, axis = len(weight.quant.scale), kind.static_shape or (), None
    if count > 1:
        shape = (*shape[:-1], count)
        axis = len(shape) - 1
    product = float(np.float32(data.quant.scale[0] * weight.quant.scale[0]))
    return TensorType(trial.precision.bias, shape, _scales(product, count, axis))


def _value(item: TrialInput, kind: TensorType) -> AnyArray:
    """Return a constant: its elements, or zeros that take no memory."""
    shape, carrier = kind.static_shape or (), kind.dtype.carrier
    if item.value is None:
        return np.broadcast_to(np.zeros((), carrier), shape)
    return np.frombuffer(item.value, carrier).reshape(shape)


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
