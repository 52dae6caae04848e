"""A graph as a list of kernels, with every tensor released after its last use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.backend.arithmetic import Arithmetic
from dovetail.backend.protocols import ExecutableAbilities, Signature
from dovetail.backends.feeds import check_feeds
from dovetail.backends.npusim.build import build_kernel
from dovetail.backends.npusim.joined import joined_kernels
from dovetail.backends.npusim.kernel import Kernel, NodeContext
from dovetail.backends.npusim.payload import Job
from dovetail.backends.sessions import first_line
from dovetail.errors import DeviceError, DovetailError
from dovetail.ir import AnyArray, Graph


@dataclass(frozen=True, slots=True)
class Step:
    """Run one node; `dying` are the tensors that nothing reads after it."""

    label: str
    kernel: Kernel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dying: tuple[str, ...]
    spare: bool = False
    """Nothing reads what it makes: it runs only where that is tapped."""


def build_steps(graph: Graph, arithmetic: Arithmetic, threads: int = 1) -> tuple[Step, ...]:
    """Return the steps of a graph; raise CompileError when a node cannot be simulated."""
    joined = joined_kernels(graph, arithmetic, threads)
    unmade = {tensor for found in joined.values() for tensor in found.unmade}
    reads = [joined[node.outputs[0]].inputs if node.outputs[0] in joined else node.inputs for node in graph.nodes]
    last = {tensor: index for index, names in enumerate(reads) for tensor in names if tensor}
    kept = set(graph.outputs) | set(graph.constants)
    steps: list[Step] = []
    for index, (node, names) in enumerate(zip(graph.nodes, reads, strict=True)):
        dying = {name for name in names if name and last[name] == index and name not in kept}
        dying |= {name for name in node.outputs if name and name not in last and name not in kept}
        found = joined.get(node.outputs[0])
        kernel = build_kernel(NodeContext(graph, node, arithmetic, threads)) if found is None else found.kernel
        spare = node.outputs[0] in unmade
        steps.append(Step(node.label, kernel, names, node.outputs, tuple(sorted(dying)), spare))
    return tuple(steps)


class Program:
    """Run a graph on integers, as the target would."""

    def __init__(self, job: Job, signature: Signature) -> None:
        self._graph = job.graph
        self._signature = signature
        self._steps: tuple[Step, ...] | None = build_steps(job.graph, job.arithmetic, job.threads)

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs and the tapped tensors as stored values; raise DeviceError."""
        if self._steps is None:
            raise DeviceError("npusim: the executable is closed.")
        check_feeds("npusim", self._signature, inputs)
        for tensor in taps:
            if tensor not in self._graph.types:
                raise DeviceError(f"npusim: no tensor is called '{tensor}'.")
        wanted = set(taps) | set(self._graph.outputs)
        found: dict[str, AnyArray] = {}
        alive: dict[str, AnyArray] = {**self._graph.constants, **inputs}
        spared = _spared(self._steps, wanted)
        for step in self._steps:
            if step.outputs[0] in spared:
                continue
            results = _run_step(step, alive)
            for name, value in zip(step.outputs, results, strict=False):
                if name:
                    alive[name] = value
            for name in step.dying:
                value = alive.pop(name)
                if name in wanted:
                    found[name] = value
        found.update({name: alive[name] for name in wanted if name not in found})
        return {name: found[name] for name in dict.fromkeys((*self._graph.outputs, *taps))}

    def close(self) -> None:
        """Free the kernels."""
        self._steps = None

    def abilities(self) -> ExecutableAbilities:
        """Return none beyond running."""
        return ExecutableAbilities()


def _spared(steps: Sequence[Step], wanted: set[str]) -> set[str]:
    """Return the first outputs of steps that need not run: nothing that runs reads them."""
    spared: set[str] = set()
    needed = set(wanted)
    for step in reversed(steps):
        if step.spare and not needed.intersection(step.outputs):
            spared.add(step.outputs[0])
        elif step.spare:
            needed.update(step.inputs)
    return spared


def _run_step(step: Step, alive: Mapping[str, AnyArray]) -> Sequence[AnyArray]:
    try:
        return step.kernel([alive[name] if name else None for name in step.inputs])
    except DovetailError:
        raise
    except Exception as error:
        # Whatever numpy or ONNX Runtime raises: the caller gets one kind of error with the node's name.
        raise DeviceError(f"npusim: {step.label}: {first_line(error)}.") from error
