"""ONNX Runtime sessions as executables; needs onnxruntime only (and onnx for taps)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import onnxruntime

from dovetail.backend.protocols import ExecutableAbilities, InPlace, Signature
from dovetail.backends.aligned import aligned_empty
from dovetail.backends.feeds import check_feeds
from dovetail.backends.wording import first_line
from dovetail.errors import DeviceError
from dovetail.ir import AnyArray, DType, Quantization, quantize_array

THREADS_KEY = "dovetail.threads"
AS_WRITTEN_KEY = "dovetail.as_written"
"""Is there where nothing is to be optimised."""
TAPS_KEY = "dovetail.taps"
"""JSON: tensor -> [name in the file, element type, scale, zero point] where the tensor itself is not in the file."""

_QUANTISES_WEIGHTS = "WeightBiasQuantization"
"""ONNX Runtime's pass that quantises the float weights of a layer between DequantizeLinear and QuantizeLinear: a layer
that was placed in float, between quantised neighbours, would lose its precision unseen."""

_PADS_MAXIMA = "Pad_Fusion"
"""ONNX Runtime's pass that turns zeros around the input of a MaxPool into padding of the MaxPool, which never wins: the
maximum of a zero and negative values comes out negative (seen in 1.31.1)."""

_MOVES_BOUNDARIES = "QDQPropagationTransformer"
"""ONNX Runtime's pass that carries a DequantizeLinear past a move of data: at opset 21 it makes a QuantizeLinear of
int8 without its zero point, and the model no longer loads (seen in 1.31). Exported graphs have pairs around moves."""

_UNBOUND = np.empty(0)

_METADATA_FIELD = 14
"""`ModelProto.metadata_props` in onnx.proto."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How to open a session: threads (0 lets ONNX Runtime choose), configuration entries, optimisation."""

    threads: int = 0
    entries: tuple[tuple[str, str], ...] = ()
    optimise: bool = True
    attach: Callable[[onnxruntime.SessionOptions], list[str] | None] = lambda options: ["CPUExecutionProvider"]
    """Add a provider to the options, or return the names of built-in ones."""
    profile: str = ""
    """Beginning of the path where ONNX Runtime writes its profile; nothing is measured when it is empty."""
    shares_memory: bool = False
    """Take the memory for activations from one arena of the process: what one partition frees is still in the caches
    when the next one takes it. Eight pieces of a MobileNet ran a tenth faster (benchmarks/runtime.py)."""
    keeps_memory: bool = True
    """Take the memory for activations from an arena, which grows by doubling and keeps what a run no longer needs."""


def open_session(model: bytes, settings: SessionSettings) -> onnxruntime.InferenceSession:
    """Return a session on what the settings attach and nothing else; whatever ONNX Runtime raises passes through."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if settings.optimise else level.ORT_DISABLE_ALL
    for key, value in settings.entries:
        options.add_session_config_entry(key, value)
    options.enable_cpu_mem_arena = settings.keeps_memory
    if settings.shares_memory:
        _register_arena()
        # Weights stay out of the arena, which never shrinks.
        for key in ("session.use_env_allocators", "session.use_device_allocator_for_initializers"):
            options.add_session_config_entry(key, "1")
        # One block for a whole run, as by default, would hardly ever be the one that was just freed.
        options.enable_mem_pattern = False
    if settings.profile:
        options.enable_profiling = True
        options.profile_file_prefix = settings.profile
    # Without `enable_fallback=0` a provider that fails is replaced by the CPU, here and again when it runs.
    session = onnxruntime.InferenceSession(
        model,
        options,
        providers=settings.attach(options),
        disabled_optimizers=[_QUANTISES_WEIGHTS, _PADS_MAXIMA, _MOVES_BOUNDARIES],
        enable_fallback=0,
    )
    session.disable_fallback()
    return session


@cache
def _register_arena() -> None:
    """Give the process one arena for the CPU's memory."""
    memory = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    # Refused where the application has registered one: that one is used then.
    with contextlib.suppress(Exception):
        onnxruntime.create_and_register_allocator(memory, None)


def read_metadata(model: bytes) -> dict[str, str]:
    """Return the metadata of a serialised model without parsing the rest; raise ValueError when it is damaged."""
    metadata: dict[str, str] = {}
    for field, payload in _fields(memoryview(model)):
        if field == _METADATA_FIELD:
            entry = {number: bytes(text).decode() for number, text in _fields(payload)}
            metadata[entry.get(1, "")] = entry.get(2, "")
    return metadata


