"""What the price of an operator is made of: quantities in cycles of an ideal part, each with a coefficient to fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dovetail.backend.target import HardwareFacts
from dovetail.cost.sizes import Sizer, Traffic, stored_bytes, work_elements
from dovetail.cost.stated import stated_range
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.plan.units import clamp_host
from dovetail.quantize.parameters import choose_quantization

COMPUTE = ("rounds", "lanes", "elements")
"""Multiply-accumulates in whole rounds over the cores and over 64 lanes; elements that any other operator touches."""
PORTS = ("stored", "loaded")
"""Bytes through the array's ports: 8 a cycle out, 16 in."""
TRAFFIC = (
    *("weights", "near_in", "middle_in", "far_in", "shared_in", "first_in"),
    *("near_out", "middle_out", "far_out", "shared_out", "last_out"),
    *("strided_in", "strided_out", "dilated_in", "window_in", "repeated_in", "crossed"),
)
"""Bytes over the bus to DDR. Near: input and output fit into half of the part's own memory; middle: three times that;
shared: not near, and several read it, for which it is seldom kept; first and last: the graph's own. A window's and a
wide layer's input is read again, and so is what is turned, once for every element of a row in a burst."""
EXTRA = (
    *("clamped", "clipped_in", "turned_in", "turned_out", "entered", "left", "tiles"),
    *("turns_in", "turns_out", "enters", "leaves", "joins", "sums_in", "parts_in", "late"),
)
"""What comes on top of the slowest of the three: a clamp on both sides, which may run alone, before or behind; tensors
that come from or go to another engine, and the graph's own, which may be copied on the way; cutting into tiles. Then
numbers of tensors: a copy has a cost of its own, be it ever so small; of what is joined; of operands that a sum or a
part of a tensor is, which may be copied, too; and how far the latency of the memory shows, which very small tensors
hide."""
FIXED = "fixed"
CONVERSION = "Requantize"
"""The kind of work of bringing a tensor from one format to another, which a plan puts in."""
FEATURES = (*COMPUTE, *PORTS, *TRAFFIC, *EXTRA, FIXED)
SHARPNESS = 4.0
"""How much the slowest of compute, ports and traffic hides the others: they add as a norm of this order."""

_LANES = 64
_PORT_OUT, _PORT_IN = 8.0, 16.0
_NEAR, _MIDDLE = 0.5, 1.5
_KERNELS = 4
"""Kernels that a core holds at once: more of them read the input again."""
_TILE_CYCLES = 1000.0
_BURST = 16
_COPY_CYCLES = 1000.0
_LATE_BYTES = 1200
_LATE_CYCLES = 1000.0
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_SUMS = frozenset({"Add", "Sub"})
_PARTS = frozenset({"Slice", "Split"})


_ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div"})
_SMALL, _CONSTANT = "small ", "constant "
_FEW = 512
"""Elements from which on an operator is not small."""


def conversion_values(elements: int, facts: HardwareFacts) -> dict[str, float]:
    """Return the quantities of bringing so many elements from one format to another.

    By the vendor's model each core of the tensor processor goes over all of them.
    """
    return {"elements": float(elements * max(1, facts.tp_cores)), FIXED: 1.0}


def kinds_of(graph: Graph, node: Node, precision: Precision) -> tuple[str, ...]:
    """Return the kinds of work by which a node is priced, the best first.

    What no product makes of few elements hardly depends on how many: where that is known, it is a kind of its own. So
    is what is summed or multiplied with a constant.
    """
    kind = kind_of(graph, node, precision)
    small = node.op not in _PRODUCTS and graph.element_counts.get(node.outputs[0], _FEW) < _FEW
    constant = node.op in _ELEMENTWISE and any(tensor in graph.constants for tensor in node.inputs)
    kinds = (f"{_CONSTANT}{kind}", kind) if constant else (kind,)
    return (*(f"{_SMALL}{item}" for item in kinds), *kinds) if small else kinds


def kind_of(graph: Graph, node: Node, precision: Precision) -> str:
    """Return the kind of work: convolutions by kernels, products by operands, what is joined, else the operator."""
    if node.op == "Conv":
        weight = graph.types[node.inputs[1]].static_shape or ()
        if node.integer("group", 1) > 1:
            return "depthwise" if weight[1:2] == (1,) else "grouped"
        return "pointwise" if math.prod(weight[2:]) == 1 else "window"
    if node.op == "ConvTranspose":
        return "ConvTranspose" if node.integer("group", 1) == 1 else "grouped ConvTranspose"
    if node.op in ("Mul", "Sigmoid") and _gates(graph, node):
        return f"gate {node.op}"
    if node.op == "Concat":
        return f"{_joining(graph, node, precision)} Concat"
    if node.op == "Transpose":
        return "turning Transpose" if _turns(node) else "Transpose"
    if node.op in ("Gemm", "MatMul"):
        return "dense" if node.inputs[1] in graph.constants else "dynamic"
    return node.op


