"""What a plug-in provides: a compiler, a driver, or both (see `dovetail.testing` for the contract)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from dovetail.backend.target import Target
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType


class Fidelity(Enum):
    """Say how closely a simulator follows the hardware."""

    FAST = "fast"
    """Q/DQ in float32."""
    EXACT = "exact"
    """Integer accumulators and the target's own rounding."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Say how to compile; backends ignore what does not concern them."""

    fidelity: Fidelity = Fidelity.EXACT
    threads: int = 0
    """Threads of one executable; 0 lets the backend choose."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Hold a compiled partition: opaque bytes in a format that the backend names."""

    format: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """Name and type the tensors that go in and come out of an executable."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]


class Executable(Protocol):
    """Run one compiled partition."""

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs, and the tapped tensors where the backend can tell them.

        Arrays hold stored values (integers for quantised tensors). Raises DeviceError.
        """

    def close(self) -> None:
        """Free what the executable holds; a second call does nothing."""


class Device(Protocol):
    """A live instance of one or more targets."""

    @property
    def name(self) -> str:
        """Return the name of the device."""

    def accepts(self, target: str) -> bool:
        """Tell whether the device runs blobs that were compiled for the target."""

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Prepare a blob for running; raise DeviceError when it is damaged or made for something else."""


class Backend(Protocol):
    """A plug-in, found through the entry point group `dovetail.backends`."""

    @property
    def name(self) -> str:
        """Return the name of the backend."""

    @property
    def version(self) -> str:
        """Return a version that changes whenever compiled blobs or results may change."""

    def targets(self) -> Sequence[Target]:
        """Return the targets that the backend can compile for."""

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the compiled partition; raise CompileError with the reason."""

    def devices(self) -> Sequence[Device]:
        """Return the devices that can run something now."""


@runtime_checkable
class TargetFinder(Protocol):
    """A backend that has targets besides those that it lists, such as parts by their maker's names."""

    def find_target(self, name: str) -> Target | None:
        """Return the target of that name, or None; raise DeviceNotFound where a name of its kind fits none."""
