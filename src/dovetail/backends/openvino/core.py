"""The one `openvino.Core` of this process, and the devices that it has.

`DOVETAIL_OPENVINO_PLUGINS` registers more plug-ins: `CPUA=openvino_intel_cpu_plugin,NPUX=/opt/lib/libnpux.so`. The
same library under two names gives two devices. OpenVINO wants `CPU` in the name of its CPU plug-in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

import openvino

from dovetail.backend.protocols import AbsentDevice

PLUGINS_VARIABLE = "DOVETAIL_OPENVINO_PLUGINS"
_KNOWN = ("CPU", "GPU", "NPU")
"""What the package registers; AUTO, MULTI, BATCH and HETERO choose among these, which is our task."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What OpenVINO says of a device; `mark` changes with the hardware and with its driver."""

    name: str
    title: str
    capabilities: frozenset[str]
    mark: str

    @property
    def is_cpu(self) -> bool:
        """Tell whether it is the CPU plug-in, by whatever name."""
        return "CPU" in self.name


@cache
def core() -> openvino.Core:
    """Return the core, with the plug-ins of the environment registered."""
    core = openvino.Core()
    for name, library in _plugins():
        core.register_plugin(library, name)
    return core


def _plugins() -> list[tuple[str, str]]:
    plugins: list[tuple[str, str]] = []
    for item in os.environ.get(PLUGINS_VARIABLE, "").split(","):
        name, sign, library = item.strip().partition("=")
        if sign and name and library:
            plugins.append((name, library))
    return plugins


def register_plugin(name: str, library: str) -> None:
    """Give this process one more device: a plug-in library under a name of its own; a second call does nothing."""
    if name not in {facts.name for facts in present_devices()}:
        core().register_plugin(library, name)
        for cached in (present_devices, missing_devices):
            cached.cache_clear()


@cache
def device_facts(name: str) -> DeviceFacts:
    """Return what a device says of itself; whatever OpenVINO raises passes through."""
    title = str(core().get_property(name, "FULL_DEVICE_NAME"))
    capabilities = frozenset(str(item) for item in core().get_property(name, "OPTIMIZATION_CAPABILITIES"))
    versions = core().get_versions(name)
    build = next(iter(versions.values())).build_number if versions else ""
    return DeviceFacts(name, title, capabilities, "; ".join((title, str(build), *_driver(name))))


def _driver(name: str) -> tuple[str, ...]:
    """Return the version of the driver, where the device has one."""
    for key in ("NPU_DRIVER_VERSION", "GPU_DRIVER_VERSION"):
        try:
            return (f"driver {core().get_property(name, key)}",)
        except Exception:
            # Every plug-in refuses the other ones' properties, each with an error of its own.
            continue
    return ()


@cache
def present_devices() -> tuple[DeviceFacts, ...]:
    """Return the devices that can run something now."""
    return tuple(device_facts(name) for name in core().available_devices)


@cache
def missing_devices() -> tuple[AbsentDevice, ...]:
    """Return the plug-ins that have no device here, with OpenVINO's reason."""
    present = {facts.name.partition(".")[0] for facts in present_devices()}
    names = dict.fromkeys((*_KNOWN, *(name for name, _ in _plugins())))
    return tuple(AbsentDevice(f"openvino:{name}", _why_missing(name)) for name in names if name not in present)


def _why_missing(name: str) -> str:
    try:
        core().get_property(name, "AVAILABLE_DEVICES")
    except Exception as error:
        return reason(error)
    return "its plug-in loads and finds no device or no driver"


def reason(error: Exception) -> str:
    """Return the last line of what OpenVINO raised that says more than where in its sources."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return (telling or [line for line in lines if line] or [type(error).__name__])[-1].rstrip(".")
