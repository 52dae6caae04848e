"""A program in a worker: built, compiled once, run many times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.backends.verisilicon.blob import program_message
from dovetail.backends.verisilicon.driver.process import (
    DriverLimits,
    DriverRefusedError,
    Launch,
    WorkerDiedError,
    WorkerProcess,
    said,
)
from dovetail.backends.verisilicon.program import Code, Program, Quant, TensorRole
from dovetail.backends.verisilicon.translate import from_vendor, to_vendor
from dovetail.errors import CompileError, CompileFailure, DeviceError, DeviceLost
from dovetail.ir import AnyArray, TensorType
from dovetail.sdk.location import SdkFolder

_ALIGNMENT = 64
_PID_LINE = re.compile(r"#productname=.*?pid=(0x[0-9a-fA-F]+)")
_SHADER_FAILURE = "Failed to compile vx shader"
_ABI = 1
_SKIP_EXECUTION = ("VIV_VX_COLLECT_PERF_TYPE", "1")
"""Writing a binary network runs it in the simulator; with this it does not, which is many times faster."""


@dataclass(frozen=True, slots=True)
class TimedStep:
    """How long the vendor library took for a step."""

    name: str
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    tensor: int
    at: int
    size: int

    @property
    def wire(self) -> list[int]:
        return [self.tensor, self.at, self.size]


@dataclass(frozen=True, slots=True)
class _Layout:
    inputs: tuple[_Slot, ...]
    outputs: tuple[_Slot, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the SDK is, how much a worker may take, and what else it finds in its environment."""

    folder: SdkFolder
    limits: DriverLimits = field(default_factory=DriverLimits)
    variables: tuple[tuple[str, str], ...] = ()


