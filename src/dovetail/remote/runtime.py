"""A board as a place to run bundles: what `LocalRuntime` is for this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from dovetail.backend.protocols import AbsentDevice, Signature
from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import bundle_to_files, digest_bundle
from dovetail.errors import DeviceError, RemoteError
from dovetail.ir.dtypes import AnyArray
from dovetail.oip.messages import Message, calls
from dovetail.oip.tensors import add_inputs, outputs_of
from dovetail.remote.access import BoardAccess
from dovetail.remote.connection import Connection
from dovetail.remote.served import NamedModel
from dovetail.runtime.checks import check_inputs, check_outputs
from dovetail.runtime.memory import ProcessMemory
from dovetail.runtime.place import BackendPresence, LoadedModel, Runtime
from dovetail.runtime.profiling import PartitionAccount, ProfileOptions, RunProfile
from dovetail.runtime.record import Mark, Run

Arrays = Mapping[str, AnyArray]


class RemoteRuntime(Runtime):
    """A board that `dovetail serve` makes reachable; a context manager.

    Bundles are sent when they are loaded, unless the board has them. Errors that are raised there are raised here, as
    the same types; RemoteError where the board cannot be reached or refuses, DeviceLost where it stops answering.
    """

    def __init__(self, url: str | BoardAccess, token: str | None = None, *, run_s: float = 120.0) -> None:
        self.access = BoardAccess(url, token) if isinstance(url, str) else url
        self._connection = Connection(self.access)
        self._run_s = run_s

    def devices(self) -> tuple[BackendPresence, ...]:
        """Return the backends of the board."""
        found = self._connection.ask("Devices", calls()["Devices"].request(), _ASK_S)
        return tuple(
            BackendPresence(
                one.name,
                one.available,
                one.reason,
                one.version,
                tuple(one.devices),
                tuple(AbsentDevice(item.name, item.reason) for item in one.absent),
            )
            for one in found.backends
        )

    def ping(self, within_s: float = 10.0) -> None:
        """Raise RemoteError or DeviceLost where the board does not answer."""
        self._connection.ask("ServerReady", calls()["ServerReady"].request(), within_s)

    def load(self, bundle: Bundle) -> RemoteModel:
        """Load a bundle on the board, which keeps it in memory until it needs the place."""
        return RemoteModel(self._connection, bundle, self._run_s)

    def served(self, name: str, version: str = "") -> NamedModel:
        """Return a model that the server has under a name: it need not be Dovetail's, nor the server."""
        return NamedModel(self._connection, name, version, run_s=self._run_s)

    def install(self, name: str, bundle: Bundle) -> None:
        """Put a bundle into the board's folder under a name, and serve it; the old one serves until this one does."""
        _upload(self._connection, name, bundle, passing=False)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> RemoteRuntime:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RemoteModel(LoadedModel):
    """A bundle that is loaded on a board."""

    def __init__(self, connection: Connection, bundle: Bundle, run_s: float) -> None:
        self.bundle = bundle
        self._connection = connection
        self._run_s = run_s
        self._types = bundle.tensors
        self._name = f"upload-{digest_bundle(bundle)[:32]}"
        self._devices = self._load()

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the device of every partition, as the board calls it."""
        return self._devices

    def run(self, inputs: Arrays, taps: Sequence[str] = ()) -> Run:
        """Return outputs, taps and timings, as they were on the board."""
        for tensor in taps:
            if tensor not in self._types:
                raise DeviceError(f"tap '{tensor}': the model has no such tensor.")
        request = self._request(inputs)
        request.parameters["timings"].bool_param = True
        inner = [name for name in dict.fromkeys(taps) if name not in self.bundle.outputs]
        for name in (*self.bundle.outputs, *inner):
            request.outputs.add(name=name)
        response = self._ask("ModelInfer", request, self._run_s)
        arrays = outputs_of(response, self._types)
        missing = [name for name in (*self.bundle.outputs, *inner) if name not in arrays]
        if missing:
            raise RemoteError(f"{self._connection.url}: the answer has no '{missing[0]}'.")
        check_outputs(self._connection.url, Signature({}, self.bundle.outputs), arrays)
        elapsed_ns, marks = _timings(response.parameters["timings"].string_param, len(self.bundle.partitions))
        return Run(
            {name: arrays[name] for name in self.bundle.outputs},
            {name: arrays[name] for name in taps},
            self._types,
            marks,
            self._names(self._devices),
            0,
            elapsed_ns,
        )

    def profile(
        self,
        feeds: Sequence[Arrays],
        options: ProfileOptions,
        advance: Callable[[int], None] = lambda done: None,
    ) -> RunProfile:
        """Return how long runs take on the board, by its own clock.

        Each input is sent once, for its share of runs. So that several are under way, it is ten runs of each at least:
        of few runs only the first inputs are used.
        """
        if not feeds:
            raise DeviceError("there is nothing to run a profile on.", hint="Give at least one sample.")
        used = feeds[: max(1, options.runs // _RUNS_OF_EACH)]
        runs: list[Run] = []
        starts: list[int] = []
        together_ns, clock, devices = 0, 0, self._devices
        memory, accounts = None, tuple[PartitionAccount, ...]()
        for index, inputs in enumerate(used):
            count = len(range(index, options.runs, len(used)))
            asked = calls()["Profile"].request(
                request=self._request(inputs), warm_ups=0 if runs else options.warm_ups, runs=count
            )
            found = self._ask("Profile", asked, self._run_s * (2 * count + options.warm_ups))
            devices = tuple(found.devices)
            names = self._names(devices)
            if len(found.runs) != count or len(devices) != len(self.bundle.partitions):
                raise RemoteError(f"{self._connection.url}: the profile is not of this bundle.")
            for one in found.runs:
                marks = _checked_marks(
                    ((item.partition, item.start_ns, item.elapsed_ns, item.transfer_ns) for item in one.marks),
                    len(devices),
                )
                runs.append(Run({}, {}, self._types, marks, names, 0, one.elapsed_ns))
                starts.append(clock + one.start_ns)
            clock = starts[-1] + runs[-1].elapsed_ns
            together_ns += found.together_ns
            memory, accounts = _larger(memory, found), tuple(_account(one) for one in found.accounts)
            advance(2 * len(runs))
        told = accounts if len(accounts) == len(devices) else ()
        return RunProfile(tuple(runs), tuple(starts), together_ns, devices, memory, told)

    def close(self) -> None:
        """Do nothing: the board keeps the bundle for the next time, and gives it up when it needs the place."""

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _names(self, devices: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return tuple((part.target, device) for part, device in zip(self.bundle.partitions, devices, strict=True))

    def _request(self, inputs: Arrays) -> Message:
        check_inputs(self.bundle.inputs, inputs)
        request = calls()["ModelInfer"].request(model_name=self._name)
        add_inputs(request, inputs, self.bundle.inputs)
        return request

    def _load(self) -> tuple[str, ...]:
        """Send the bundle unless it is there, and return the device of every partition."""
        known = calls()["ModelReady"].request(name=self._name)
        if not self._connection.ask("ModelReady", known, _ASK_S).ready:
            _upload(self._connection, self._name, self.bundle, passing=True)
        asked = calls()["ModelConfig"].request(name=self._name)
        told = self._connection.ask("ModelConfig", asked, _ASK_S).config.parameters["devices"].string_value
        try:
            devices = tuple(map(str, json.loads(told)))
        except (RecursionError, TypeError, ValueError):
            devices = ()
        if len(devices) != len(self.bundle.partitions):
            raise RemoteError(f"{self._connection.url}: the model is not this bundle.")
        return devices

    def _ask(self, name: str, request: Message, within_s: float) -> Message:
        try:
            return self._connection.ask(name, request, within_s)
        except RemoteError:
            known = calls()["ModelReady"].request(name=self._name)
            if self._connection.ask("ModelReady", known, _ASK_S).ready:
                raise
        # The board was started anew, or needed the place for other bundles.
        self._devices = self._load()
        return self._connection.ask(name, request, within_s)


_ASK_S = 60.0
_RUNS_OF_EACH = 10
_UPLOAD_S = 900.0


def _upload(connection: Connection, name: str, bundle: Bundle, *, passing: bool) -> None:
    request = calls()["RepositoryModelLoad"].request(model_name=name)
    for file, content in bundle_to_files(bundle).items():
        request.parameters[f"file:1/{file}"].bytes_param = content
    if passing:
        request.parameters["passing"].bool_param = True
    connection.ask("RepositoryModelLoad", request, _UPLOAD_S)


def _larger(memory: ProcessMemory | None, found: Message) -> ProcessMemory | None:
    """Return the memory of the profile with the larger peak; None where the board does not tell it."""
    if not found.HasField("memory") or (memory is not None and memory.peak_bytes >= found.memory.peak_bytes):
        return memory
    return ProcessMemory(found.memory.before_bytes or None, max(0, found.memory.peak_bytes))


def _account(told: Message) -> PartitionAccount:
    return PartitionAccount(told.operators, min(told.elsewhere, told.operators))


def _timings(text: str, partitions: int) -> tuple[int, Sequence[Mark]]:
    """Return the time of a run and its marks; none where a server does not tell them."""
    try:
        document = json.loads(text)
        marks = [
            (int(index), int(start), int(elapsed), int(moved)) for index, start, elapsed, moved in document["marks"]
        ]
        return int(document["elapsed_ns"]), _checked_marks(marks, partitions)
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return 0, ()


def _checked_marks(marks: Iterable[Mark], partitions: int) -> Sequence[Mark]:
    found = list(marks)
    if any(not 0 <= mark[0] < partitions for mark in found):
        raise RemoteError("the server times partitions that the bundle has not.")
    return found
