"""The plug-in: VeriSilicon targets on the vendor's own simulator, compiled by the vendor's own compiler."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from dovetail.backend.modelled import BoardSettings, ModelledGraph
from dovetail.backend.project import ProjectStyle
from dovetail.backend.protocols import (
    BackendAbilities,
    Blob,
    CompileOptions,
    ExecutableAbilities,
    Signature,
    VendorBinary,
)
from dovetail.backend.target import Target, TargetProfile
from dovetail.backends.feeds import check_feeds
from dovetail.backends.verisilicon.blob import program_from_bytes, program_to_bytes
from dovetail.backends.verisilicon.driver.modelling import model_program
from dovetail.backends.verisilicon.driver.process import DriverLimits
from dovetail.backends.verisilicon.driver.session import Settings, VendorSession, split_samples, write_binary
from dovetail.backends.verisilicon.edges import check_edges
from dovetail.backends.verisilicon.failures import BACKEND, compiler_version
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.lowering.trial import stand_in, trial_of
from dovetail.backends.verisilicon.part import Part
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES, vsi_profile
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.backends.verisilicon.pieces import pieces_of
from dovetail.backends.verisilicon.program import Program, labelled, tapped, with_binary
from dovetail.backends.verisilicon.project.write import project_files
from dovetail.errors import CompileError, DeviceError
from dovetail.ir import AnyArray, DType, Graph, TensorType
from dovetail.sdk.location import SdkFolder, find_verisilicon
from dovetail.sdk.nbg import check_part, read_facts
from dovetail.sdk.parts import part_pid, simulated_parts

NBG = "nbg"
GRAPH = "vsi-graph"
_DIGEST_BYTES = 32
_PID, _SDK = "product id", "VeriSilicon SDK"


class BlobForm(Enum):
    """What is compiled: the vendor's binary, as a board loads it, or the graph, whose tensors can be tapped."""

    BINARY = NBG
    GRAPH = GRAPH


def _is_known(profile: TargetProfile, folder: SdkFolder) -> bool:
    return profile.hardware is not None and profile.hardware.sdk_name in simulated_parts(folder.sdk)


