"""The reference as a backend: a target that runs everything exactly, a compiler that only checks, and one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.backend.arithmetic import EXACT, ORT, ORT_PAIRS, TFLITE, Accumulator
from dovetail.backend.protocols import BackendAbilities, Blob, CompileOptions, ExecutableAbilities, Signature
from dovetail.backend.target import Engine, OperatorRule, Target, TargetProfile
from dovetail.backends.accumulation import measured_accumulator
from dovetail.backends.cpu.target import CPU
from dovetail.backends.feeds import check_feeds, same_signature
from dovetail.backends.reference.blob import FORMAT, ReferenceProgram, program_from_bytes, program_to_bytes
from dovetail.backends.reference.interpreter import run_graph
from dovetail.backends.reference.kernels import KERNELS
from dovetail.backends.reference.limits import refusal
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import AnyArray, Graph, Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import CONTROL_FLOW


@dataclass(frozen=True, slots=True)
class _Runnable:
    """Refuse what the reference has no kernel for."""

    def refusal(self, graph: Graph, node: Node) -> str | None:
        return refusal(graph, node)


REFERENCE = TargetProfile(
    name="reference",
    title="Reference: exact arithmetic in numpy",
    precisions=tuple(Precision),
    rules=(OperatorRule(frozenset(KERNELS) | CONTROL_FLOW, frozenset(Precision), Engine.CPU, (_Runnable(),)),),
    arithmetic=EXACT,
)
"""Runs every operator at every precision, slowly and exactly."""


REFERENCE_TFLITE = replace(
    REFERENCE, name="reference:tflite", title="Reference: TFLite's integer kernels in numpy", arithmetic=TFLITE
)
"""Runs quantised graphs as TFLite's reference kernels do: a TFLite model gives its own integers."""

REFERENCE_ORT = replace(
    REFERENCE,
    name="reference:ort-wide",
    title="Reference: ONNX Runtime's integer kernels in numpy, exact sums",
    arithmetic=ORT,
)
"""Runs quantised graphs as ONNX Runtime's integer kernels do: an ONNX model in 8 bits gives its own integers."""

REFERENCE_ORT_PAIRS = replace(
    REFERENCE,
    name="reference:ort-pairs",
    title="Reference: ONNX Runtime's integer kernels in numpy, sums of pairs saturate at 16 bits (x86 without VNNI)",
    arithmetic=ORT_PAIRS,
)
"""The same where products of unsigned data and signed weights are added in pairs that saturate."""

ORT_HERE = "reference:ort"
"""Whichever of the two the ONNX Runtime on this machine follows."""


class ReferenceExecutable:
    """Run one program; any tensor of its graph can be tapped."""

    def __init__(self, program: ReferenceProgram, signature: Signature) -> None:
        self._program: ReferenceProgram | None = program
        self._signature = signature

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the stored values of the outputs and taps; raise DeviceError for inputs or taps that do not fit."""
        if self._program is None:
            raise DeviceError("reference: the executable is closed.")
        graph = self._program.graph
        unknown = [name for name in taps if name not in graph.types]
        if unknown:
            raise DeviceError(f"graph '{graph.name}': there is no tensor '{unknown[0]}' to tap.")
        check_feeds(f"graph '{graph.name}'", self._signature, inputs)
        values = run_graph(graph, {name: inputs[name] for name in graph.inputs}, self._program.arithmetic)
        return {name: values[name] for name in (*graph.outputs, *taps) if name in values}

    def close(self) -> None:
        """Free the program and refuse further runs."""
        self._program = None

    def abilities(self) -> ExecutableAbilities:
        """Return none beyond running."""
        return ExecutableAbilities()


class ReferenceDevice:
    """This process, running programs for any target with that target's arithmetic."""

    @property
    def name(self) -> str:
        """Return the name of the device."""
        return "reference"

    def accepts(self, target: str) -> bool:
        """Tell that programs for every target run here: a program carries the arithmetic of its target."""
        return True

    def load(self, blob: Blob, signature: Signature) -> ReferenceExecutable:
        """Prepare a program; raise DeviceError when it is damaged or does not fit the signature."""
        if blob.format != FORMAT:
            raise DeviceError(f"blob: format '{blob.format}' is not '{FORMAT}'.", hint="Load it with its own backend.")
        program = program_from_bytes(blob.payload)
        graph = program.graph
        inputs = {name: graph.types[name] for name in graph.inputs}
        same_signature("reference blob", signature, inputs, graph.outputs)
        try:
            _check_runnable(graph, program.target)
        except CompileError as error:
            raise DeviceError(f"blob: {error.message}", hint=error.hint) from error
        return ReferenceExecutable(program, signature)


def _check_runnable(graph: Graph, target: str) -> None:
    for node in graph.nodes:
        reason = refusal(graph, node)
        if reason is not None:
            raise CompileError(
                f"{node.label}: the reference cannot run it for {target}: {reason}.", hint="Place it on cpu."
            )


class ReferenceBackend:
    """Compile graphs for any target; the result runs with that target's arithmetic."""

    @property
    def name(self) -> str:
        """Return the name of the backend."""
        return "reference"

    @property
    def version(self) -> str:
        """Return a version that changes whenever results may change."""
        return "3"

    def targets(self) -> Sequence[Target]:
        """Return its own targets: exact arithmetic, TFLite's, and both forms of ONNX Runtime's."""
        return (REFERENCE, REFERENCE_TFLITE, REFERENCE_ORT, REFERENCE_ORT_PAIRS)

    def _find_target(self, name: str) -> Target | None:
        """Return the CPU, for boards that have numpy alone, and the form of ONNX Runtime's rules that holds here."""
        if name == CPU.name:
            return CPU
        if name != ORT_HERE:
            return None
        return REFERENCE_ORT_PAIRS if measured_accumulator() is Accumulator.PAIRS else REFERENCE_ORT

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the graph with the target's arithmetic; raise CompileError when a node cannot run."""
        _check_runnable(graph, target.name)
        return Blob(FORMAT, program_to_bytes(ReferenceProgram(target.name, target.arithmetic, graph)))

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides."""
        return BackendAbilities(
            options=frozenset({"threads", "taps"}),
            find_target=self._find_target,
            compiles_in_process=lambda target: True,
        )

    def devices(self) -> Sequence[ReferenceDevice]:
        """Return the one device."""
        return (ReferenceDevice(),)


backend = ReferenceBackend()
"""What the entry point `reference` loads."""
