"""Run many small programs on the vendor's simulator, one after another in one worker: probes and tables.

A graph of its own for each program in one process: kernels that the vendor compiles for its shaders are compiled once.
The vendor library keeps state between graphs of one process (a difference of signed bytes after their sum is garbage),
so a result that does not fit must be measured again alone: `fresh=True`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backend.target import Engine
from dovetail.backends.verisilicon.blob import program_message
from dovetail.backends.verisilicon.driver.process import DriverRefusedError, Launch, WorkerDiedError, WorkerProcess
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.program import Program
from dovetail.backends.verisilicon.translate import from_vendor, to_vendor
from dovetail.errors import CompileError, CompileFailure
from dovetail.ir import AnyArray, TensorType

_ARENA_BYTES = 16 << 20
_ALIGNMENT = 64
_MOST_GRAPHS = 300
"""Graphs are never freed (the vendor's destructors have been seen to hang): a worker ends after so many."""

_VARIABLES = (("VIV_VX_DEBUG_LEVEL", "1"), ("CNN_PERF", "1"))
_STEP = re.compile(
    r"layer name:(?P<layer>\S+) operation\[\d+\]:(?P<operator>.*?) target:VXNNE_OPERATION_TARGET_(?P<engine>\w+)"
)
_FACT = re.compile(r"^(\w+): ?([\w.]+)$", re.MULTILINE)
_ENGINES = {engine.value: engine for engine in Engine}
_CARRIERS = frozenset({"VXNNE_OPERATOR_CONVERT_FORMAT", "VXNNE_OPERATOR_TENSOR_COPY", "VXNNE_OPERATOR_RESHUFFLE"})
"""Steps that only prepare data for the operator."""
_RANK = (Engine.NN, Engine.SP, Engine.SH, Engine.TP)


@dataclass(frozen=True, slots=True)
class EngineStep:
    """One step of a compiled graph, and the engine that runs it."""

    layer: str
    operator: str
    engine: Engine


@dataclass(frozen=True, slots=True)
class Measured:
    """What a program gave for each sample, and its steps in the order of execution."""

    results: tuple[Mapping[str, AnyArray], ...]
    steps: tuple[EngineStep, ...]

    @property
    def engine(self) -> Engine | None:
        """Return the engine that does the operator itself, or None where nothing had to run."""
        doing = [step.engine for step in self.steps if step.operator not in _CARRIERS]
        found = doing or [step.engine for step in self.steps]
        return min(found, key=_RANK.index) if found else None


class GraphBench:
    """Measure programs for one part of the simulator; a context manager."""

    def __init__(self, sdk_name: str, settings: Settings, variables: Sequence[tuple[str, str]] = ()) -> None:
        self._sdk_name = sdk_name
        self._settings = settings
        self._variables = (*_VARIABLES, *settings.variables, *variables)
        self._worker: WorkerProcess | None = None
        self._graphs = 0

    def __enter__(self) -> GraphBench:
        """Return the bench."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the worker."""
        self.close()

    def close(self) -> None:
        """End the worker; a second call does nothing."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def measure(
        self,
        program: Program,
        samples: Sequence[Mapping[str, AnyArray]],
        outputs: Mapping[str, TensorType],
        *,
        fresh: bool = False,
    ) -> Measured:
        """Return what a program gives; raise CompileError when the vendor refuses it or dies of it, even alone."""
        if fresh or self._is_full():
            self.close()
        alone = self._worker is None
        try:
            return self._measure(program, samples, outputs)
        except (WorkerDiedError, DriverRefusedError) as error:
            self.close()
            if not alone:
                return self.measure(program, samples, outputs, fresh=True)
            failure = error.failure if isinstance(error, WorkerDiedError) else CompileFailure.REFUSED
            raise CompileError(f"{program.target}: {error}.", failure=failure, hint="Place the node on cpu.") from error

    def hardware(self, program: Program) -> Mapping[str, str]:
        """Return what the compiler's performance model prints of the part, by its own names."""
        self.close()
        self._variables = (*self._variables, ("NN_EXT_SHOW_PERF", "1"))
        try:
            self._build(program)
            return dict(_FACT.findall(self._open().log()))
        except (WorkerDiedError, DriverRefusedError) as error:
            raise CompileError(f"{program.target}: {error}.") from error
        finally:
            self._variables = self._variables[:-1]
            self.close()

    def _is_full(self) -> bool:
        """Tell whether the worker has held so much that another one is to go on."""
        if self._worker is None:
            return False
        return self._graphs >= _MOST_GRAPHS or self._worker.resident_bytes >= self._settings.limits.kept_bytes

    def _open(self) -> WorkerProcess:
        if self._worker is None:
            folder = self._settings.folder
            launch = Launch(folder.shim, folder.sdk, self._sdk_name, self._variables, folder.libraries)
            self._worker = WorkerProcess(launch, self._settings.limits, _ARENA_BYTES)
            self._graphs = 0
        return self._worker

    def _build(self, program: Program) -> int:
        """Build and compile a program; return where its part of the log begins."""
        worker, limits = self._open(), self._settings.limits
        start = len(worker.log())
        message, raw = program_message(program)
        self._graphs += 1
        worker.ask(message, raw, within_s=limits.compile_s, doing="building")
        if f"pid={program.pid:#x}" not in worker.log()[start:]:
            raise DriverRefusedError(f"the simulator did not start as {program.sdk_name}: this SDK does not know it")
        worker.ask({"do": "compile"}, within_s=limits.compile_s, doing="compiling")
        if "Failed to compile vx shader" in worker.log()[start:]:
            raise DriverRefusedError("a shader kernel does not compile")
        return start

    def _measure(
        self, program: Program, samples: Sequence[Mapping[str, AnyArray]], outputs: Mapping[str, TensorType]
    ) -> Measured:
        start = self._build(program)
        results = tuple(self._run(program, sample, outputs) for sample in samples)
        found = _STEP.findall(self._open().log()[start:])
        count = len(found) // max(len(samples), 1)
        return Measured(results, tuple(_step(*entry) for entry in found[:count]))

    def _run(
        self, program: Program, sample: Mapping[str, AnyArray], outputs: Mapping[str, TensorType]
    ) -> dict[str, AnyArray]:
        worker, at = self._open(), 0
        memory = worker.memory
        assert memory is not None
        slots: dict[int, list[int]] = {}
        for _, tensor in (*program.inputs, *program.outputs):
            size = program.tensors[tensor].size_bytes
            slots[tensor] = [tensor, at, size]
            at += -(-size // _ALIGNMENT) * _ALIGNMENT
        if at > _ARENA_BYTES:
            raise DriverRefusedError(f"its tensors take {at} bytes, more than {_ARENA_BYTES}")
        for name, tensor in program.inputs:
            _, place, size = slots[tensor]
            memory[place : place + size] = to_vendor(sample[name], program.tensors[tensor].form.code)
        wires = [[slots[tensor] for _, tensor in side] for side in (program.inputs, program.outputs)]
        worker.ask(
            {"do": "run", "inputs": wires[0], "outputs": wires[1]},
            within_s=self._settings.limits.run_s,
            doing="running",
        )
        made: dict[str, AnyArray] = {}
        for name, tensor in program.outputs:
            _, place, size = slots[tensor]
            held = program.tensors[tensor]
            shape = tuple(reversed(held.shape)) if outputs[name].shape else ()
            made[name] = np.array(from_vendor(memory[place : place + size], held.form.code, outputs[name], shape))
        return made


def _step(layer: str, operator: str, engine: str) -> EngineStep:
    """Return a step; on parts with a stream processor the vendor counts that to the array."""
    known = _ENGINES.get(engine, Engine.SH)
    return EngineStep(layer, operator, Engine.SP if operator == "VXNNE_OPERATOR_SP" else known)
