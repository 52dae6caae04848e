"""Install VeriSilicon's SDK for this user: download, check, unpack, build, test."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.sdk.build import build_shim, find_compiler, mark_shim, shim_is_current
from dovetail.sdk.download import Progress, check_wheel, download_wheel, file_sha256
from dovetail.sdk.extract import extract_sdk
from dovetail.sdk.location import VERSION_VARIABLE, SdkFolder, installation_folder, verisilicon_folder
from dovetail.sdk.pinned import LICENCE_NOTE, VERISILICON, PinnedWheel

RECORD = "installed.json"
SPACE_BYTES = 800 << 20
"""Wheel, archive and SDK together while installing."""


def _silent(_what: str, _share: float) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """What to install: from a file that is here, or by download; `again` does it even where it is done."""

    source: Path | None = None
    again: bool = False
    wheel: PinnedWheel = VERISILICON
    progress: Progress = _silent
    self_test: Callable[[], str] | None = None
    """Runs one graph on what was installed and returns what it saw; raises DovetailError."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What an installation did: `steps` is empty where everything was there already."""

    folder: SdkFolder
    steps: tuple[str, ...]
    self_test: str
    note: str = LICENCE_NOTE


def install_verisilicon(request: InstallRequest) -> Installed:
    """Make the SDK usable and return what was done; raise DovetailError where something is missing or wrong."""
    _check_machine()
    folder = verisilicon_folder({**os.environ, VERSION_VARIABLE: request.wheel.version})
    steps: list[str] = []
    if folder.chosen_by == "VIVANTE_SDK_DIR":
        if not folder.has_sdk:
            raise DovetailError(
                f"VIVANTE_SDK_DIR={folder.sdk} is no SDK: there is no {folder.missing[0]}.",
                hint="Point it at the folder with include and lib, or unset it to download the simulator's SDK.",
            )
        steps.append(f"using the SDK of VIVANTE_SDK_DIR ({folder.sdk})")
    elif request.again or not _is_installed(request.wheel):
        find_compiler()
        steps.extend(_fetch(request, installation_folder(version=request.wheel.version)))
    if not folder.has_sdk:
        raise DovetailError(
            f"there is no {folder.missing[0]}.",
            hint="TIM_VX_INSTALL_DIR is a folder with include/tim and lib/libtim-vx.so; unset it to use ovxlib.",
        )
    if request.again or not shim_is_current(folder):
        request.progress("building the shim", 0.0)
        build_shim(folder)
        mark_shim(folder)
        steps.append("built the shim")
    changed = any(not step.startswith("using") for step in steps)
    seen = ""
    if changed and request.self_test is not None:
        request.progress("testing", 0.0)
        seen = request.self_test()
        steps.append("ran one graph on the simulator")
    return Installed(folder, tuple(steps) if changed else (), seen)


def _is_installed(wheel: PinnedWheel) -> bool:
    variables = {"VIVANTE_SDK_DIR": "", "TIM_VX_INSTALL_DIR": "", VERSION_VARIABLE: wheel.version}
    return verisilicon_folder({**os.environ, **variables}).has_sdk


def _check_machine() -> None:
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64") and not os.environ.get("VIVANTE_SDK_DIR"):
        raise DovetailError(
            f"the simulator's SDK is for Linux on x86-64; this is {system} on {machine}.",
            hint="Set VIVANTE_SDK_DIR to your board's SDK to build against it.",
        )
    if sys.byteorder != "little":
        raise DovetailError("VeriSilicon's SDKs are for little-endian machines.")


def _fetch(request: InstallRequest, target: Path) -> list[str]:
    """Fill the installation folder; it appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(target.parent).free
    if free < SPACE_BYTES:
        raise DovetailError(
            f"{target.parent} has {free >> 20} MiB free; the installation needs {SPACE_BYTES >> 20} MiB.",
            hint="Free some space, or set XDG_DATA_HOME to a folder on another disc.",
        )
    steps: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=target.parent) as scratch_name:
        scratch = Path(scratch_name)
        source = request.source
        if source is None:
            request.progress(f"downloading {request.wheel.requirement}", 0.0)
            source = download_wheel(request.wheel, scratch, request.progress)
            steps.append(f"downloaded {request.wheel.requirement} ({source.stat().st_size / 1e6:.0f} MB)")
            # What fails the check is removed with the folder that it lies in.
            check_wheel(request.wheel, source, request.progress)
            steps.append("checked its SHA-256")
        else:
            steps.extend(_check_given(request, source))
        request.progress("unpacking", 0.0)
        folder = scratch / "made"
        extract_sdk(request.wheel, source, folder / "sdk")
        record = {"package": request.wheel.requirement, "source": "index" if request.source is None else "file"}
        (folder / RECORD).write_text(json.dumps(record) + "\n")
        if target.exists():
            shutil.rmtree(target)
        folder.replace(target)
        steps.append(f"kept the SDK in {target} and removed the download")
    return steps


def _check_given(request: InstallRequest, source: Path) -> list[str]:
    if not source.is_file():
        raise DovetailError(f"{source} is not a file.", hint="Give the wheel, or the vsi_sdk.tar.gz inside it.")
    if source.suffix == ".whl":
        check_wheel(request.wheel, source, request.progress)
        return [f"checked the SHA-256 of {source.name}"]
    # The archive inside the wheel is one that people keep by itself; its origin is for them to know.
    return [f"took {source.name} as given (SHA-256 {file_sha256(source)})"]
