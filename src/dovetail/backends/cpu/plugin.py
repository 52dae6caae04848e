"""The plug-in: partitions as ONNX models, run by ONNX Runtime's CPU provider."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from dovetail._version import __version__
from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    Signature,
)
from dovetail.backend.target import Target
from dovetail.backends.cpu.target import CPU
from dovetail.backends.sessions import AS_WRITTEN_KEY, THREADS_KEY, SessionExecutable, SessionSettings, open_session
from dovetail.backends.wording import first_line
from dovetail.errors import CompileError, DeviceError, GraphError
from dovetail.ir import Graph

FORMAT = "onnx"
_EXACT_BYTES = (("session.x64quantprecision", "1"),)
"""Without VNNI the default kernels multiply u8 by s8 with 16-bit sums that saturate; this asks for exact ones."""


class OnnxRuntimeBackend:
    """Compile graphs to ONNX and run them on this machine's CPU."""

    name = "cpu"

    @property
    def version(self) -> str:
        """Return the versions of the package and of ONNX Runtime."""
        return f"{__version__}+ort{version('onnxruntime')}"

    def targets(self) -> Sequence[Target]:
        """Return the one target, `cpu`."""
        return (CPU,)

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the graph as an ONNX model; raise CompileError with ONNX Runtime's reason."""
        # A board runs blobs with onnxruntime alone: the onnx package is needed here only.
        from dovetail.backends.proto import add_metadata
        from dovetail.exporters.onnx import to_onnx

        try:
            model = to_onnx(graph)
        except GraphError as error:
            raise CompileError(f"{target.name}: {error.message}", hint=error.hint) from error
        facts = {THREADS_KEY: str(options.threads)}
        add_metadata(model, facts | {AS_WRITTEN_KEY: ""} if options.as_written else facts)
        payload: bytes = model.SerializeToString()
        try:
            if graph.outputs:
                open_session(payload, SessionSettings(threads=1, optimise=False))
        except Exception as error:
            raise CompileError(f"{target.name}: ONNX Runtime refuses the partition: {first_line(error)}") from error
        return Blob(FORMAT, payload)

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides."""
        return BackendAbilities(
            options=frozenset({"threads", "taps", "as_written"}),
            compiles_in_process=lambda target: True,
            onnx_of=lambda blob: blob.payload if blob.format == FORMAT else None,
        )

    def devices(self) -> Sequence[Device]:
        """Return this machine's CPU."""
        return (CpuDevice(),)


class CpuDevice:
    """Stand for this machine's CPU."""

    name = "cpu"

    def accepts(self, target: str) -> bool:
        """Tell whether the target is `cpu`."""
        return target == CPU.name

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Open a session; raise DeviceError when the blob is damaged or made for something else."""
        if blob.format != FORMAT:
            raise DeviceError(
                f"cpu: a blob of format '{blob.format}' is not for this device.", hint=f"It loads {FORMAT}."
            )
        return SessionExecutable(
            "cpu", blob.payload, signature, SessionSettings(entries=_EXACT_BYTES, shares_memory=True)
        )


backend: Backend = OnnxRuntimeBackend()
