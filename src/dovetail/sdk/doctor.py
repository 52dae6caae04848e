"""Say what is here, what is missing, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path

from dovetail.backend.arithmetic import Accumulator
from dovetail.backend.registry import backend_statuses, find_target
from dovetail.errors import DovetailError
from dovetail.sdk.build import find_compiler, native_sources, shim_is_current
from dovetail.sdk.location import data_folder, find_verisilicon, verisilicon_folder

_PACKAGES = (
    *("dovetail", "numpy", "onnx", "onnxruntime", "scipy", "openvino", "ai-edge-litert", "onnxruntime-qnn"),
    *("dask", "grpcio", "Pillow"),
)
"""What answers depend on, where it is installed."""


class Health(Enum):
    """How a check ended."""

    GOOD = "good"
    MISSING = "missing"
    """Something optional is not there."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was found, and what to do where something is missing."""

    name: str
    health: Health
    found: str
    advice: str = ""


def examine(self_test: Callable[[], str] | None = None) -> tuple[Check, ...]:
    """Look at everything that a VeriSilicon target needs on this machine; with a test, run it too."""
    checks = [
        _machine(),
        _versions(),
        _processor(),
        _data(),
        _compiler(),
        _cmake(),
        _sources(),
        _sdk(),
        _shim(),
        _shared_memory(),
        *_backends(),
    ]
    checks.append(_onnx_runtime())
    if self_test is not None and find_verisilicon().usable:
        checks.append(_tested(self_test))
    return tuple(checks)


def _machine() -> Check:
    machine = f"{platform.system()} on {platform.machine()}, Python {platform.python_version()}"
    good = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    advice = (
        "" if good else "The simulator runs on Linux on x86-64 only; elsewhere set VIVANTE_SDK_DIR to a board's SDK."
    )
    return Check("machine", Health.GOOD if good else Health.MISSING, machine, advice)


def _versions() -> Check:
    """Return the versions of the packages that answers depend on."""
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return Check("versions", Health.GOOD, ", ".join(found))


def _processor() -> Check:
    """Return how many processors there are, and which of the instructions that integer kernels use."""
    known = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8", "asimddp", "i8mm", "sve")
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    words = next((set(line.split()) for line in lines if line.startswith(("flags", "Features"))), set())
    form = " ".join(word for word in known if word in words) or "no instructions for integer products are listed"
    return Check("processor", Health.GOOD, f"{os.cpu_count() or 1} processors; {form}")


def _data() -> Check:
    folder = data_folder()
    place = folder
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        return Check(
            "data folder", Health.BROKEN, f"{folder} cannot be written", "Set XDG_DATA_HOME to a folder of yours."
        )
    free = shutil.disk_usage(place).free
    return Check("data folder", Health.GOOD, f"{folder}, {free / 1e9:.1f} GB free")


def _compiler() -> Check:
    try:
        return Check("C++ compiler", Health.GOOD, find_compiler())
    except DovetailError as error:
        return Check("C++ compiler", Health.MISSING, error.message, error.hint or "")


def _cmake() -> Check:
    found = shutil.which("cmake")
    if found:
        return Check("CMake", Health.GOOD, found)
    return Check("CMake", Health.MISSING, "not on the PATH", "Not needed: the compiler is called directly.")


def _sources() -> Check:
    try:
        return Check("shim sources", Health.GOOD, str(native_sources()))
    except DovetailError as error:
        return Check("shim sources", Health.BROKEN, error.message, error.hint or "")


def _sdk() -> Check:
    folder = verisilicon_folder()
    if folder.has_sdk:
        above = f", TIM-VX in {folder.timvx}" if folder.timvx else ""
        return Check("VeriSilicon SDK", Health.GOOD, f"{folder.sdk} (by {folder.chosen_by}){above}")
    if folder.chosen_by == "VIVANTE_SDK_DIR":
        advice = "Point VIVANTE_SDK_DIR at the folder with include and lib, or unset it."
        return Check("VeriSilicon SDK", Health.BROKEN, f"VIVANTE_SDK_DIR: there is no {folder.missing[0]}", advice)
    if folder.timvx is not None:
        advice = "TIM_VX_INSTALL_DIR is a folder with include/tim and lib/libtim-vx.so; unset it to use ovxlib."
        return Check("VeriSilicon SDK", Health.BROKEN, f"there is no {folder.missing[0]}", advice)
    return Check("VeriSilicon SDK", Health.MISSING, "not installed", "Run 'dovetail sdk install verisilicon'.")


def _shim() -> Check:
    folder = verisilicon_folder()
    if folder.has_shim and not shim_is_current(folder):
        return Check(
            "shim", Health.BROKEN, f"{folder.shim} is of another version", "Run 'dovetail sdk install verisilicon'."
        )
    if folder.has_shim:
        return Check("shim", Health.GOOD, str(folder.shim))
    return Check("shim", Health.MISSING, "not built", "Run 'dovetail sdk install verisilicon'.")


def _shared_memory() -> Check:
    if hasattr(os, "memfd_create"):
        return Check("shared memory", Health.GOOD, "memfd_create")
    return Check(
        "shared memory", Health.BROKEN, "this Python has no memfd_create", "Use Python 3.11 or newer on Linux."
    )


def _backends() -> list[Check]:
    return [
        Check(f"backend {status.name}", Health.GOOD, "usable")
        if status.available
        else Check(f"backend {status.name}", Health.MISSING, status.reason, _command(status.reason))
        for status in backend_statuses()
    ]


def _command(reason: str) -> str:
    """Return the command in a reason that mends it, or nothing."""
    _, found, command = reason.partition("pip install ")
    return f"{found}{command}".rstrip(".")


def _onnx_runtime() -> Check:
    """Return which form the rules of ONNX Runtime have on this processor."""
    try:
        rules = find_target("reference:ort")
    except DovetailError as error:
        return Check("ONNX Runtime's rules", Health.MISSING, error.message, error.hint or "")
    sums = "saturate in pairs" if rules.arithmetic.accumulator is Accumulator.PAIRS else "are exact"
    return Check("ONNX Runtime's rules", Health.GOOD, f"{rules.name}: sums of uint8 by int8 {sums} on this processor")


def _tested(self_test: Callable[[], str]) -> Check:
    try:
        return Check("self-test", Health.GOOD, self_test())
    except DovetailError as error:
        return Check("self-test", Health.BROKEN, error.message, error.hint or "")
