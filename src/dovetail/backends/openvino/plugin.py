"""The plug-in: partitions as models of OpenVINO, on every device that it lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version

from dovetail._version import __version__
from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    InferencePrecision,
    Signature,
)
from dovetail.backend.target import Target
from dovetail.backends.headed import check_mark, pack, unpack
from dovetail.backends.openvino.core import DeviceFacts, core, missing_devices, present_devices, reason
from dovetail.backends.openvino.executable import CHANNELS_LAST, OpenVinoExecutable, TapSource
from dovetail.backends.openvino.target import OpenVinoTarget, offered_precisions
from dovetail.errors import CompileError, DeviceError, GraphError
from dovetail.exporters.onnx import to_onnx
from dovetail.ir import Graph

MODEL = "openvino-model"
"""ONNX, compiled on loading: the CPU plug-in's own export is an intermediate form, too, and differs from run to run."""
COMPILED = "openvino-compiled"
_REVISION = 2
"""Raise it when blobs or results change."""
EXPORT = "DOVETAIL_EXPORT"
"""A property of ours: `YES` compiles to the device's own form where it would else be ONNX (the CPU plug-in)."""


class OpenVinoBackend:
    """Compile graphs for OpenVINO's devices and run them."""

    name = "openvino"

    @property
    def version(self) -> str:
        """Return the versions of the package, of what it writes and of OpenVINO."""
        return f"{__version__}+{_REVISION}.openvino{version('openvino')}"

    def targets(self) -> Sequence[Target]:
        """Return a target for every device that is here."""
        return tuple(_target(facts) for facts in present_devices())

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the compiled partition; raise CompileError with OpenVINO's reason."""
        if not isinstance(target, OpenVinoTarget):
            raise CompileError(f"{target.name}: not a target of the openvino backend.")
        facts = target.facts
        given = dict(options.properties)
        export = given.pop(EXPORT, "NO").upper() == "YES" or not facts.is_cpu
        properties = {**_properties(facts, options), **given}
        facing = (
            {**properties, CHANNELS_LAST: json.dumps(options.channels_last)} if options.channels_last else properties
        )
        try:
            model = to_onnx(graph).SerializeToString()
        except GraphError as error:
            raise CompileError(f"{target.name}: {error.message}", hint=error.hint) from error
        try:
            source = TapSource(facts.name, model, facing)
            compiled = source.compile() if graph.outputs else None
            if export and compiled is not None:
                exported = compiled.export_model()
                body = exported if isinstance(exported, bytes) else exported.read()
                return Blob(COMPILED, pack(facts.name, facing, facts.mark, body))
        except Exception as error:
            raise CompileError(f"{target.name}: OpenVINO refuses the partition: {reason(error)}.") from error
        return Blob(MODEL, pack(facts.name, facing, "", model))

    def devices(self) -> Sequence[Device]:
        """Return the devices that OpenVINO lists."""
        return tuple(OpenVinoDevice(facts) for facts in present_devices())

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides; accelerators have a vendor's compiler and driver behind them."""
        return BackendAbilities(
            options=frozenset({"threads", "inference", "profiling", "properties"}),
            absent_devices=missing_devices,
            takes_channels_last=_is_cpu,
            compiles_in_process=_is_cpu,
            onnx_of=self._onnx_of,
        )

    def _onnx_of(self, blob: Blob) -> bytes | None:
        """Return the model behind the header, where the device's own form did not take its place."""
        return unpack(blob.payload, self.name)[1] if blob.format == MODEL else None


def _is_cpu(target: Target) -> bool:
    """Tell whether the target is the CPU plug-in, whose convolutions compute channels-last."""
    return isinstance(target, OpenVinoTarget) and target.facts.is_cpu


@cache
def _target(facts: DeviceFacts) -> OpenVinoTarget:
    return OpenVinoTarget(facts, offered_precisions(facts))


def _properties(facts: DeviceFacts, options: CompileOptions) -> dict[str, str]:
    """Return OpenVINO's properties; it would else narrow float32 to bfloat16 where the CPU has it."""
    hint = "f32" if options.inference is InferencePrecision.AS_PLACED else options.inference.value
    # Pinned, the threads of all partitions would sit on the first core, and stages wait for each other there.
    properties = {"NUM_STREAMS": "1", "ENABLE_CPU_PINNING": "NO"} if facts.is_cpu else {}
    if facts.is_cpu or options.inference is not InferencePrecision.AS_PLACED:
        properties["INFERENCE_PRECISION_HINT"] = hint
    if facts.is_cpu and options.threads:
        properties["INFERENCE_NUM_THREADS"] = str(options.threads)
    if options.profiling:
        properties["PERF_COUNT"] = "YES"
    return properties


class OpenVinoDevice:
    """One device of OpenVINO."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts
        self.name = f"openvino:{facts.name}"

    def accepts(self, target: str) -> bool:
        """Tell whether the target is this device."""
        return target == self.name

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Compile or import the blob; raise DeviceError when it is damaged or made for something else."""
        if blob.format not in (MODEL, COMPILED):
            raise DeviceError(
                f"{self.name}: a blob of format '{blob.format}' is not for this device.",
                hint=f"It loads {MODEL} and {COMPILED}.",
            )
        header, body = unpack(blob.payload, self.name)
        if header.device != self._facts.name:
            raise DeviceError(
                f"{self.name}: the blob is for device '{header.device}'.", hint="Compile the model again."
            )
        check_mark(header, self._facts.mark, self.name)
        source = TapSource(header.device, body if blob.format == MODEL else None, dict(header.properties))
        try:
            if blob.format == MODEL:
                compiled = source.compile()
            else:
                compiled = core().import_model(body, header.device, source.own_properties)
        except Exception as error:
            raise DeviceError(
                f"{self.name}: the blob cannot be loaded: {reason(error)}.", hint="Compile the model again."
            ) from error
        return OpenVinoExecutable(header.device, compiled, signature, source)


backend: Backend = OpenVinoBackend()
