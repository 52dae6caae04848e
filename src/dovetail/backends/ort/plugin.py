"""The plug-in: partitions as ONNX models, or as EPContext models that hold a provider's compiled form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnxruntime

from dovetail._version import __version__
from dovetail.backend.protocols import (
    AbsentDevice,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    Signature,
)
from dovetail.backend.target import Target
from dovetail.backends.headed import check_mark, pack, unpack
from dovetail.backends.ort.executable import OrtExecutable, OrtSettings
from dovetail.backends.ort.providers import Provider, absent_providers
from dovetail.backends.ort.target import OrtTarget
from dovetail.backends.sessions import SessionSettings, open_session
from dovetail.backends.wording import first_line
from dovetail.errors import CompileError, DeviceError, GraphError
from dovetail.exporters.onnx import to_onnx
from dovetail.ir import Graph

MODEL = "ort-model"
CONTEXT = "ort-epcontext"
"""An ONNX model whose EPContext nodes hold what the provider compiled."""
_REVISION = 1
_THREADS, _PROFILING = "dovetail.threads", "dovetail.profiling"
_EXACT_BYTES = (("session.x64quantprecision", "1"),)
"""Without VNNI the default kernels multiply u8 by s8 with 16-bit sums that saturate; this asks for exact ones."""


@dataclass(frozen=True)
class OrtBackend:
    """Compile graphs for execution providers and run them; `providers` finds those that are here."""

    name: str
    providers: Callable[[], tuple[Provider, ...]]
    absent: Callable[[], tuple[AbsentDevice, ...]] = absent_providers
    static: bool = False

    @property
    def version(self) -> str:
        """Return the versions of the package, of what it writes and of ONNX Runtime."""
        return f"{__version__}+{_REVISION}.ort{onnxruntime.__version__}"

    def targets(self) -> Sequence[Target]:
        """Return a target for every provider."""
        return tuple(_target(self.name, one, self.static) for one in self.providers())

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the compiled partition; raise CompileError with the provider's reason."""
        if not isinstance(target, OrtTarget):
            raise CompileError(f"{target.name}: not a target of the {self.name} backend.")
        provider = target.provider
        if target.static:
            _check_static(graph, target.name)
        try:
            model = to_onnx(graph).SerializeToString()
        except GraphError as error:
            raise CompileError(f"{target.name}: {error.message}", hint=error.hint) from error
        properties = dict(options.properties)
        header = {**properties, _THREADS: str(options.threads)}
        if options.profiling:
            header[_PROFILING] = "1"
        try:
            if provider.compiles and graph.nodes:
                body = compile_context(model, provider, properties)
                return Blob(CONTEXT, pack(provider.name, header, provider.mark, body))
            if graph.outputs:
                open_session(model, settings_of(provider, {**header, _THREADS: "1"}, optimise=not provider.is_cpu))
        except Exception as error:
            raise CompileError(f"{target.name}: {provider.ep} refuses the partition: {first_line(error)}") from error
        return Blob(MODEL, pack(provider.name, header, "", model))

    def devices(self) -> Sequence[Device]:
        """Return a device for every provider."""
        return tuple(OrtDevice(self.name, one) for one in self.providers())

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides."""
        return BackendAbilities(
            options=frozenset({"threads", "profiling", "properties"}),
            absent_devices=self.absent,
            compiles_in_process=_is_cpu,
            onnx_of=self._onnx_of,
        )

    def _onnx_of(self, blob: Blob) -> bytes | None:
        return unpack(blob.payload, self.name)[1] if blob.format in (MODEL, CONTEXT) else None


def _is_cpu(target: Target) -> bool:
    """Tell whether it is ONNX Runtime's own CPU provider."""
    return isinstance(target, OrtTarget) and target.provider.is_cpu


_TARGETS: dict[tuple[str, Provider], OrtTarget] = {}
"""One target for each provider: it remembers what it was asked."""


def _target(backend: str, provider: Provider, static: bool) -> OrtTarget:
    key = backend, provider
    if key not in _TARGETS:
        _TARGETS[key] = OrtTarget(backend, provider, provider.precisions, static=static)
    return _TARGETS[key]


def _check_static(graph: Graph, where: str) -> None:
    """Raise CompileError for shapes that are not static or are empty: compilers of NPUs crash on them."""
    for name, kind in graph.types.items():
        if kind.static_shape is None or 0 in kind.static_shape:
            what = "is empty" if kind.static_shape is not None else "has no static shape"
            raise CompileError(
                f"{where}: tensor '{name}' {what}.",
                hint="Fix the shapes of the inputs when the model is loaded.",
                option="shape",
            )


def compile_context(model: bytes, provider: Provider, properties: dict[str, str]) -> bytes:
    """Return the model with the provider's compiled form inside; whatever ONNX Runtime raises passes through."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    provider.attach(options, properties)
    compiler = onnxruntime.ModelCompiler(options, model, embed_compiled_data_into_model=True)
    body: bytes = compiler.compile_to_bytes()
    return body


def settings_of(provider: Provider, header: dict[str, str], *, optimise: bool = True) -> SessionSettings:
    """Return how to open a session on a provider."""
    properties = {key: value for key, value in header.items() if key not in (_THREADS, _PROFILING)}
    return SessionSettings(
        threads=int(header.get(_THREADS, "0")),
        entries=(*_EXACT_BYTES, ("session.record_ep_graph_assignment_info", "1")),
        optimise=optimise,
        attach=lambda options: provider.attach(options, properties),
        shares_memory=provider.is_cpu,
    )


class OrtDevice:
    """One execution provider."""

    def __init__(self, backend: str, provider: Provider) -> None:
        self._provider = provider
        self.name = f"{backend}:{provider.name}"

    def accepts(self, target: str) -> bool:
        """Tell whether the target is this provider."""
        return target == self.name

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Open a session; raise DeviceError when the blob is damaged or made for something else."""
        if blob.format not in (MODEL, CONTEXT):
            raise DeviceError(
                f"{self.name}: a blob of format '{blob.format}' is not for this device.",
                hint=f"It loads {MODEL} and {CONTEXT}.",
            )
        header, body = unpack(blob.payload, self.name)
        if header.device != self._provider.name:
            raise DeviceError(f"{self.name}: the blob is for '{header.device}'.", hint="Compile the model again.")
        check_mark(header, self._provider.mark, self.name)
        settings = settings_of(self._provider, dict(header.properties))
        profiled = dict(header.properties).get(_PROFILING) == "1"
        return OrtExecutable(self.name, body, signature, OrtSettings(settings, profiled, self._provider.ep))