def _turns(node: Node) -> bool:
    """Tell whether a node moves the last axis."""
    order = node.integers("perm")
    return node.op == "Transpose" and not (order and order[-1] == len(order) - 1)


def _gates(graph: Graph, node: Node) -> bool:
    """Tell whether a node is part of `x * sigmoid(x)`, which the vendor's compiler makes one table."""
    if node.op == "Sigmoid":
        users = graph.consumers.get(node.outputs[0], ())
        return len(users) == 1 and users[0].op == "Mul" and node.inputs[0] in users[0].inputs
    gates = [graph.producers[name] for name in node.inputs if name in graph.producers]
    return any(gate.op == "Sigmoid" and gate.inputs[0] in node.inputs for gate in gates)


def _joining(graph: Graph, node: Node, precision: Precision) -> str:
    """Tell how tensors are joined: from quarters of one; copied, as they lie apart or are rescaled; or where they are.

    A tensor that several read is seldom made where it is joined on every part, and so is of a kind of its own.
    """
    if _quarters(graph, node):
        return "quarter"
    made = graph.types[node.outputs[0]].shape or ()
    axis = node.integer("axis", 1)
    apart = any(isinstance(size, int) and size != 1 for size in made[: axis if axis >= 0 else axis + len(made)])
    if apart or _rescales(graph, node, precision):
        return "copying"
    return "shared" if any(len(graph.consumers.get(name, ())) > 1 for name in node.inputs) else "plain"


def _rescales(graph: Graph, node: Node, precision: Precision) -> bool:
    """Tell whether tensors that a node joins have other scales than its result, by the ranges that are stated."""
    tensors = (*(name for name in node.inputs if name not in graph.constants), node.outputs[0])
    form = precision.activation
    return (
        precision.is_quantized and len({choose_quantization(stated_range(graph, name), form) for name in tensors}) > 1
    )


def _quarters(graph: Graph, node: Node) -> bool:
    """Tell whether a Concat joins slices of one tensor: every other row and column, as some detectors begin."""
    before = [graph.producers[name] for name in node.inputs if name in graph.producers]
    sources = {item.inputs[0] for item in before if item.op == "Slice"}
    return len(sources) == 1 and len(before) == len(node.inputs) and all(item.op == "Slice" for item in before)


