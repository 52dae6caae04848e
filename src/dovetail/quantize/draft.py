"""The quantised graph while it is being built, node by node in topological order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dovetail.errors import QuantizeError
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import Role
from dovetail.ir.types import Quantization, TensorType
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.quantize.boundaries import WORLD, boundary_op, boundary_placement
from dovetail.quantize.facts import NodeFacts
from dovetail.quantize.parameters import choose_quantization
from dovetail.quantize.ranges import Ranges
from dovetail.quantize.weights import StoredConstant, WeightStore

_SOURCE = NumberFormat(DType.F32)


class QuantizedDraft:
    """Collect nodes, types and boundaries of a quantised graph."""

    def __init__(
        self, graph: Graph, plan: Plan, ranges: Ranges, weights: WeightStore, facts: Mapping[str, NodeFacts]
    ) -> None:
        self.placements: dict[str, Placement] = {}
        self.boundaries: list[str] = []
        self._graph = graph
        self._plan = plan
        self._ranges = ranges
        self._weights = weights
        self._facts = facts
        self._nodes: list[Node] = []
        self._types: dict[str, TensorType] = {name: graph.types[name] for name in graph.inputs}
        self._constants: dict[str, AnyArray] = {}
        self._origins: dict[str, str] = dict(graph.origins)
        self._names = {node.name for node in graph.nodes}
        # These names go on meaning what the source means: a graph around this one, or a body, reads them.
        self._promised = {*graph.outputs, *(name for item in facts.values() for name in item.captured)}
        # Every source tensor in every format that something needs: its name in the new graph.
        # The source's own float type goes by the key of float32.
        self._versions: dict[str, dict[str, str]] = {name: {_SOURCE.key: name} for name in graph.inputs}
        self._native: dict[str, tuple[str, Placement]] = {name: (name, WORLD) for name in graph.inputs}

    def add(self, node: Node) -> None:
        """Add a node at its placement, with the boundaries that its inputs need."""
        placement = self._plan.placement(node.name)
        form = placement.precision.activation if self._facts[node.name].computes_reals else _SOURCE
        inputs = self._inputs(node, placement, form)
        outputs = tuple(self._output(node, index, placement, form, inputs) for index in range(len(node.outputs)))
        same = inputs == node.inputs and outputs == node.outputs
        self._nodes.append(node if same else replace(node, inputs=inputs, outputs=outputs))
        self.placements[node.name] = placement

    def finish(self) -> Graph:
        """Return the graph, with its outputs in the types that the source has."""
        for tensor in self._graph.outputs:
            if tensor in self._graph.constants:
                self._keep_constant(tensor)
            elif tensor not in self._types:
                self._convert(tensor, _SOURCE, WORLD)
        return Graph(
            name=self._graph.name,
            nodes=tuple(self._nodes),
            inputs=self._graph.inputs,
            outputs=self._graph.outputs,
            types=self._types,
            constants=self._constants,
            captures=self._graph.captures,
            origins={name: origin for name, origin in self._origins.items() if name in self._types},
        )

    def _inputs(self, node: Node, placement: Placement, form: NumberFormat) -> tuple[str, ...]:
        facts = self._facts[node.name]
        for tensor in facts.captured:
            self._require_source(tensor, placement)
        roles = facts.roles
        names = [""] * len(node.inputs)
        for index, (tensor, role) in enumerate(zip(node.inputs, roles, strict=True)):
            if role is Role.CONTROL and tensor:
                names[index] = self._require_source(tensor, placement, reads_elements=node.op not in ("Shape", "Size"))
            elif role is Role.DATA:
                names[index] = self._in_format(tensor, form, placement)
        self._weigh(node, roles, placement.precision if form.dtype.is_integer else None, form, names)
        return tuple(names)

    def _weigh(
        self, node: Node, roles: tuple[Role, ...], precision: Precision | None, form: NumberFormat, names: list[str]
    ) -> None:
        layout = self._facts[node.name].layout
        if layout is None or Role.WEIGHT not in roles:
            return
        has_bias = layout.bias is not None and layout.bias < len(roles) and roles[layout.bias] is Role.BIAS
        if precision is None:
            for index in (layout.weight, layout.bias) if has_bias else (layout.weight,):
                assert index is not None
                names[index] = self._in_format(node.inputs[index], form, WORLD)
            return
        quant = self._types[names[0]].quant
        assert quant is not None
        weight = self._weights.weight(node, layout, precision, quant.scale[0])
        names[layout.weight] = self._store(node.inputs[layout.weight], weight)
        if has_bias:
            assert layout.bias is not None
            assert weight.kind.quant is not None
            bias = self._weights.bias(node, layout, precision, quant.scale[0], weight.kind.quant)
            names[layout.bias] = self._store(node.inputs[layout.bias], bias)

    def _output(self, node: Node, index: int, placement: Placement, form: NumberFormat, inputs: tuple[str, ...]) -> str:
        tensor = node.outputs[index]
        if not tensor:
            return ""
        kind = self._graph.types[tensor]
        name, key = tensor, _SOURCE.key
        if kind.holds_reals and form != _SOURCE and (form.dtype.is_integer or form.dtype is not kind.dtype):
            key = form.key
            name = self._fresh(f"{tensor}@{form.key}") if tensor in self._promised else tensor
            quant = self._quantization(node, index, form, inputs) if form.dtype.is_integer else None
            kind = TensorType(form.dtype, kind.shape, quant)
            if name != tensor:
                self._origins[name] = self._graph.origin_of(tensor)
        self._types[name] = kind
        self._native[tensor] = (name, placement)
        if kind.holds_reals:
            self._versions[tensor] = {key: name}
        return name

    def _quantization(self, node: Node, index: int, form: NumberFormat, inputs: tuple[str, ...]) -> Quantization:
        tensor, facts = node.outputs[index], self._facts[node.name]
        if facts.passes_through or (facts.host is not None and self._plan_format(facts.host) == form):
            quant = self._types[inputs[0]].quant
            if quant is not None:
                return quant
        limits = self._ranges.of(tensor)
        for follower in facts.clamps[index]:
            if self._plan_format(follower) == form:
                limits = self._ranges.of(follower.outputs[0])
        try:
            return choose_quantization(limits, form)
        except QuantizeError as error:
            raise QuantizeError(f"{node.label}: tensor '{tensor}': {error.message}", hint=error.hint) from error

    def _plan_format(self, node: Node) -> NumberFormat:
        return self._plan.placement(node.name).precision.activation

    def _in_format(self, tensor: str, form: NumberFormat, placement: Placement) -> str:
        """Return the name of a tensor in a format, converting it when nothing has yet."""
        if tensor in self._graph.constants:
            if form.dtype is DType.F32:
                return self._keep_constant(tensor)
            return self._store(tensor, self._weights.data(tensor, form))
        known = self._versions[tensor].get(form.key)
        return known if known is not None else self._convert(tensor, form, placement)

    def _require_source(self, tensor: str, placement: Placement, *, reads_elements: bool = True) -> str:
        """Return a tensor as the source has it: control inputs and captured tensors."""
        if tensor in self._graph.constants:
            return self._keep_constant(tensor)
        if not self._graph.types[tensor].holds_reals or not reads_elements:
            return self._native[tensor][0]
        return self._in_format(tensor, _SOURCE, placement)

    def _convert(self, tensor: str, form: NumberFormat, consumer: Placement) -> str:
        native, producer = self._native[tensor]
        kind = self._types[native]
        kind_there = self._graph.types[tensor]
        if form != _SOURCE:
            quant = choose_quantization(self._ranges.of(tensor), form) if form.dtype.is_integer else None
            kind_there = TensorType(form.dtype, kind.shape, quant)
        same = next((name for name in self._versions[tensor].values() if self._types[name] == kind_there), None)
        if same is not None:
            # Two formats can come to one type: a tensor that is always 0 has scale 1 in all of them.
            self._versions[tensor][form.key] = same
            return same
        target = tensor if form == _SOURCE and tensor in self._promised else self._fresh(f"{tensor}@{form.key}")
        self._types[target] = kind_there
        op, domain = boundary_op(kind, kind_there)
        label = self._fresh_node(f"{op}({native}->{form.key})")
        attributes = {"to": ONNX_CODES[kind_there.dtype]} if op == "Cast" else {}
        self._nodes.append(Node(label, op, (native,), (target,), attributes, domain))
        self.placements[label] = boundary_placement(producer, consumer)
        self.boundaries.append(label)
        self._versions[tensor][form.key] = target
        if target != tensor:
            self._origins[target] = self._graph.origin_of(tensor)
        return target

    def _store(self, tensor: str, stored: StoredConstant) -> str:
        self._types[stored.name] = stored.kind
        self._constants[stored.name] = stored.value
        self._origins[stored.name] = self._graph.origin_of(tensor)
        return stored.name

    def _keep_constant(self, tensor: str) -> str:
        self._types[tensor] = self._graph.types[tensor]
        self._constants[tensor] = self._graph.constants[tensor]
        return tensor

    def _fresh(self, name: str) -> str:
        while name in self._graph.types or name in self._types:
            name += "'"
        return name

    def _fresh_node(self, name: str) -> str:
        while name in self._names:
            name += "'"
        self._names.add(name)
        return name
