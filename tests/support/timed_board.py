"""A backend for tests whose executables take planted times by a clock of its own, which replaces the process's.

`TIMED_BOARD=exact` or `discount` in the environment starts the clock; without it the backend only compiles.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.backend.protocols import (
    BackendAbilities,
    Blob,
    CompileOptions,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.registry import find_target
from dovetail.backend.target import Target
from dovetail.ir import AnyArray, Graph, Node
from dovetail.ir.macs import node_macs

NPU = "vsi:v853"
OVERHEAD_NS = 230_000
NS_PER_BYTE = 120
_TICK_NS = 10
_DISCOUNT = 0.6
"""Share of the time that partitions of more than two layers take, where nothing is as a sum of layers."""


def layer_ns(graph: Graph, node: Node) -> int:
    """Return what a node takes."""
    elements = sum(int(np.prod(graph.types[name].static_shape or (1,))) for name in node.outputs)
    return 5_000 + 40 * elements + 3 * (node_macs(graph, node) or 0)


def partition_ns(graph: Graph) -> int:
    """Return what a graph takes as a partition."""
    sizes = [graph.types[name].size_bytes() or 0 for name in dict.fromkeys((*graph.inputs, *graph.outputs))]
    return OVERHEAD_NS + NS_PER_BYTE * sum(sizes) + sum(layer_ns(graph, node) for node in graph.nodes)


class _Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def read(self) -> int:
        self.now_ns += _TICK_NS
        return self.now_ns


_CLOCK = _Clock()
_HOW = os.environ.get("TIMED_BOARD", "")
if _HOW:
    time.perf_counter_ns = _CLOCK.read


class TimedBackend:
    """Compile to a time, and let it pass."""

    name = "timed"
    version = "1"

    def targets(self) -> Sequence[Target]:
        return ()

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        share = _DISCOUNT if len(graph.nodes) > 2 else 1.0
        return Blob("timed", f"{partition_ns(graph)} {int(partition_ns(graph) * share)}".encode())

    def abilities(self) -> BackendAbilities:
        return BackendAbilities(
            find_target=lambda name: find_target(NPU) if name == NPU else None,
            compiles_in_process=lambda target: True,
        )

    def devices(self) -> Sequence[TimedDevice]:
        return (TimedDevice(),)


class TimedDevice:
    name = "timed"

    def accepts(self, target: str) -> bool:
        return target == NPU

    def load(self, blob: Blob, signature: Signature) -> Executable:
        exact, discounted = map(int, blob.payload.split())
        return _Timed(discounted if _HOW == "discount" else exact, signature)


class _Timed:
    def __init__(self, elapsed_ns: int, signature: Signature) -> None:
        self._elapsed_ns, self._signature = elapsed_ns, signature

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        _CLOCK.now_ns += self._elapsed_ns
        kinds = self._signature.outputs.items()
        return {name: np.zeros(kind.static_shape or (), kind.dtype.carrier) for name, kind in kinds}

    def close(self) -> None:
        pass

    def abilities(self) -> ExecutableAbilities:
        return ExecutableAbilities()


backend = TimedBackend()