@dataclass(frozen=True, slots=True)
class VsiBackend:
    """Compile with the vendor's compiler and run on the vendor's simulator, one worker process a graph."""

    folder: SdkFolder
    form: BlobForm = BlobForm.BINARY
    limits: DriverLimits = field(default_factory=DriverLimits)
    name: str = BACKEND

    @property
    def version(self) -> str:
        """Return the versions of the package and of what it writes, and a mark of the SDK's contents."""
        return compiler_version(self.folder)

    def targets(self) -> Sequence[Target]:
        """Return the targets that the installed simulator knows."""
        return tuple(one for one in VSI_PROFILES if _is_known(one, self.folder))

    def _find_target(self, name: str) -> Target | None:
        """Return any part of the installed simulator: by name, by the simulator's own, or by product id."""
        found = vsi_profile(name, simulated_parts(self.folder.sdk))
        return found if found is not None and _is_known(found, self.folder) else None

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the compiled partition; raise CompileError with our reason, or with the vendor's."""
        part = part_of(target)
        program = lower_graph(graph, part)
        if self.form is BlobForm.GRAPH or options.taps:
            return Blob(GRAPH, program_to_bytes(program))
        return Blob(NBG, sealed(program_to_bytes(with_binary(program, self._binary(program, part)))))

    def _write_project(
        self, graph: Graph, target: Target, style: ProjectStyle, labels: Mapping[str, str]
    ) -> Mapping[str, bytes]:
        """Return a CMake project with the network, its weights and the vendor's binary; raise CompileError."""
        part = part_of(target)
        program = lower_graph(graph, part)
        return project_files(labelled(program, labels), style, self._binary(program, part))

    def _binary(self, program: Program, part: Part) -> bytes:
        binary = write_binary(program, self._settings(), may_skip=not part.encodes_by_running)
        try:
            check_part(read_facts(binary), program.pid, program.target)
        except DeviceError as error:
            raise CompileError(error.message, hint=error.hint) from error
        return binary

    def _vendor_binary(self, blob: Blob) -> VendorBinary | None:
        """Return the network in binary form; raise DeviceError when the blob is damaged."""
        if blob.format != NBG:
            return None
        program = program_from_bytes(unsealed(blob.payload, "vsi"))
        if program.binary is None:
            raise DeviceError(f"vsi: the blob is not what its format '{blob.format}' says.", hint=_AGAIN)
        names = [tuple(name for name, _ in side) for side in (program.inputs, program.outputs)]
        return VendorBinary(f".{NBG}", program.binary, names[0], names[1])

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides; the vendor's compiler has a process of its own already."""
        return BackendAbilities(
            options=frozenset({"taps"}),
            find_target=self._find_target,
            compiles_in_process=lambda target: True,
            with_limit=self._with_limit,
            software=f"VeriSilicon SDK {self.folder.version}",
            stand_in=lambda graph, node, precision, target: stand_in(trial_of(graph, node, precision, part_of(target))),
            vendor_binary=self._vendor_binary,
            needs=self._needs,
            unmet=self._unmet,
            model_cycles=self._model_cycles,
            pieces=pieces_of,
            write_project=self._write_project,
        )

    def _needs(self, blob: Blob) -> Mapping[str, str]:
        """Return the product id of the part, and the version of the SDK whose runtime loads a binary."""
        payload = unsealed(blob.payload, BACKEND) if blob.format == NBG else blob.payload
        return {_PID: f"{program_from_bytes(payload).pid:#x}", _SDK: self.folder.version}

    def _unmet(self, needs: Mapping[str, str]) -> str:
        """Return which part or SDK is not here."""
        pids = {part_pid(name) for name in simulated_parts(self.folder.sdk)}
        for name, wanted in needs.items():
            if name == _SDK and wanted != self.folder.version:
                return f"version {wanted} of VeriSilicon's SDK, and {self.folder.version or 'none'} is installed"
            if name == _PID and wanted not in map(hex, pids):
                return f"a part with product id {wanted}"
            if name not in (_SDK, _PID):
                return f"'{name}' ({wanted}), which is unknown here"
        return ""

    def _with_limit(self, seconds: float) -> VsiBackend:
        """Return the backend that gives a compilation so many seconds, and a run no more."""
        most_cpu = max(self.limits.cpu_seconds, math.ceil(2 * seconds))
        run_s = min(self.limits.run_s, seconds)
        return replace(self, limits=replace(self.limits, compile_s=seconds, run_s=run_s, cpu_seconds=most_cpu))

    def _model_cycles(self, graph: Graph, target: Target, board: BoardSettings) -> ModelledGraph:
        """Return what the vendor's performance model says of a quantised graph; raise CompileError."""
        return model_program(lower_graph(graph, part_of(target)), self._settings(), board)

    def devices(self) -> Sequence[SimulatedPart]:
        """Return the simulator."""
        return (SimulatedPart(self._settings()),) if self.targets() else ()

    def _settings(self) -> Settings:
        return Settings(self.folder, self.limits)


def sealed(payload: bytes) -> bytes:
    """Return bytes with their digest before them: the vendor library notices hardly any damage."""
    return hashlib.sha256(payload).digest() + payload


def unsealed(data: bytes, where: str) -> bytes:
    """Return sealed bytes; raise DeviceError when they are damaged."""
    payload = data[_DIGEST_BYTES:]
    if len(data) <= _DIGEST_BYTES or hashlib.sha256(payload).digest() != data[:_DIGEST_BYTES]:
        raise DeviceError(f"{where}: the blob is damaged: its digest is not that of its bytes.", hint=_AGAIN)
    return payload


_AGAIN = "Compile the model again."


@dataclass(frozen=True, slots=True)
class SimulatedPart:
    """The vendor's simulator, as every part that it knows."""

    settings: Settings
    name: str = "vsi-simulator"

    def accepts(self, target: str) -> bool:
        """Tell whether the simulator knows the target's part."""
        found = vsi_profile(target, simulated_parts(self.settings.folder.sdk))
        return found is not None and _is_known(found, self.settings.folder)

    def load(self, blob: Blob, signature: Signature) -> VsiExecutable:
        """Start a worker with the blob; raise DeviceError when it is damaged or made for something else."""
        if blob.format not in (NBG, GRAPH):
            raise DeviceError(f"vsi: a blob of format '{blob.format}' is not for this device.", hint=f"It loads {NBG}.")
        payload = unsealed(blob.payload, "vsi") if blob.format == NBG else blob.payload
        program = program_from_bytes(payload)
        if (program.binary is not None) is not (blob.format == NBG):
            raise DeviceError(f"vsi: the blob is not what its format '{blob.format}' says.", hint=_AGAIN)
        if not self.accepts(program.target):
            raise DeviceError(f"vsi: the blob is for '{program.target}', which this simulator does not know.")
        check_edges("vsi", program, signature)
        if program.binary is not None:
            facts = read_facts(program.binary, program.target)
            check_part(facts, program.pid, program.target)
            if facts.inputs is not None and (facts.inputs, facts.outputs) != (
                len(program.inputs),
                len(program.outputs),
            ):
                raise DeviceError(f"{program.target}: the binary network has other inputs or outputs.", hint=_AGAIN)
        return VsiExecutable(program, signature, self.settings)


