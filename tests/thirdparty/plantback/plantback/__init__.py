"""A second simulator of one part, with flaws that a test plants: it stands for a vendor's compiler and silicon."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.target import Target
from dovetail.backends.npusim import backend as simulator
from dovetail.errors import CompileError, CompileFailure, DeviceLost
from dovetail.ir import AnyArray, Graph, graph_from_bytes, graph_to_bytes

TARGET = "vsi:v853"
Planted = Callable[[Graph], bool]


def never(graph: Graph) -> bool:
    """Plant nothing."""
    return False


@dataclass
class Flaws:
    """What goes wrong, and with which graphs; `compiled` is what was asked for."""

    fails: Planted = never
    failure: CompileFailure | None = CompileFailure.CRASHED
    differs: Planted = never
    dies: Planted = never
    compiled: list[Graph] = field(default_factory=list)
    limits_s: list[float] = field(default_factory=list)


flaws = Flaws()


def plant(planted: Flaws) -> Flaws:
    """Let these be the flaws from now on."""
    globals()["flaws"] = planted
    return planted


@dataclass(frozen=True)
class FlawBackend:
    name: str = "plantback"
    version: str = "1.0"

    def targets(self) -> Sequence[Target]:
        return tuple(item for item in simulator.targets() if item.name == TARGET)

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        flaws.compiled.append(graph)
        if flaws.fails(graph):
            raise CompileError("a planted flaw.", failure=flaws.failure)
        return Blob("flawed", graph_to_bytes(graph))

    def devices(self) -> Sequence[Device]:
        return (FlawDevice(),)

    def abilities(self) -> BackendAbilities:
        return BackendAbilities(
            options=frozenset({"taps"}),
            compiles_in_process=lambda target: True,
            software="Flawed 7",
            with_limit=self._limited,
        )

    def _limited(self, seconds: float) -> FlawBackend:
        flaws.limits_s.append(seconds)
        return self


class FlawDevice:
    name = "flaw"

    def accepts(self, target: str) -> bool:
        return target == TARGET

    def load(self, blob: Blob, signature: Signature) -> Executable:
        graph = graph_from_bytes(blob.payload)
        target = next(item for item in simulator.targets() if item.name == TARGET)
        inner = simulator.devices()[0].load(simulator.compile(graph, target, CompileOptions()), signature)
        return FlawExecutable(graph, inner)


@dataclass
class FlawExecutable:
    graph: Graph
    inner: Executable

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        if flaws.dies(self.graph):
            raise DeviceLost("the flawed device is gone.")
        found = dict(self.inner.run(inputs, taps))
        if not flaws.differs(self.graph):
            return found
        return {
            name: np.bitwise_xor(value, 1) if value.dtype.kind in "iu" else value + 1 for name, value in found.items()
        }

    def close(self) -> None:
        self.inner.close()

    def abilities(self) -> ExecutableAbilities:
        return ExecutableAbilities()


backend: Backend = FlawBackend()
