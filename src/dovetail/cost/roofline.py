"""Rooflines: the slower of arithmetic and memory traffic, from the facts of a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.backend.costs import Figure, Quality
from dovetail.backend.profiles.hosts import HostFacts
from dovetail.backend.target import Engine, HardwareFacts, TargetProfile
from dovetail.cost.sizes import Sizer, work_elements
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.plan.units import clamp_host

_LANES = 64
"""Multiply-accumulate positions of one core; each is `_WIDTH` kernel columns wide."""
_WIDTH = 3

_TENSOR_ELEMENTS = 4.0
"""Elements a cycle of the tensor processor; memory is slower, so the figure seldom decides."""

_SHADER_ELEMENTS: Mapping[int, float] = {1: 1.0, 2: 0.5, 4: 0.25}
"""Elements a cycle of the shaders by bytes an element: stated, the vendor's model has no record of them."""

_SHADER_MACS: Mapping[int, float] = {1: 8.0, 2: 4.0, 4: 2.0}
"""Multiply-accumulates a cycle of the shaders by bytes an element: stated likewise."""

SHADER_MODEL = "shaders are stated at 1 element and 8 multiply-accumulates a cycle at 8 bits, half of it at 16"
"""What the two tables above say, for people."""

_PASSES: Mapping[str, float] = {
    "Softmax": 4.0,
    "LogSoftmax": 4.0,
    "LayerNormalization": 6.0,
    "InstanceNormalization": 6.0,
    "GroupNormalization": 6.0,
    "Exp": 2.0,
    "Log": 2.0,
    "Pow": 3.0,
    "Div": 2.0,
    "Erf": 3.0,
    "Gelu": 4.0,
}
"""How often an operator touches every element, where it is not once."""

FREE = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
"""Operators that rename memory."""


@dataclass(frozen=True, slots=True)
class NpuRoofline:
    """Price steps on a target that has hardware facts."""

    target: TargetProfile
    facts: HardwareFacts
    sizer: Sizer

    @property
    def source(self) -> str:
        """Return where the figures come from."""
        return (
            f"{self.facts.macs_per_cycle} multiply-accumulates a cycle at 8 bits and a quarter at 16, "
            f"{self.facts.clock_hz / 1e6:g} MHz, {self.facts.ddr_bytes_per_cycle:g} bytes a cycle; {SHADER_MODEL}"
        )

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        """Return what the nodes take, or None for another target or a node that it refuses."""
        if target != self.target.name:
            return None
        cycles = 0.0
        inside = {node.name for node in nodes}
        for node in nodes:
            engine = self.target.verdict(graph, node, precision).engine
            if engine is None:
                return None
            host = clamp_host(graph, node)
            if node.op in FREE or (host is not None and host.name in inside):
                continue
            cycles += self._cycles(graph, node, precision, engine)
        return self._figure(cycles, self.sizer.traffic_in(graph, nodes, precision).total_bytes)

    def conversion(self, elements: int, moved_bytes: int) -> Figure:
        """Return what it takes to convert a tensor between formats on the target."""
        return self._figure(elements / _TENSOR_ELEMENTS, moved_bytes)

    def _figure(self, cycles: float, moved_bytes: int) -> Figure:
        slower = max(cycles, moved_bytes / self.facts.ddr_bytes_per_cycle)
        return Figure(slower / self.facts.clock_hz * 1e9, Quality.ROOFLINE, self.source)

    def _cycles(self, graph: Graph, node: Node, precision: Precision, engine: Engine) -> float:
        width = precision.activation.dtype.size_bytes
        macs = self.sizer.macs(graph, node)
        elements = work_elements(graph, node)
        if engine in (Engine.NN, Engine.SP):
            slowdown = 4.0 if width == 2 else 1.0
            if macs:
                return macs * slowdown / (self.facts.macs_per_cycle * _utilisation(graph, node))
            return elements * slowdown / (self.facts.nn_cores * _LANES)
        if engine is Engine.TP:
            return elements / _TENSOR_ELEMENTS
        return self.shader_cycles(graph, node, precision)

    def shader_cycles(self, graph: Graph, node: Node, precision: Precision) -> int:
        """Return what the shaders take for a node at our stated rates."""
        if node.op in FREE:
            return 0
        width = precision.activation.dtype.size_bytes
        macs = self.sizer.macs(graph, node)
        if macs:
            return math.ceil(macs / _SHADER_MACS[width])
        return math.ceil(work_elements(graph, node) * _PASSES.get(node.op, 1.0) / _SHADER_ELEMENTS[width])


def _utilisation(graph: Graph, node: Node) -> float:
    """Return the share of the array that a kernel fills: its columns go three by three, 1x1 leaves two idle."""
    kernel = graph.types[node.inputs[1]].static_shape if node.op in ("Conv", "ConvTranspose") else None
    columns = kernel[-1] if kernel else 1
    return columns / (_WIDTH * -(-columns // _WIDTH))


@dataclass(frozen=True, slots=True)
class HostRoofline:
    """Price steps on the CPU; an operator without an integer kernel runs in float between conversions."""

    target: str
    facts: HostFacts
    sizer: Sizer

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        """Return what the nodes take, or None for another target."""
        if target != self.target:
            return None
        byte_wide = precision.activation.dtype in (DType.I8, DType.U8)
        rate = self.facts.byte_macs_per_s if byte_wide else self.facts.float_macs_per_s
        inside = {node.name for node in nodes}
        busy_s, steps = sum(self.sizer.macs(graph, node) for node in nodes) / rate, 0
        for node in nodes:
            host = clamp_host(graph, node)
            if host is not None and host.name in inside:
                continue
            steps += 1
            if not self.sizer.macs(graph, node) and node.op not in FREE:
                passes = _PASSES.get(node.op, 1.0) + (2.0 if byte_wide else 0.0)
                busy_s += work_elements(graph, node) * passes / self.facts.elements_per_s
        return self._figure(busy_s, self.sizer.traffic_in(graph, nodes, precision).total_bytes, steps)

    def conversion(self, elements: int, moved_bytes: int) -> Figure:
        """Return what it takes to convert a tensor between formats on the CPU."""
        return self._figure(elements / self.facts.elements_per_s, moved_bytes, 1)

    def _figure(self, busy_s: float, moved_bytes: int, steps: int) -> Figure:
        slower_s = max(busy_s, moved_bytes / self.facts.bytes_per_s)
        return Figure(slower_s * 1e9 + steps * self.facts.overhead_ns, Quality.ROOFLINE, self.facts.source)
