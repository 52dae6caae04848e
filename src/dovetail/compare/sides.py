"""Both sides of a verification: one partition, compiled and run here and by the other backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dovetail.backend.pieces import CompiledPieces
from dovetail.backend.protocols import Backend, CompileOptions, Executable, Signature
from dovetail.backend.registry import find_target
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.compare.steps import Steps, compare_steps
from dovetail.errors import CompileError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.units import clamp_host
from dovetail.runtime.place import Runtime

Arrays = Mapping[str, AnyArray]
Runs = Callable[[Arrays], Arrays]
"""Takes the inputs of a sample and returns its outputs."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Our exact simulation and the other backend, for one target."""

    ours: Backend
    theirs: Backend
    target: str
    place: Runtime | None = None
    """Where the other backend runs what it compiled here: a board; None is this machine."""

    @contextmanager
    def other(self, graph: Graph, *, taps: bool = False) -> Iterator[Runs]:
        """Compile a graph by the other backend and give what runs it; raise CompileError or DeviceError."""
        if self.place is None:
            with opened(self.theirs, graph, self.target, taps=taps) as executable:
                yield executable.run
            return
        with self.place.load(_alone(self.theirs, graph, self.target, taps=taps)) as model:
            yield lambda fed: model.run(fed).outputs

    def pieces(self, graph: Graph) -> CompiledPieces:
        """Return what the other backend computes as one; where it does not say, every operator with its clamps."""
        known = self.theirs.abilities().pieces
        return _clamped(graph) if known is None else known(graph, find_target(self.target))

    def compare(self, graph: Graph, fed: Sequence[Arrays], *, as_graph: bool) -> Mapping[str, Steps]:
        """Return the steps of every output, both sides on the same inputs; raise CompileError or DeviceError."""
        with opened(self.ours, graph, self.target) as executable:
            ours = [executable.run(values) for values in fed]
        with self.other(graph, taps=as_graph) as run:
            return steps_of(ours, [run(values) for values in fed])


@contextmanager
def opened(owner: Backend, graph: Graph, target: str, *, taps: bool = False) -> Iterator[Executable]:
    """Compile and load a graph, and close it at the end; raise CompileError or DeviceError."""
    blob = owner.compile(graph, find_target(target), CompileOptions(taps=taps))
    device = next((item for item in owner.devices() if item.accepts(target)), None)
    if device is None:
        raise CompileError(f"backend '{owner.name}' has no device for '{target}'.")
    executable = device.load(blob, Signature.of(graph))
    try:
        yield executable
    finally:
        executable.close()


def _alone(owner: Backend, graph: Graph, target: str, *, taps: bool) -> Bundle:
    """Return a graph, compiled, as a bundle of its own."""
    blob = owner.compile(graph, find_target(target), CompileOptions(taps=taps))
    needs = owner.abilities().needs
    part = CompiledPartition(
        target=target,
        backend=owner.name,
        backend_version=owner.version,
        blob=blob,
        inputs=graph.inputs,
        outputs=graph.outputs,
        tensors={name: graph.types[name] for name in (*graph.inputs, *graph.outputs)},
        needs={} if needs is None else needs(blob),
    )
    # What precision the nodes have is in the graph's types: a board does not ask the plan.
    plan = Plan(graph.digest, Placement(target, Precision.FP32))
    kinds = part.signature
    return Bundle(graph.name, plan, kinds.inputs, kinds.outputs, (part,), {})


def steps_of(ours: Sequence[Arrays], theirs: Sequence[Arrays]) -> dict[str, Steps]:
    """Return the steps of every tensor that both have, over all samples."""
    found: dict[str, Steps] = {}
    for mine, given in zip(ours, theirs, strict=True):
        for name in mine:
            if name in given:
                found[name] = found.get(name, Steps()) + compare_steps(given[name], mine[name])
    return found


def differs(found: Mapping[str, Steps]) -> bool:
    """Tell whether any element differs."""
    return any(steps.differing for steps in found.values())


def _clamped(graph: Graph) -> CompiledPieces:
    """Return the nodes with every clamp behind its host."""
    groups: dict[str, list[str]] = {}
    for node in graph.nodes:
        host = clamp_host(graph, node)
        groups.setdefault(node.name if host is None or host.name not in groups else host.name, []).append(node.name)
    return CompiledPieces(tuple(map(tuple, groups.values())), lambda part: True)