def _layout(program: Program) -> _Layout:
    at = 0
    sides: list[tuple[_Slot, ...]] = []
    for edges in (program.inputs, program.outputs):
        slots: list[_Slot] = []
        for name, tensor in edges:
            size = program.tensors[tensor].size_bytes
            slots.append(_Slot(name, tensor, at, size))
            at += -(-size // _ALIGNMENT) * _ALIGNMENT
        sides.append(tuple(slots))
    return _Layout(sides[0], sides[1], at)


class VendorSession:
    """One program in one worker process; every failure is a CompileError or a DeviceError."""

    def __init__(self, program: Program, settings: Settings) -> None:
        self._program = program
        self._limits = settings.limits
        self._where = program.target
        self._layout = _layout(program)
        self._worker: WorkerProcess | None = None
        self.steps: list[TimedStep] = []
        launch = Launch(
            settings.folder.shim,
            settings.folder.sdk,
            program.sdk_name,
            (("VIV_VX_DEBUG_LEVEL", "1"), *settings.variables),
            settings.folder.libraries,
        )
        try:
            self._worker = WorkerProcess(launch, settings.limits, self._layout.size)
            self._check_shim(self._worker.facts.get("abi"))
            message, raw = program_message(program)
            self._compile_step("build", "building", message, raw)
            self._check_part()
        except (WorkerDiedError, DriverRefusedError) as error:
            raise self._compile_error(error) from error
        except BaseException:
            self.close()
            raise

    @property
    def process_id(self) -> int:
        """Return the process id of the worker; raise DeviceError when it has ended."""
        return self._running().pid

    @property
    def version(self) -> str:
        """Return the version of the vendor library."""
        return str(self._running().facts.get("version", ""))

    def compile(self) -> None:
        """Compile for running; raise CompileError."""
        try:
            self._compile_step("compile", "compiling", {"do": "compile"})
            self._check_shaders()
        except (WorkerDiedError, DriverRefusedError) as error:
            raise self._compile_error(error) from error

    def write_binary(self) -> bytes:
        """Return the binary network and end the worker: it cannot run the graph afterwards; raise CompileError."""
        try:
            return self._compile_step("binary", "writing the binary network", {"do": "binary"})
        except (WorkerDiedError, DriverRefusedError) as error:
            raise self._compile_error(error) from error
        finally:
            self.close()

    def log(self) -> str:
        """Return what the vendor library has printed."""
        return self._running().log()

    def run(self, inputs: Mapping[str, AnyArray], outputs: Mapping[str, TensorType]) -> dict[str, AnyArray]:
        """Return the stored outputs for stored inputs of one sample; raise DeviceLost when the worker dies."""
        memory = self._running().memory
        program, layout = self._program, self._layout
        for slot in layout.inputs:
            try:
                data = to_vendor(inputs[slot.name], program.tensors[slot.tensor].form.code)
            except ValueError as error:
                raise DeviceError(f"{self._where}: input '{slot.name}' cannot be stored: {error}.") from error
            if len(data) != slot.size:
                raise DeviceError(f"{self._where}: input '{slot.name}' has {len(data)} bytes, not {slot.size}.")
            assert memory is not None
            memory[slot.at : slot.at + slot.size] = data
        message: dict[str, object] = {
            "do": "run",
            "inputs": [slot.wire for slot in layout.inputs],
            "outputs": [slot.wire for slot in layout.outputs],
        }
        self._run_step(message)
        found: dict[str, AnyArray] = {}
        for slot in layout.outputs:
            tensor, kind = program.tensors[slot.tensor], outputs[slot.name]
            assert memory is not None
            data = memory[slot.at : slot.at + slot.size]
            rank = len(kind.shape) if kind.shape is not None else len(tensor.shape)
            shape = tuple(reversed(tensor.shape)) if rank else ()
            found[slot.name] = np.array(from_vendor(data, tensor.form.code, kind, shape))
        return found

    def close(self) -> None:
        """End the worker; a second call does nothing."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _running(self) -> WorkerProcess:
        if self._worker is None:
            raise DeviceError(f"{self._where}: the simulator is closed.", hint="Load the blob again.")
        return self._worker

    def _compile_step(self, name: str, doing: str, message: dict[str, object], raw: bytes = b"") -> bytes:
        answer, made = self._running().ask(message, raw, within_s=self._limits.compile_s, doing=doing)
        self.steps.append(TimedStep(name, int(answer.get("elapsed_ns", 0))))
        return made

    def _run_step(self, message: dict[str, object]) -> None:
        try:
            answer, _ = self._running().ask(message, within_s=self._limits.run_s, doing="running")
        except DriverRefusedError as error:
            raise DeviceError(f"{self._where}: the simulator refuses to run: {error}.") from error
        except WorkerDiedError as error:
            self.close()
            raise DeviceLost(
                f"{self._where}: {error}.", hint="Load the blob again, or place the node on cpu."
            ) from error
        self.steps.append(TimedStep("run", int(answer.get("elapsed_ns", 0))))

    def _compile_error(self, error: WorkerDiedError | DriverRefusedError) -> CompileError:
        self.close()
        failure = error.failure if isinstance(error, WorkerDiedError) else CompileFailure.REFUSED
        return CompileError(
            f"{self._where}: {error}.", failure=failure, hint="Place the partition on cpu, or split it."
        )

    def _check_shim(self, found: object) -> None:
        if found != _ABI:
            raise CompileError(
                f"{self._where}: the shim has interface {found}, this Dovetail needs {_ABI}.",
                hint="Run 'dovetail sdk install verisilicon' again.",
            )

    def _check_shaders(self) -> None:
        """Refuse a graph with a shader that did not compile: the vendor library then runs it with garbage."""
        if _SHADER_FAILURE in self._running().log():
            raise DriverRefusedError(f"a shader kernel does not compile{said(self._running().log_tail())}")

    def _check_part(self) -> None:
        """Refuse to go on as another part: the simulator silently takes one it knows for a name that it does not."""
        line = _PID_LINE.search(self._running().log())
        found = int(line.group(1), 16) if line else None
        if found != self._program.pid:
            said = "no part at all" if found is None else f"PID {found:#x}"
            raise CompileError(
                f"{self._where}: asked the simulator for {self._program.sdk_name} (PID {self._program.pid:#x}), "
                f"it started as {said}.",
                hint="The installed SDK does not know this part: 'dovetail sdk status' lists what it knows.",
            )


def write_binary(program: Program, settings: Settings, *, may_skip: bool) -> bytes:
    """Return the program as a binary network; raise CompileError.

    The vendor converts and moves some constants by running the graph: where that may be so, it is run; `may_skip` says
    that the part's own weights are encoded without. Measured: on the oldest generation a file written without a run
    does not load, stops the engine with an exception of its memory unit, or gives other elements.
    """
    skips = may_skip and _needs_no_run(program)
    variables = (*settings.variables, _SKIP_EXECUTION) if skips else settings.variables
    session = VendorSession(program, Settings(settings.folder, settings.limits, variables))
    return session.write_binary()


def _needs_no_run(program: Program) -> bool:
    """Tell whether constants are unsigned or 16-bit weights of convolutions, which are encoded without running.

    Measured: without a run the weights of fully connected layers are garbage in the file.
    """
    signed = any(item.form.code is Code.I8 and item.form.quant is not Quant.FIXED_POINT for item in program.tensors)
    constants = {index for index, item in enumerate(program.tensors) if item.role is TensorRole.CONSTANT}
    readers = {item.kind for item in program.operators if constants.intersection(item.inputs)}
    return not signed and readers <= {"conv2d"}


def split_samples(inputs: Mapping[str, AnyArray], count: int) -> Sequence[dict[str, AnyArray]]:
    """Return the samples of a batch, each with a first size of 1."""
    return [{name: value[index : index + 1] for name, value in inputs.items()} for index in range(count)]
