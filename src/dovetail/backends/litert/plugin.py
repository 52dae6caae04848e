"""The plug-in: partitions as TFLite models, on LiteRT's kernels or on a delegate that takes all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from dovetail._version import __version__
from dovetail.backend.protocols import (
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.target import Target, TargetProfile
from dovetail.backends.feeds import check_feeds
from dovetail.backends.headed import pack, unpack
from dovetail.backends.litert.delegates import CPU, Delegate, absent_delegates, present_delegates
from dovetail.backends.litert.target import target_of
from dovetail.backends.litert.writer import to_tflite
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import AnyArray, Graph

FORMAT = "litert-model"
_REVISION = 1
_THREADS = "dovetail.threads"
_OPERATORS = frozenset(name for name in vars(schema.BuiltinOperator) if name.isupper()) - {"DELEGATE"}
"""TFLite's own operators; the node of a delegate has a name that the delegate chose."""


class LitertBackend:
    """Write TFLite models and run them."""

    name = "litert"

    @property
    def version(self) -> str:
        """Return the versions of the package, of what it writes and of LiteRT."""
        return f"{__version__}+{_REVISION}.litert{version('ai-edge-litert')}"

    def targets(self) -> Sequence[Target]:
        """Return a target for LiteRT's kernels and for every delegate that loads."""
        return tuple(target_of(one) for one in present_delegates())

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the partition as a model; raise CompileError, also when a delegate leaves a part out."""
        delegate = next((one for one in present_delegates() if f"litert:{one.name}" == target.name), None)
        if delegate is None or not isinstance(target, TargetProfile):
            raise CompileError(f"{target.name}: not a target of the litert backend.")
        for node in graph.nodes:
            refusals = [target.verdict(graph, node, precision).reason for precision in target.precisions]
            if all(refusals):
                raise CompileError(f"{node.label}: {target.name} cannot run it: {refusals[-1]}.", hint="Try cpu.")
        properties = {**dict(options.properties), _THREADS: str(options.threads)}
        model = to_tflite(graph)
        try:
            interpreter = open_interpreter(model, delegate, properties)
        except Exception as error:
            raise CompileError(f"{target.name}: LiteRT refuses the partition: {_line(error)}.") from error
        left = left_out(interpreter, delegate)
        if left:
            raise CompileError(f"{target.name}: the delegate leaves {', '.join(left[:5])} to the CPU.")
        return Blob(FORMAT, pack(delegate.name, properties, "", model))

    def devices(self) -> Sequence[Device]:
        """Return LiteRT's kernels and the delegates that load."""
        return tuple(LitertDevice(one) for one in present_delegates())

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides; a delegate is anybody's code."""
        return BackendAbilities(
            options=frozenset({"threads", "properties"}),
            absent_devices=absent_delegates,
            compiles_in_process=lambda target: target.name == f"litert:{CPU}",
        )


def open_interpreter(model: bytes, delegate: Delegate, properties: Mapping[str, str]) -> Interpreter:
    """Return an interpreter with its tensors allocated; whatever LiteRT raises passes through."""
    extra = {key: value for key, value in properties.items() if key != _THREADS}
    threads = int(properties.get(_THREADS, "0")) or None
    found = Interpreter(model_content=model, num_threads=threads, experimental_delegates=delegate.load(extra) or None)
    found.allocate_tensors()
    return found


def left_out(interpreter: Interpreter, delegate: Delegate) -> list[str]:
    """Return the operators that a delegate does not take; the plan says that it takes them all.

    LiteRT goes on listing the operators that a delegate has taken. One delegate node that reads nothing which another
    operator makes, and that makes every output, holds all of them.
    """
    if not delegate.library:
        return []
    operators = interpreter._get_ops_details()
    taken = [item for item in operators if str(item["op_name"]) not in _OPERATORS]
    rest = [item for item in operators if str(item["op_name"]) in _OPERATORS]
    written = {int(index) for item in rest for index in item["outputs"]}
    outputs = {int(item["index"]) for item in interpreter.get_output_details()}
    if len(taken) == 1:
        reads, writes = ({int(index) for index in taken[0][side]} for side in ("inputs", "outputs"))
        if not reads & written and outputs <= writes:
            return []
    return [str(item["op_name"]) for item in rest]


class LitertDevice:
    """LiteRT's kernels, or a delegate."""

    def __init__(self, delegate: Delegate) -> None:
        self._delegate = delegate
        self.name = f"litert:{delegate.name}"

    def accepts(self, target: str) -> bool:
        """Tell whether the target is this one."""
        return target == self.name

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Open an interpreter; raise DeviceError when the blob is damaged or made for something else."""
        if blob.format != FORMAT:
            raise DeviceError(f"{self.name}: a blob of format '{blob.format}' is not for this device.")
        header, model = unpack(blob.payload, self.name)
        if header.device != self._delegate.name:
            raise DeviceError(f"{self.name}: the blob is for '{header.device}'.", hint="Compile the model again.")
        try:
            interpreter = open_interpreter(model, self._delegate, dict(header.properties))
        except Exception as error:
            raise DeviceError(f"{self.name}: the blob cannot be loaded: {_line(error)}.") from error
        return LitertExecutable(self.name, interpreter, signature)


class LitertExecutable:
    """Run one interpreter; not for two threads at once."""

    def __init__(self, where: str, interpreter: Interpreter, signature: Signature) -> None:
        self._where = where
        self._signature = signature
        self._interpreter: Interpreter | None = interpreter
        self._inputs = {str(item["name"]): int(item["index"]) for item in interpreter.get_input_details()}
        outputs = [(str(item["name"]), int(item["index"])) for item in interpreter.get_output_details()]
        self._outputs = dict(outputs)
        for side, mine, theirs in (
            ("inputs", self._inputs, signature.inputs),
            ("outputs", self._outputs, signature.outputs),
        ):
            if set(mine) != set(theirs):
                raise DeviceError(
                    f"{where}: the blob has {side} {', '.join(sorted(mine)) or 'none'}, "
                    f"asked for {', '.join(sorted(theirs)) or 'none'}.",
                    hint="Compile the model again.",
                )

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs as stored values; raise DeviceError, also for taps inside the model."""
        interpreter = self._interpreter
        if interpreter is None:
            raise DeviceError(f"{self._where}: the executable is closed.")
        check_feeds(self._where, self._signature, inputs)
        for tap in taps:
            if tap not in self._outputs and tap not in inputs:
                raise DeviceError(f"{self._where}: tensor '{tap}' cannot be tapped: LiteRT tells only the outputs.")
        try:
            for name, index in self._inputs.items():
                interpreter.set_tensor(index, np.ascontiguousarray(inputs[name]).reshape(inputs[name].shape))
            interpreter.invoke()
            outputs = {name: interpreter.get_tensor(index) for name, index in self._outputs.items()}
        except (RuntimeError, ValueError) as error:
            raise DeviceError(f"{self._where}: {_line(error)}.") from error
        return {**outputs, **{tap: inputs[tap] for tap in taps if tap in inputs and tap not in outputs}}

    def close(self) -> None:
        """Free the interpreter."""
        self._interpreter = None

    def abilities(self) -> ExecutableAbilities:
        """Return none beyond running."""
        return ExecutableAbilities()


def _line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300].rstrip(".")
