"""Find backends and targets; backends come only from entry points and are loaded on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from dovetail.backend.protocols import Backend, Device
from dovetail.backend.target import Target
from dovetail.errors import DeviceNotFound, suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "dovetail.backends"
_LOOK = "Run 'dovetail devices' to see what is there."


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """Whether a backend can be used, and why not."""

    name: str
    available: bool
    reason: str = ""


@cache
def _points() -> dict[str, EntryPoint]:
    # Costs a quarter of the time budget of importing the runtime, so it waits until a backend is asked for.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def backend(name: str) -> Backend:
    """Return the backend of that name; raise DeviceNotFound with the reason when it cannot be had."""
    point = _points().get(name)
    if point is None:
        raise DeviceNotFound(f"backend '{name}' is not installed.", hint=suggestion(name, list(_points())))
    try:
        loaded: Backend = point.load()
        loaded.abilities()
    except Exception as error:
        # A plug-in is anybody's code; whatever stops it (a package or a native library that is missing) is its own.
        text = str(error).rstrip(".")
        # A plug-in that says what to run knows better than we do.
        hint = None if ": run '" in text else "Install the package that it needs."
        raise DeviceNotFound(f"backend '{name}' cannot be used: {text}.", hint=hint) from error
    return loaded


def backend_statuses() -> tuple[BackendStatus, ...]:
    """Return every installed backend with the reason why it cannot be used, where it cannot."""
    statuses: list[BackendStatus] = []
    for name in sorted(_points()):
        try:
            backend(name)
        except DeviceNotFound as error:
            statuses.append(BackendStatus(name, False, error.message))
        else:
            statuses.append(BackendStatus(name, True))
    return tuple(statuses)


def available_backends() -> tuple[Backend, ...]:
    """Return the backends that can be used."""
    return tuple(backend(status.name) for status in backend_statuses() if status.available)


@cache
def find_target(name: str) -> Target:
    """Return the target of that name; raise DeviceNotFound naming the nearest known one."""
    # A target mostly begins with the name of its backend; the others need not be loaded then.
    own = name.partition(":")[0]
    known: list[str] = []
    for point in sorted(_points(), key=lambda point: (point != own, point)):
        try:
            candidate = backend(point)
        except DeviceNotFound:
            continue
        found = target_of(candidate, name)
        if found is not None:
            return found
        known += [target.name for target in candidate.targets()]
    why = _why_missing(own, name, known)
    if why:
        raise DeviceNotFound(f"target '{name}' cannot be used here: {why}.", hint=_LOOK)
    bare, marked, precision = name.partition("@")
    if marked and bare in known:
        raise DeviceNotFound(
            f"'{name}' is a target and a precision, where a target alone is expected.",
            hint=f"Say '{bare}'; '{precision}' is said apart, as a placement or where a search begins.",
        )
    raise DeviceNotFound(f"target '{name}' is unknown.", hint=suggestion(name, sorted(set(known))))


def _why_missing(owner: str, name: str, known: list[str]) -> str:
    """Return why a target of a backend that is installed is not here; empty where the name itself is wrong.

    A backend that cannot be used is no reason where another one serves targets of the same prefix: those are known.
    """
    if owner not in _points():
        return ""
    try:
        owning = backend(owner)
    except DeviceNotFound as error:
        shared = any(target.startswith(f"{owner}:") for target in known)
        return "" if shared else error.message.rstrip(".")
    return _why_absent(owning, name)


def _why_absent(owner: Backend, name: str) -> str:
    """Return why a device that a backend knows of is not here; empty when the backend does not know it."""
    absent_devices = owner.abilities().absent_devices
    gone = () if absent_devices is None else absent_devices()
    # A device of several that a plug-in would list: openvino:GPU.1 of openvino:GPU.
    return next((item.reason.rstrip(".") for item in gone if name == item.name or name.startswith(f"{item.name}.")), "")


def target_of(owner: Backend, name: str) -> Target | None:
    """Return a backend's target of that name, listed or found by its own rules; None where it has none.

    Raises DeviceNotFound where the backend knows the name and cannot say which part is meant.
    """
    listed = next((target for target in owner.targets() if target.name == name), None)
    finder = owner.abilities().find_target
    return listed if listed is not None or finder is None else finder(name)


def known_targets() -> tuple[Target, ...]:
    """Return every target that some backend can compile for."""
    found = {target.name: target for one in available_backends() for target in one.targets()}
    return tuple(found[name] for name in sorted(found))


def backends_for(target: str) -> tuple[Backend, ...]:
    """Return the backends that can compile for a target."""
    return tuple(one for one in available_backends() if target_of(one, target) is not None)


def find_device(backend_name: str, target: str) -> Device:
    """Return a device of the backend that runs the target; raise DeviceNotFound when there is none."""
    owner = backend(backend_name)
    for device in owner.devices():
        if device.accepts(target):
            return device
    why = _why_absent(owner, target)
    raise DeviceNotFound(
        f"backend '{backend_name}' has no device for target '{target}'{': ' if why else ''}{why}.",
        hint=_LOOK,
    )
