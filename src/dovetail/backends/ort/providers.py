"""Execution providers: which there are, and how a session gets one.

`DOVETAIL_ORT_PLUGINS` registers plug-in libraries: `OpenVINOExecutionProvider=/opt/lib/libonnxruntime_ep.so`. Packages
that tell the path of their library are found by themselves.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import onnxruntime

from dovetail.backend.protocols import AbsentDevice
from dovetail.backends.wording import first_line
from dovetail.ir.precision import Precision

PLUGINS_VARIABLE = "DOVETAIL_ORT_PLUGINS"
CPU = "CPUExecutionProvider"
_PACKAGES = {"OpenVINOExecutionProvider": "onnxruntime_ep_openvino", "CUDAExecutionProvider": "onnxruntime_ep_cuda"}
_REMOTE = "AzureExecutionProvider"
"""It calls a service; nothing is computed on a device."""
_SUFFIX = "ExecutionProvider"
_CPU_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8PC, Precision.FP32)


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider: `ep` is ONNX Runtime's name for it, `kind` the hardware where a plug-in offers several.

    `options` go to the provider; `mark` changes with provider and driver. `compiles` tells that it writes its compiled
    form into EPContext nodes.
    """

    name: str
    title: str
    ep: str
    kind: str = ""
    plugin: bool = False
    options: tuple[tuple[str, str], ...] = ()
    mark: str = ""
    compiles: bool = False
    precisions: tuple[Precision, ...] = (Precision.U8, Precision.I8PC, Precision.FP16, Precision.FP32)

    @property
    def is_cpu(self) -> bool:
        """Tell whether it is ONNX Runtime's own CPU provider."""
        return self.ep == CPU

    def attach(self, options: onnxruntime.SessionOptions, properties: Mapping[str, str]) -> list[str] | None:
        """Add the provider to a session's options; nothing may run elsewhere."""
        settings = {**dict(self.options), **properties}
        if not self.is_cpu:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if self.plugin:
            options.add_provider_for_devices(list(_handles(self.ep, self.kind)), settings)
            return None
        if settings:
            options.add_provider(self.ep, settings)
            return None
        return [self.ep]


def _handles(ep: str, kind: str) -> list[onnxruntime.OrtEpDevice]:
    return [one for one in onnxruntime.get_ep_devices() if one.ep_name == ep and kind in ("", _kind(one))]


def _kind(device: onnxruntime.OrtEpDevice) -> str:
    return str(device.device.type).rpartition(".")[2]


@cache
def _failures() -> dict[str, str]:
    """Register every plug-in library that is named or found; return why the others could not be."""
    failed: dict[str, str] = {}
    for name, library in _libraries(failed).items():
        failure = register(name, library)
        if failure:
            failed[name] = failure
    return failed


def _libraries(failed: dict[str, str]) -> dict[str, str]:
    libraries: dict[str, str] = {}
    for name, package in _PACKAGES.items():
        if importlib.util.find_spec(package) is not None:
            try:
                libraries[name] = str(importlib.import_module(package).get_library_path())
            except Exception as error:
                # The package is anybody's code.
                failed[name] = first_line(error)
    for item in os.environ.get(PLUGINS_VARIABLE, "").split(","):
        name, sign, library = item.strip().partition("=")
        if sign and name and library:
            libraries[name] = library
    return libraries


@cache
def register(name: str, library: str) -> str:
    """Register a plug-in library once; return why it cannot be, or nothing."""
    if not hasattr(onnxruntime, "register_execution_provider_library"):
        return f"ONNX Runtime {onnxruntime.__version__} has no plug-in providers: install 1.23 or newer"
    if not os.path.isfile(library):
        return f"{library}: no such file"
    try:
        onnxruntime.register_execution_provider_library(name, library)
    except Exception as error:
        return first_line(error).rstrip(".")
    return ""


@cache
def present_providers() -> tuple[Provider, ...]:
    """Return the providers that can run something here; ONNX Runtime's own CPU provider is the first."""
    _failures()
    providers = [_builtin(name) for name in onnxruntime.get_available_providers() if name not in (_REMOTE, CPU)]
    plugins = onnxruntime.get_ep_devices() if hasattr(onnxruntime, "get_ep_devices") else []
    many: dict[str, set[str]] = {}
    for provider in plugins:
        many.setdefault(provider.ep_name, set()).add(_kind(provider))
    for provider in plugins:
        if provider.ep_name.removesuffix(_SUFFIX) == "QNN" or not provider.ep_metadata.get("library_path"):
            # QNN has a backend of its own: each generation of the hardware is a target. Built-in ones are above.
            continue
        kind = _kind(provider) if len(many[provider.ep_name]) > 1 else ""
        mark = f"{provider.ep_name} {provider.ep_metadata.get('version', '')}; {provider.device.vendor}"
        short = ".".join(filter(None, (provider.ep_name.removesuffix(_SUFFIX), kind)))
        title = f"{provider.ep_vendor} {provider.ep_name}"
        providers.append(Provider(short, title, provider.ep_name, kind, plugin=True, mark=mark, compiles=True))
    unique = {provider.name: provider for provider in (_builtin(CPU), *providers)}
    return tuple(unique.values())


def _builtin(name: str) -> Provider:
    made = Provider(name.removesuffix(_SUFFIX), f"ONNX Runtime's {name}", name, mark=onnxruntime.__version__)
    return replace(made, precisions=_CPU_PRECISIONS) if name == CPU else made


def absent_providers() -> tuple[AbsentDevice, ...]:
    """Return the plug-ins that were asked for and do not load, with the reason."""
    return tuple(AbsentDevice(f"ort:{name.removesuffix(_SUFFIX)}", why) for name, why in _failures().items())