@dataclass(frozen=True)
class Features:
    """The quantities of one node of a graph at one precision on a part with these figures."""

    graph: Graph
    node: Node
    precision: Precision
    facts: HardwareFacts
    sizer: Sizer

    def values(self) -> dict[str, float]:
        """Return the quantities that are not 0, in cycles."""
        made = {**self._compute(), **self._ports(), **self._traffic(), **self._extra(), FIXED: 1.0}
        return {name: value for name, value in made.items() if value}

    @cached_property
    def _moved(self) -> Traffic:
        return self.sizer.traffic_in(self.graph, [self.node], self.precision)

    @cached_property
    def _macs(self) -> float:
        return self.sizer.macs(self.graph, self.node) / (self.facts.nn_cores * _LANES)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        """The sizes of the result; symbolic and unknown ones count as 1, as everywhere in costs."""
        sizes = self.graph.types[self.node.outputs[0]].shape or ()
        return tuple(size if isinstance(size, int) else 1 for size in sizes) or (1,)

    @property
    def _channels(self) -> int:
        spatial = self.node.op in ("Conv", "ConvTranspose") and len(self._shape) > 1
        return self._shape[1] if spatial else self._shape[-1]

    def _compute(self) -> dict[str, float]:
        if not self._macs:
            return {"elements": float(work_elements(self.graph, self.node))}
        channels, cores = max(1, self._channels), self.facts.nn_cores
        pixels = max(1, math.prod(self._shape) // channels)
        return {
            "rounds": self._macs * math.ceil(channels / cores) * cores / channels,
            "lanes": self._macs * math.ceil(pixels / _LANES) * _LANES / pixels,
        }

    def _ports(self) -> dict[str, float]:
        return {"stored": self._moved.written_bytes / _PORT_OUT, "loaded": self._moved.read_bytes / _PORT_IN}

    def _traffic(self) -> dict[str, float]:
        bus = self.facts.ddr_bytes_per_cycle
        read, written = self._moved.read_bytes / bus, self._moved.written_bytes / bus
        kernel, strides, dilations = self._window()
        return {
            "weights": self._moved.constant_bytes / bus,
            self._source(): read,
            self._destination(): written,
            "strided_in": read if strides > 1 else 0.0,
            "strided_out": written if strides > 1 else 0.0,
            "dilated_in": read if dilations > 1 else 0.0,
            "window_in": read * (kernel - 1) * max(1, strides // 2),
            "repeated_in": read * (math.ceil(self._channels / (self.facts.nn_cores * _KERNELS)) - 1)
            if self.node.op in _PRODUCTS
            else 0.0,
            "crossed": read * self._row / _BURST if self._crosses else 0.0,
        }

    @property
    def _crosses(self) -> bool:
        """Tell whether several rows become columns in DDR; what is small and goes on alone stays in the part's own."""
        made = self.node.outputs[0]
        if not _turns(self.node) or self.graph.element_counts[made] <= self._row:
            return False
        joined = any(user.op == "Concat" for user in self.graph.consumers.get(made, ()))
        stays = self._distance(self._moved.read_bytes + self._moved.written_bytes, shared=False) == "near"
        return joined or made in self.graph.outputs or not stays

    @property
    def _row(self) -> int:
        """The elements of the last axis of what is read."""
        last = (self.graph.types[self.node.inputs[0]].shape or (1,))[-1]
        return last if isinstance(last, int) else 1

    def _window(self) -> tuple[int, int, int]:
        """Return the elements of the kernel, the product of the strides, and that of the dilations."""
        if self.node.op == "Conv":
            kernel = math.prod((self.graph.types[self.node.inputs[1]].static_shape or (1, 1))[2:])
        else:
            kernel = math.prod(self.node.integers("kernel_shape", (1,)))
        strides, dilations = (math.prod(self.node.integers(name, (1,))) for name in ("strides", "dilations"))
        return kernel, strides, dilations

    def _source(self) -> str:
        if any(tensor in self.graph.inputs for tensor in self.node.inputs):
            return "first_in"
        shared = len(self.graph.consumers.get(self.node.inputs[0], ())) > 1
        return f"{self._distance(self._moved.read_bytes + self._moved.written_bytes, shared)}_in"

    def _destination(self) -> str:
        if any(tensor in self.graph.outputs for tensor in self.node.outputs):
            return "last_out"
        readers = [user for tensor in self.node.outputs for user in self.graph.consumers.get(tensor, ())]
        results = [stored_bytes(self.graph, user.outputs[0], self.precision) for user in readers]
        total = self._moved.written_bytes + max(results, default=0)
        return f"{self._distance(total, len(readers) > 1)}_out"

    def _distance(self, total: int, shared: bool) -> str:
        share = total / self.facts.sram_bytes
        if share < _NEAR:
            return "near"
        return "shared" if shared else "middle" if share < _MIDDLE else "far"

    def _extra(self) -> dict[str, float]:
        bus, total = self.facts.ddr_bytes_per_cycle, self._moved.read_bytes + self._moved.written_bytes
        readers = self.graph.consumers.get(self.node.outputs[0], ())
        clips = sum(user.op == "Clip" and clamp_host(self.graph, user) is not None for user in readers)
        producers = {
            tensor: self.graph.producers[tensor] for tensor in self.node.inputs if tensor in self.graph.producers
        }
        clipped = [tensor for tensor, node in producers.items() if node.op == "Clip"]
        turned = [tensor for tensor, node in producers.items() if self._on_array(node) != self._on_array(self.node)]
        turns = any(self._on_array(user) != self._on_array(self.node) for user in readers)
        entered = [tensor for tensor in self.node.inputs if tensor in self.graph.inputs]
        leaves = any(tensor in self.graph.outputs for tensor in self.node.outputs)
        return {
            "clamped": clips * self._moved.written_bytes / bus,
            "clipped_in": sum(self._bytes(tensor) for tensor in clipped) / bus,
            "turned_in": sum(self._bytes(tensor) for tensor in turned) / bus,
            "turned_out": self._moved.written_bytes / bus if turns else 0.0,
            "entered": sum(self._bytes(tensor) for tensor in entered) / bus,
            "left": self._moved.written_bytes / bus if leaves else 0.0,
            "tiles": max(0.0, total / self.facts.sram_bytes - 1.0) * _TILE_CYCLES,
            "turns_in": len(turned) * _COPY_CYCLES,
            "turns_out": _COPY_CYCLES if turns else 0.0,
            "enters": len(entered) * _COPY_CYCLES,
            "leaves": _COPY_CYCLES if leaves else 0.0,
            "late": min(1.0, max(self._moved.read_bytes, self._moved.written_bytes) / _LATE_BYTES) * _LATE_CYCLES,
            "joins": len(self.node.inputs) * _COPY_CYCLES if self.node.op == "Concat" else 0.0,
            "sums_in": sum(node.op in _SUMS for node in producers.values()) * _COPY_CYCLES,
            "parts_in": sum(node.op in _PARTS for node in producers.values()) * _COPY_CYCLES,
        }

    def _on_array(self, node: Node) -> bool:
        host = clamp_host(self.graph, node)
        return (node if host is None else host).op in _PRODUCTS | _SUMS

    def _bytes(self, tensor: str) -> int:
        return stored_bytes(self.graph, tensor, self.precision)


def cycles(coefficients: Mapping[str, float], values: Mapping[str, float]) -> float:
    """Return what quantities take: the slowest of compute, ports and traffic, a little of the others, the extras."""

    def total(names: tuple[str, ...]) -> float:
        return sum(coefficients.get(name, 0.0) * values.get(name, 0.0) for name in names)

    slowest = math.pow(sum(math.pow(total(names), SHARPNESS) for names in (COMPUTE, PORTS, TRAFFIC)), 1.0 / SHARPNESS)
    return slowest + total((*EXTRA, FIXED))
