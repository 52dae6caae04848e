"""How far two executors agree on the stored values of one graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.backend.protocols import Backend, CompileOptions, Executable, Signature
from dovetail.backend.target import Target
from dovetail.compare.steps import Steps, compare_steps
from dovetail.ir import AnyArray, Graph


def load_on(backend: Backend, graph: Graph, target: Target, options: CompileOptions) -> Executable:
    """Compile a graph and load it on the backend's first device."""
    return backend.devices()[0].load(backend.compile(graph, target, options), Signature.of(graph))


def agreement(one: Executable, other: Executable, samples: Sequence[Mapping[str, AnyArray]]) -> Steps:
    """Return how far two executables agree on all outputs of some samples."""
    total = Steps()
    for sample in samples:
        first, second = one.run(sample), other.run(sample)
        for name in first:
            total += compare_steps(first[name], second[name])
    return total
