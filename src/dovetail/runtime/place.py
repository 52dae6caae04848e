"""Places where models run: this machine, or another one that speaks the same protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from dovetail.backend.protocols import AbsentDevice
from dovetail.backend.registry import backend, backend_statuses
from dovetail.bundle.bundle import Bundle
from dovetail.errors import DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.profiling import ProfileOptions, RunProfile
from dovetail.runtime.record import Run
from dovetail.runtime.session import Session, SessionOptions, open_session

Arrays = Mapping[str, AnyArray]


@dataclass(frozen=True, slots=True)
class BackendPresence:
    """A backend that is installed somewhere, and what it can run on there."""

    name: str
    available: bool
    reason: str = ""
    version: str = ""
    devices: tuple[str, ...] = ()
    absent: tuple[AbsentDevice, ...] = ()


class LoadedModel(AbstractContextManager["LoadedModel"], Protocol):
    """A bundle that is loaded on devices."""

    bundle: Bundle

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the device of every partition."""

    def run(self, inputs: Arrays, taps: Sequence[str] = ()) -> Run:
        """Return outputs, taps and timings; raise DeviceError for wrong inputs and unknown taps."""

    def profile(
        self, feeds: Sequence[Arrays], options: ProfileOptions, advance: Callable[[int], None] = ...
    ) -> RunProfile:
        """Return how long runs take, the inputs in turn; `advance` hears how many are done."""

    def close(self) -> None:
        """Free what the model holds; a second call does nothing."""


class Runtime(AbstractContextManager["Runtime"], Protocol):
    """A place where bundles are loaded and run."""

    def devices(self) -> tuple[BackendPresence, ...]:
        """Return the backends of the place with their devices, also those that cannot be used."""

    def load(self, bundle: Bundle) -> LoadedModel:
        """Load a bundle; raise BundleError, DeviceNotFound or DeviceError when that cannot be."""

    def close(self) -> None:
        """End the connection to the place."""


class LocalRuntime(Runtime):
    """This machine as a place to run bundles."""

    def __init__(self, options: SessionOptions | None = None) -> None:
        self._options = options

    def devices(self) -> tuple[BackendPresence, ...]:
        """Return the backends that are installed here."""
        return tuple(
            _presence(status.name) if status.available else BackendPresence(status.name, False, status.reason)
            for status in backend_statuses()
        )

    def load(self, bundle: Bundle) -> Session:
        """Load every partition of a bundle on a device here."""
        return open_session(bundle, self._options)

    def close(self) -> None:
        """Do nothing: models are closed one by one."""

    def __exit__(self, *exception: object) -> None:
        self.close()


def _presence(name: str) -> BackendPresence:
    found = backend(name)
    try:
        absent = found.abilities().absent_devices
        devices = tuple(device.name for device in found.devices())
        gone = () if absent is None else tuple(absent())
    except DovetailError as error:
        return BackendPresence(name, True, str(error), found.version)
    return BackendPresence(name, True, "", found.version, devices, gone)
