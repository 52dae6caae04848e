"""What a plug-in provides: a compiler, a driver, or both (see `dovetail.testing` for the contract)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dovetail.backend.costs import CostSource
from dovetail.backend.modelled import CycleModel
from dovetail.backend.pieces import CompiledPieces
from dovetail.backend.project import ProjectStyle
from dovetail.backend.target import Target
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.types import TensorType

ALIGNMENT_BYTES = 64
"""Where arrays that the runtime makes begin: at a cache line."""


class Fidelity(Enum):
    """How closely a simulator follows the hardware."""

    FAST = "fast"
    """Q/DQ in float32."""
    EXACT = "exact"
    """Integer accumulators and the target's own rounding."""


class InferencePrecision(Enum):
    """The type in which a device may compute what the plan places in float."""

    AS_PLACED = "as-placed"
    """What the plan says, and nothing narrower."""
    F16 = "f16"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile; a backend says in its abilities which of these it obeys."""

    fidelity: Fidelity = Fidelity.EXACT
    threads: int = 0
    """Threads of one executable at most; 0 lets the backend choose."""
    inference: InferencePrecision = InferencePrecision.AS_PLACED
    profiling: bool = False
    """Let the executable tell the time of every operator, where the backend can."""
    properties: tuple[tuple[str, str], ...] = ()
    """Settings of the vendor's runtime by the vendor's own names, handed on as they are."""
    channels_last: tuple[str, ...] = ()
    """Border tensors `[N, C, H, W]` that both sides keep as `[N, H, W, C]` in memory: arrays of the same shape, with
    other strides."""
    taps: bool = False
    """Keep inner tensors readable, where a backend would compile to a form that hides them."""
    as_written: bool = False
    """Run the operators one by one, as they are: none is fused with another."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A compiled partition: opaque bytes in a format that the backend names."""

    format: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """Names and types of the tensors that go in and come out of an executable."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]

    @classmethod
    def of(cls, graph: Graph) -> Signature:
        """Return the signature of a graph."""
        return cls(
            {name: graph.types[name] for name in graph.inputs}, {name: graph.types[name] for name in graph.outputs}
        )


@dataclass(frozen=True, slots=True)
class InPlace:
    """How an executable writes its outputs where the caller wants them, without a copy."""

    empty: Callable[[str, AnyArray | None], AnyArray]
    """Returns an array for an output of static shape, laid out as the executable likes to write it; it lies at the
    beginning of the memory that is given, which has enough bytes and begins at a multiple of `ALIGNMENT_BYTES`."""
    run: Callable[[Mapping[str, AnyArray], Mapping[str, AnyArray]], None]
    """Takes the inputs and writes every output into the array given for it: of its type and static shape."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """What one operator inside an executable took, by the backend's own account."""

    name: str
    op: str
    elapsed_ns: int
    kernel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutableAbilities:
    """What an executable can do beyond running; None or False where it cannot."""

    concurrent: bool = False
    """`run` without taps may be called from several threads at a time."""
    in_place: InPlace | None = None
    account: Callable[[], Mapping[str, str]] | None = None
    """Maps the operators that the backend holds, by the backend's names, to the device that each runs on."""
    operator_times: Callable[[], Sequence[OperatorTime]] | None = None
    """Returns the times of the last run; empty unless it was compiled with profiling."""
    transfer_ns: Callable[[], tuple[int, int]] | None = None
    """Returns what moving the inputs in and the outputs out took in the last run."""
    from_given: Callable[[Mapping[str, AnyArray], Mapping[str, AnyArray]], Mapping[str, AnyArray]] | None = None
    """Takes the inputs and other tensors as somebody else computed them; returns each of these as it is computed here
    from the others as they are given."""


