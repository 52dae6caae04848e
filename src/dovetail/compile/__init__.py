"""Compile: PartitionedGraph -> Bundle, one backend per target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.backend.protocols import Backend, CompileOptions
from dovetail.backend.registry import backend, backends_for, find_target
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.errors import CompileError, DeviceNotFound
from dovetail.partition.partitioned import Partition, PartitionedGraph

__all__ = ["CompileRequest", "compile_model"]


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """Say how to compile: options for every backend, and which backend serves a target where several could."""

    options: CompileOptions = field(default_factory=CompileOptions)
    backends: Mapping[str, str] = field(default_factory=dict)


def compile_model(partitioned: PartitionedGraph, request: CompileRequest | None = None) -> Bundle:
    """Return the compiled model; raise CompileError naming the partition that its backend refuses.

    Raises BundleError when an output is a constant and there is no partition to hand it out.
    """
    asked = request or CompileRequest()
    source = partitioned.source
    graph = source.graph
    bundle = Bundle(
        name=graph.name,
        plan=source.plan,
        inputs={name: graph.types[name] for name in graph.inputs},
        outputs={name: graph.types[name] for name in graph.outputs},
        partitions=tuple(_compile(part, asked) for part in partitioned.partitions),
        origins=dict(graph.origins),
    )
    bundle.check()
    return bundle


def choose_backend(target: str, chosen: Mapping[str, str]) -> Backend:
    """Return the backend that compiles for a target; raise DeviceNotFound when none does."""
    able = backends_for(target)
    if target in chosen:
        wanted = backend(chosen[target])
        if wanted.name not in {one.name for one in able}:
            raise DeviceNotFound(
                f"backend '{wanted.name}' does not compile for target '{target}'.",
                hint=f"These do: {', '.join(one.name for one in able) or 'none'}.",
            )
        return wanted
    if not able:
        find_target(target)
        raise DeviceNotFound(f"no backend compiles for target '{target}'.")
    return able[0]


def _compile(part: Partition, request: CompileRequest) -> CompiledPartition:
    compiler = choose_backend(part.target, request.backends)
    try:
        blob = compiler.compile(part.graph, find_target(part.target), request.options)
    except CompileError as error:
        raise CompileError(
            f"partition {part.index} ({part.target}, backend {compiler.name}): {error.message}",
            partition=part.index,
            log_path=error.log_path,
            hint=error.hint,
        ) from error
    graph = part.graph
    hidden = graph.constants.keys() - set(graph.outputs)
    return CompiledPartition(
        target=part.target,
        backend=compiler.name,
        backend_version=compiler.version,
        blob=blob,
        inputs=graph.inputs,
        outputs=graph.outputs,
        tensors={name: kind for name, kind in graph.types.items() if name not in hidden},
    )
