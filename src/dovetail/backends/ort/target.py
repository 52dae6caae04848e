"""What an execution provider runs: it is asked by compiling the node alone for nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from dovetail.backend.arithmetic import EXACT, Arithmetic
from dovetail.backend.constraints import RealTensors, StaticShapes
from dovetail.backend.containment import CompilerPlace, Worker, WorkerLimits, compile_contained
from dovetail.backend.protocols import CompileOptions
from dovetail.backend.target import Engine, TargetVerdict
from dovetail.backends.ort.providers import Provider
from dovetail.backends.single_node import node_graph, node_key
from dovetail.errors import DovetailError
from dovetail.ir import DOVETAIL_DOMAIN, Graph, Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import CONTROL_FLOW
from dovetail.plan import Placement, Plan
from dovetail.quantize import Range, Ranges, quantize

_ASK_S = 60.0
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class OrtTarget:
    """Run what the provider takes when nothing else may take it."""

    backend: str
    provider: Provider
    precisions: tuple[Precision, ...]
    arithmetic: Arithmetic = EXACT
    static: bool = False
    """Whether only static shapes run (all NPUs)."""
    _asked: dict[tuple[str, Precision], str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Return the backend and the name of the provider, such as `ort:CPU`."""
        return f"{self.backend}:{self.provider.name}"

    @property
    def title(self) -> str:
        """Return what the provider is."""
        return self.provider.title

    @property
    def mark(self) -> str:
        """Return what changes with the provider and its options."""
        return f"{self.provider.mark} {dict(self.provider.options)}"

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Say whether the provider runs the node at the precision."""
        refusal = self._refusal(graph, node, precision)
        engine = None if refusal else Engine.CPU if self.provider.is_cpu else Engine.NN
        return TargetVerdict(node.name, node.op, self.name, precision, engine, refusal)

    def _refusal(self, graph: Graph, node: Node, precision: Precision) -> str:
        if precision not in self.precisions:
            known = ", ".join(item.value for item in self.precisions)
            return f"the provider has no precision {precision.value} (it has {known})"
        if node.domain not in ("", DOVETAIL_DOMAIN):
            return f"ONNX Runtime has no operator {node.domain}::{node.op}"
        if node.op in CONTROL_FLOW and (precision.is_quantized or not self.provider.is_cpu):
            return "control flow runs only at fp32 on ONNX Runtime's CPU provider"
        if precision.is_quantized:
            refusal = RealTensors().refusal(graph, node)
            if refusal is not None:
                return refusal
        if self.static:
            refusal = StaticShapes().refusal(graph, node)
            if refusal is not None:
                return refusal
        if self.provider.is_cpu:
            return ""
        names = [name for name in (*node.inputs, *node.outputs) if name]
        # A model that came quantised is asked about as it is.
        alone = node_graph(graph, node, stored=any(graph.types[name].quant is not None for name in names))
        key = node_key(alone), precision
        if key not in self._asked:
            self._asked[key] = self._ask(alone, precision)
        return self._asked[key]

    def _ask(self, alone: Graph, precision: Precision) -> str:
        """Return why a node alone does not compile; in a worker, because compilers crash on what they do not take."""
        try:
            graph = _at(alone, self.name, precision)
            compile_contained(_worker(), CompilerPlace(self.backend, self.name), graph, CompileOptions(threads=1))
        except DovetailError as error:
            return error.message.rstrip(".")[:_LONGEST]
        return ""


@cache
def _worker() -> Worker:
    """Return the process in which providers are asked; it begins again after every crash."""
    return Worker(WorkerLimits(compile_s=_ASK_S))


def _at(alone: Graph, target: str, precision: Precision) -> Graph:
    """Return the node at a precision, without the conversions around it; the ranges are made up."""
    if precision is Precision.FP32 or any(kind.quant is not None for kind in alone.types.values()):
        return alone
    reals = {name: Range(-1.0, 1.0) for name, kind in alone.types.items() if kind.holds_reals}
    ranges = Ranges(alone.digest, "made up", 1, reals)
    made = quantize(alone, Plan(alone.digest, Placement(target, precision)), ranges).graph
    return node_graph(made, made.node(alone.nodes[0].name), stored=True)