class Executable(Protocol):
    """One compiled partition, ready to run."""

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs, and the tapped tensors where the backend can tell them.

        Arrays hold stored values (integers for quantised tensors). Raises DeviceError.
        """

    def close(self) -> None:
        """Free what the executable holds; a second call does nothing."""

    def abilities(self) -> ExecutableAbilities:
        """Return what the executable can do besides; the same for its whole life."""


class Device(Protocol):
    """A live instance of one or more targets."""

    @property
    def name(self) -> str:
        """Return the name of the device."""

    def accepts(self, target: str) -> bool:
        """Tell whether the device runs blobs that were compiled for the target."""

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Prepare a blob for running; raise DeviceError when it is damaged or made for something else."""


@dataclass(frozen=True, slots=True)
class AbsentDevice:
    """A device that a backend knows of and cannot use here, with the reason in one line."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class VendorBinary:
    """What the vendor's own runtime on a board loads, with its inputs and outputs in the binary's order.

    `suffix` is what such files end with, such as `.nbg`.
    """

    suffix: str
    content: bytes = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherRule:
    """Another way in which silicon, or another driver, may compute the same operators."""

    name: str
    """A word for tables, such as `multiplier`."""
    text: str
    """What is done differently, in words that follow 'the board computes it'."""
    run: Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]]
    """Takes the inputs and returns the outputs as stored; raises DovetailError where the rule has no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAbilities:
    """What a backend can do beyond compiling and driving devices; None where it cannot."""

    options: frozenset[str] = frozenset()
    """Fields of CompileOptions that the backend obeys."""
    absent_devices: Callable[[], Sequence[AbsentDevice]] | None = None
    """Returns the devices that it knows of and cannot use here."""
    find_target: Callable[[str], Target | None] | None = None
    """Returns a target besides those that are listed, such as a part by its maker's name, or None; raises
    DeviceNotFound where a name of its kind fits none."""
    takes_channels_last: Callable[[Target], bool] | None = None
    """Tells whether a target computes images channels-last, and `CompileOptions.channels_last` is obeyed."""
    compiles_in_process: Callable[[Target], bool] | None = None
    """Tells whether its compiler for a target can neither crash nor hang, and needs no process of its own."""
    with_limit: Callable[[float], Backend] | None = None
    """Returns the same backend with other seconds for a compilation, where it contains its compiler itself."""
    software: str = ""
    """The vendor's software that compiles, and its version."""
    stand_in: Callable[[Graph, Node, Precision, Target], Graph] | None = None
    """Returns the graph by which its targets try a node of a float graph at a precision, before data are known."""
    onnx_of: Callable[[Blob], bytes | None] | None = None
    """Returns the ONNX model in a blob: a plain one, or an EPContext model with a vendor's compiled form inside; None
    for a blob of another form."""
    needs: Callable[[Blob], Mapping[str, str]] | None = None
    """Returns what a place has to have to run a blob, besides this backend in the same version: a vendor's SDK, the
    product id of a part, a package, each by a name with what it has to be."""
    unmet: Callable[[Mapping[str, str]], str] | None = None
    """Returns why such needs are not met here, in words that follow 'it needs'; empty where they are."""
    vendor_binary: Callable[[Blob], VendorBinary | None] | None = None
    """Returns the binary in a blob that the vendor's own runtime loads without Dovetail, or None; raises DeviceError
    for a damaged one."""
    cost_sources: Callable[[], Sequence[CostSource]] | None = None
    """Returns sources that price work, best first; they are asked before the roofline."""
    model_cycles: CycleModel | None = None
    pieces: Callable[[Graph, Target], CompiledPieces] | None = None
    """Returns what is computed as one in a quantised graph; raises CompileError with the reason."""
    other_rules: Callable[[Graph, Target], Sequence[OtherRule]] | None = None
    """Returns the ways in which a quantised graph may be computed otherwise than the backend computes it, the most
    likely first: what may explain that a board differs from a simulation."""
    write_project: Callable[[Graph, Target, ProjectStyle, Mapping[str, str]], Mapping[str, bytes]] | None = None
    """Returns the files of a project by path below its folder, inputs and outputs renamed by the mapping; raises
    CompileError with the reason."""


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

    def abilities(self) -> BackendAbilities:
        """Return what the backend can do besides; asking is cheap."""
