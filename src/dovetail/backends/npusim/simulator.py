"""The plug-in: VeriSilicon targets simulated on this machine, exactly or fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from dovetail._version import __version__
from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    Fidelity,
    OtherRule,
    Signature,
)
from dovetail.backend.target import Target
from dovetail.backends.npusim.packages import ONNXRUNTIME, onnxruntime_version, unmet_packages
from dovetail.backends.verisilicon.blob import program_from_bytes, program_to_bytes
from dovetail.backends.verisilicon.edges import check_edges
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.installed import simulated_profile
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of, profile_of
from dovetail.backends.verisilicon.pieces import pieces_of
from dovetail.backends.verisilicon.program import Program
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import DType, Graph, Node
from dovetail.ir.precision import Precision

if TYPE_CHECKING:
    from dovetail.backends.npusim.fast import FloatConstants

EXACT = "npusim-exact"
_MOST_DIGITS = 4
FAST = "npusim-fast"
_FLOAT_ONLY = (("session.disable_quant_qdq", "1"), ("session.intra_op.allow_spinning", "0"))
"""Keep Q/DQ as they are: integer kernels of the CPU would round in their own way."""

_REVISION = 3
"""Raise it when simulated results change."""


class NpuSimulator:
    """Compile for the VeriSilicon targets and run on this machine."""

    name = "npusim"

    @cached_property
    def _constants(self) -> FloatConstants:
        from dovetail.backends.npusim.fast import FloatConstants

        return FloatConstants()

    @property
    def version(self) -> str:
        """Return the versions of the package and of the simulation."""
        return f"{__version__}+{_REVISION}"

    def targets(self) -> Sequence[Target]:
        """Return the targets that are simulated."""
        return VSI_PROFILES

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the simulated partition; raise CompileError when the target or the simulator refuses a node."""
        for node in graph.nodes:
            reason = _refusal(graph, node, target)
            if reason:
                raise CompileError(f"{node.label}: {target.name} cannot run it: {reason}.", hint="Place it on cpu.")
        if options.fidelity is Fidelity.FAST:
            # Boards run what is exact, with numpy alone.
            from dovetail.backends.npusim.fast import build_model

            model = build_model(graph, profile_of(target), self._constants, max(1, options.threads))
            return Blob(FAST, model)
        program = lower_graph(graph, part_of(target))
        return Blob(EXACT, b"%d\n" % max(1, options.threads) + program_to_bytes(program))

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides.

        Targets are found by the part's name, by the vendor simulator's name for it, or by product id.
        """
        return BackendAbilities(
            options=frozenset({"fidelity", "threads", "taps"}),
            find_target=simulated_profile,
            compiles_in_process=lambda target: True,
            pieces=pieces_of,
            other_rules=_other_rules,
            needs=_needs,
            unmet=unmet_packages,
        )

    def devices(self) -> Sequence[Device]:
        """Return the one simulated device."""
        return (SimulatedDevice(),)


class SimulatedDevice:
    """Every simulated target at once."""

    name = "npusim"

    def accepts(self, target: str) -> bool:
        """Tell whether a target is simulated."""
        return simulated_profile(target) is not None

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Prepare a blob for running; raise DeviceError when it is damaged or made for something else."""
        if blob.format == EXACT:
            threads, program = _unpack(blob.payload)
            check_edges("npusim", program, signature)
            try:
                return Emulation(program, signature, threads)
            except CompileError as error:
                raise DeviceError(error.message, hint=error.hint) from error
        if blob.format == FAST:
            from dovetail.backends.sessions import SessionExecutable, SessionSettings

            # A search keeps many sessions, and runs one at a time.
            settings = SessionSettings(shares_memory=True, threads=1, entries=_FLOAT_ONLY)
            return SessionExecutable("npusim", blob.payload, signature, settings)
        raise DeviceError(
            f"npusim: a blob of format '{blob.format}' is not for this device.", hint=f"It loads {EXACT} and {FAST}."
        )


def _other_rules(graph: Graph, target: Target) -> Sequence[OtherRule]:
    # A board does not ask.
    from dovetail.backends.npusim.rules import other_rules

    return other_rules(graph, target)


def _needs(blob: Blob) -> Mapping[str, str]:
    """Return what a blob needs: the fast simulation is computed by ONNX Runtime."""
    return {ONNXRUNTIME: onnxruntime_version()} if blob.format == FAST else {}


def _unpack(payload: bytes) -> tuple[int, Program]:
    """Return the threads and the program of a blob; raise DeviceError when it is damaged."""
    threads, newline, rest = payload.partition(b"\n")
    if not newline or not threads.isdigit() or len(threads) > _MOST_DIGITS:
        raise DeviceError("npusim: the blob is damaged: it does not begin as one.", hint="Compile the model again.")
    return int(threads), program_from_bytes(rest)


_BY_ACTIVATION: dict[DType, tuple[Precision, ...]] = {
    DType.U8: (Precision.U8,),
    DType.I8: (Precision.I8, Precision.I8PC, Precision.I8DFP),
    DType.I16: (Precision.I16, Precision.W8A16),
    DType.F32: (Precision.FP32,),
    DType.F16: (Precision.FP16,),
    DType.BF16: (Precision.BF16,),
}


def _refusal(graph: Graph, node: Node, target: Target) -> str:
    """Return why the target refuses a node at every precision that the tensors may stand for."""
    kinds = [graph.types[name] for name in (*node.outputs, *node.inputs) if name and graph.types[name].holds_reals]
    dtype = kinds[0].dtype if kinds else DType.F32
    able = _BY_ACTIVATION.get(dtype, (Precision.FP32,))
    reasons: list[str] = []
    for precision in able:
        verdict = profile_of(target).capability(graph, node, precision)
        if verdict.supported:
            return ""
        reasons.append(verdict.reason)
    return reasons[0]


backend: Backend = NpuSimulator()
