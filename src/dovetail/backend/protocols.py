"""What a plug-in provides: a compiler, a driver, or both (see `dovetail.testing` for the contract)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from dovetail.backend.target import Target
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType

ALIGNMENT_BYTES = 64
"""Where arrays that the runtime makes begin: at a cache line."""


class Fidelity(Enum):
    """Say how closely a simulator follows the hardware."""

    FAST = "fast"
    """Q/DQ in float32."""
    EXACT = "exact"
    """Integer accumulators and the target's own rounding."""


class InferencePrecision(Enum):
    """Say in which type a device may compute what the plan places in float."""

    AS_PLACED = "as-placed"
    """What the plan says, and nothing narrower."""
    F16 = "f16"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Say how to compile; backends ignore what does not concern them."""

    fidelity: Fidelity = Fidelity.EXACT
    threads: int = 0
    """Threads of one executable; 0 lets the backend choose."""
    inference: InferencePrecision = InferencePrecision.AS_PLACED
    profiling: bool = False
    """Let the executable tell the time of every operator, where the backend can."""
    properties: tuple[tuple[str, str], ...] = ()
    """Settings of the vendor's runtime by the vendor's own names, handed on as they are."""
    channels_last: tuple[str, ...] = ()
    """Border tensors `[N, C, H, W]` that both sides keep as `[N, H, W, C]` in memory: arrays of the same shape, with
    other strides."""
    taps: bool = False
    """Keep inner tensors tellable, where a backend would compile to a form that hides them."""


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


@runtime_checkable
class InPlaceExecutable(Protocol):
    """An executable that writes its outputs where the caller wants them, without a copy."""

    def empty(self, output: str, memory: AnyArray | None = None) -> AnyArray:
        """Return an array for an output of static shape, laid out as the executable likes to write it.

        `memory` has enough bytes and begins at a multiple of `ALIGNMENT_BYTES`: the array lies at its beginning.
        """

    def run_into(self, inputs: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray]) -> None:
        """Write every output into the array given for it: of its type and static shape."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Say how long one operator inside an executable took, by the backend's own account."""

    name: str
    op: str
    elapsed_ns: int
    kernel: str = ""


@runtime_checkable
class AccountableExecutable(Protocol):
    """An executable that tells what its backend made of the partition."""

    def account(self) -> Mapping[str, str]:
        """Map the operators that the backend holds, by the backend's names, to the device that each runs on."""

    def operator_times(self) -> Sequence[OperatorTime]:
        """Return the times of the last run; empty unless it was compiled with profiling."""


@runtime_checkable
class TransferringExecutable(Protocol):
    """An executable whose inputs and outputs have to be moved; the times are parts of its last run."""

    @property
    def transfer_ns(self) -> tuple[int, int]:
        """Return what moving the inputs in and the outputs out took."""


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


@dataclass(frozen=True, slots=True)
class AbsentDevice:
    """Name a device that a backend knows of and cannot use here, with the reason."""

    name: str
    reason: str


@runtime_checkable
class DiagnosingBackend(Protocol):
    """A backend that can say why devices are not there."""

    def absent_devices(self) -> Sequence[AbsentDevice]:
        """Return the devices that cannot be used, with reasons in one line each."""


@runtime_checkable
class LayoutBackend(Protocol):
    """A backend that can keep border tensors channels-last, where both sides compute so."""

    def takes_channels_last(self, target: Target) -> bool:
        """Tell whether the target computes images channels-last, and `CompileOptions.channels_last` is obeyed."""


@runtime_checkable
class TrustedBackend(Protocol):
    """A backend that knows which of its compilers cannot crash or hang: those need no process of their own."""

    def compiles_in_process(self, target: Target) -> bool:
        """Tell whether it is safe to compile for the target here."""


@runtime_checkable
class TargetFinder(Protocol):
    """A backend that has targets besides those that it lists, such as parts by their maker's names."""

    def find_target(self, name: str) -> Target | None:
        """Return the target of that name, or None; raise DeviceNotFound where a name of its kind fits none."""


@runtime_checkable
class OnnxBackend(Protocol):
    """A backend whose blobs hold ONNX models: plain ones, or EPContext models with a vendor's compiled form inside."""

    def onnx_of(self, blob: Blob) -> bytes | None:
        """Return the model in a blob; None when the blob is of another form."""


@dataclass(frozen=True, slots=True)
class VendorBinary:
    """Hold what the vendor's own runtime on a board loads, and its inputs and outputs in the binary's order.

    `suffix` is what such files end with, such as `.nbg`.
    """

    suffix: str
    content: bytes = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@runtime_checkable
class BinaryBackend(Protocol):
    """A backend whose blobs hold a binary that the vendor's own runtime loads without Dovetail."""

    def vendor_binary(self, blob: Blob) -> VendorBinary | None:
        """Return the binary in a blob; None when the blob is of another form. Raises DeviceError for a damaged one."""