class VsiExecutable:
    """Run one program in its worker; another worker answers taps, where the graph is at hand."""

    def __init__(self, program: Program, signature: Signature, settings: Settings) -> None:
        self._program = program
        self._signature = signature
        self._settings = settings
        self._tapped: dict[tuple[str, ...], VendorSession] = {}
        self._session: VendorSession | None = _open(program, settings)

    @property
    def process_id(self) -> int:
        """Return the process id of the worker; raise DeviceError when it has ended."""
        return self._open_session().process_id

    @property
    def last_run_ns(self) -> int:
        """Return what the latest run took inside the worker: writing, running and reading, without the way there."""
        return self._open_session().steps[-1].elapsed_ns

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the stored outputs and taps; raise DeviceError, or DeviceLost when the worker dies."""
        session = self._open_session()
        check_feeds(self._program.target, self._signature, inputs)
        wanted = dict(self._signature.outputs)
        inside = tuple(tap for tap in dict.fromkeys(taps) if tap not in wanted and tap not in inputs)
        if inside:
            session = self._with_taps(inside)
            wanted.update({tap: self._type_of(tap) for tap in inside})
        found = self._run(session, inputs, wanted)
        return {**found, **{tap: inputs[tap] for tap in taps if tap in inputs and tap not in found}}

    def close(self) -> None:
        """End every worker; a second call does nothing."""
        for session in (self._session, *self._tapped.values()):
            if session is not None:
                session.close()
        self._session = None
        self._tapped.clear()

    def abilities(self) -> ExecutableAbilities:
        """Return none beyond running."""
        return ExecutableAbilities()

    def _run(
        self, session: VendorSession, inputs: Mapping[str, AnyArray], wanted: Mapping[str, TensorType]
    ) -> dict[str, AnyArray]:
        if not self._program.batched:
            return session.run(inputs, wanted)
        count = len(next(iter(inputs.values())))
        if count == 0:
            return {name: _empty(kind) for name, kind in wanted.items()}
        runs = [session.run(sample, wanted) for sample in split_samples(inputs, count)]
        return {name: np.concatenate([run[name] for run in runs]) for name in wanted}

    def _open_session(self) -> VendorSession:
        if self._session is None:
            raise DeviceError(f"{self._program.target}: the executable is closed.")
        return self._session

    def _with_taps(self, names: tuple[str, ...]) -> VendorSession:
        if names not in self._tapped:
            known = dict(self._program.inner)
            for name in names:
                if name not in known:
                    why = "a binary network tells only its outputs" if self._program.binary else "there is none"
                    raise DeviceError(f"{self._program.target}: tensor '{name}' cannot be tapped: {why}.")
            self._tapped[names] = _open(tapped(self._program, names), self._settings)
        return self._tapped[names]

    def _type_of(self, name: str) -> TensorType:
        """Return the element type and shape of an inner tensor: what is needed to read its bytes."""
        tensor = self._program.tensors[dict(self._program.inner)[name]]
        return TensorType(DType(tensor.form.code.name.lower()), tuple(reversed(tensor.shape)))


def _open(program: Program, settings: Settings) -> VendorSession:
    try:
        session = VendorSession(program, settings)
        session.compile()
    except CompileError as error:
        raise DeviceError(error.message, hint=error.hint) from error
    return session


def _empty(kind: TensorType) -> AnyArray:
    shape = [0, *(dim if isinstance(dim, int) else 1 for dim in (kind.shape or ())[1:])]
    return np.zeros(shape, kind.dtype.carrier)


def __getattr__(name: str) -> VsiBackend:
    """Return the plug-in as `backend`; ImportError tells the registry why it cannot be used."""
    if name != "backend":
        raise AttributeError(name)
    found = find_verisilicon()
    if not found.usable:
        raise ImportError(f"{found.reason}: run 'dovetail sdk install verisilicon'")
    return VsiBackend(found.folder)