def _fields(data: memoryview) -> list[tuple[int, memoryview]]:
    """Return the length-delimited fields of a protocol-buffer message."""
    fields: list[tuple[int, memoryview]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("cut short")
            fields.append((key >> 3, data[at : at + size]))
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("not a protocol-buffer message")
    return fields


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise ValueError("cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number is too long")


class SessionExecutable:
    """Run a model in ONNX Runtime; inputs and outputs are checked against the signature."""

    def __init__(self, where: str, model: bytes, signature: Signature, settings: SessionSettings) -> None:
        self._where = where
        self._signature = signature
        self._model: bytes | None = model
        try:
            facts = read_metadata(model)
            threads = int(facts.get(THREADS_KEY, settings.threads))
            self._taps: dict[str, list[object]] = json.loads(facts.get(TAPS_KEY, "{}"))
            optimise = settings.optimise and AS_WRITTEN_KEY not in facts
            self._settings = replace(settings, threads=threads, optimise=optimise)
            self._session: onnxruntime.InferenceSession | None = open_session(model, self._settings)
        except Exception as error:
            raise DeviceError(
                f"{where}: the blob cannot be loaded: {first_line(error)}.", hint="Compile the model again."
            ) from error
        self._tapped: dict[tuple[str, ...], onnxruntime.InferenceSession] = {}
        self._check_model(self._session)
        self._binding: onnxruntime.IOBinding | None = None
        self._bound: dict[str, AnyArray] = {}
        self._written: dict[str, AnyArray] = {}
        """The arrays that the binding reads and writes already: the borders of a session come again in every run."""
        kinds = (*signature.inputs.values(), *signature.outputs.values())
        self._binds = all(kind.dtype is not DType.BF16 for kind in kinds)

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs and the tapped tensors as stored values; raise DeviceError."""
        if self._session is None:
            raise DeviceError(f"{self._where}: the executable is closed.")
        check_feeds(self._where, self._signature, inputs)
        outputs = list(self._signature.outputs)
        extra = [tap for tap in dict.fromkeys(taps) if tap not in self._signature.outputs]
        passed_on = {tap: inputs[tap] for tap in extra if tap in inputs}
        inside = [tap for tap in extra if tap not in passed_on]
        session = self._with_taps(tuple(inside)) if inside else self._session
        names = outputs + [str(self._taps[tap][0]) if tap in self._taps else tap for tap in inside]
        try:
            values = session.run(names, {name: np.asarray(value) for name, value in inputs.items()})
        except Exception as error:
            raise DeviceError(f"{self._where}: {first_line(error)}") from error
        tensors = dict(zip(outputs + inside, map(np.asarray, values), strict=True))
        for tap in inside:
            if tap in self._taps:
                tensors[tap] = _stored(tensors[tap], self._taps[tap])
        return {**tensors, **passed_on}

    def abilities(self) -> ExecutableAbilities:
        """Return that it writes in place, and runs in several threads at a time."""
        return ExecutableAbilities(in_place=InPlace(self.empty, self.run_into), concurrent=True)

    def empty(self, output: str, memory: AnyArray | None = None) -> AnyArray:
        """Return an array for an output of static shape, in `memory` where that is given."""
        kind = self._signature.outputs[output]
        return aligned_empty(kind.static_shape or (), kind.dtype.carrier, memory)

    def run_into(self, inputs: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray]) -> None:
        """Write the outputs into arrays of the caller; raise DeviceError."""
        if not self._binds or self._session is None:
            for name, value in self.run(inputs).items():
                np.copyto(outputs[name], value)
            return
        if self._binding is None:
            self._binding = self._session.io_binding()
        try:
            for name in self._signature.inputs:
                array = inputs[name]
                if self._bound.get(name) is not array:
                    whole = np.asarray(array, order="C")
                    self._binding.bind_cpu_input(name, whole)
                    # What is bound is read again in every run: a copy would be out of date.
                    self._bound[name] = whole if whole is array else _UNBOUND
            for name in self._signature.outputs:
                array = outputs[name]
                if self._written.get(name) is not array:
                    if not array.flags.c_contiguous:
                        raise DeviceError(f"{self._where}: output '{name}' is to be written into scattered memory.")
                    self._binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
                    self._written[name] = array
            self._session.run_with_iobinding(self._binding)
        except DeviceError:
            raise
        except Exception as error:
            self._bound.clear()
            self._written.clear()
            raise DeviceError(f"{self._where}: {first_line(error)}") from error

    def open_session(self) -> onnxruntime.InferenceSession:
        """Return the session; raise DeviceError when it was closed."""
        if self._session is None:
            raise DeviceError(f"{self._where}: the executable is closed.")
        return self._session

    def close(self) -> None:
        """Free the sessions."""
        self._binding = None
        self._bound.clear()
        self._written.clear()
        self._session = None
        self._model = None
        self._tapped.clear()

    def _check_model(self, session: onnxruntime.InferenceSession) -> None:
        have = {item.name for item in session.get_inputs()}, {item.name for item in session.get_outputs()}
        want = set(self._signature.inputs), set(self._signature.outputs)
        for side, mine, theirs in zip(("inputs", "outputs"), have, want, strict=True):
            if mine != theirs:
                raise DeviceError(
                    f"{self._where}: the blob has {side} {', '.join(sorted(mine)) or 'none'}, "
                    f"asked for {', '.join(sorted(theirs)) or 'none'}.",
                    hint="Compile the model again.",
                )

    def _with_taps(self, taps: tuple[str, ...]) -> onnxruntime.InferenceSession:
        if taps in self._tapped:
            return self._tapped[taps]
        try:
            import onnx
        except ImportError as error:
            raise DeviceError(
                f"{self._where}: tensors inside the model cannot be read here.", hint="Install the onnx package."
            ) from error
        assert self._model is not None
        model = onnx.load_model_from_string(self._model)
        written = {name for node in model.graph.node for name in node.output}
        for tap in taps:
            name = str(self._taps[tap][0]) if tap in self._taps else tap
            if name not in written:
                raise DeviceError(f"{self._where}: no tensor that the model computes is called '{tap}'.")
            if name not in {item.name for item in model.graph.output}:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
        try:
            # All that is tapped is alive at once: an arena would never let go of so much again.
            settings = replace(self._settings, shares_memory=False, keeps_memory=False)
            session = open_session(model.SerializeToString(), settings)
        except Exception as error:
            raise DeviceError(f"{self._where}: {first_line(error)}") from error
        self._tapped[taps] = session
        return session


def _stored(real: AnyArray, how: list[object]) -> AnyArray:
    dtype = DType(str(how[1]))
    if dtype.is_float:
        return real.astype(dtype.carrier)
    return quantize_array(real, dtype, Quantization((float(str(how[2])),), (int(str(how[3])),)))
