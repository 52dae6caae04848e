"""Where SDKs lie on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dovetail.sdk.pinned import VERISILICON

SHIM_NAME = "libdovetail_vsi.so"
_HEADER = Path("include/ovxlib/vsi_nn_pub.h")
_LIBRARY = Path("lib/libovxlib.so")
_DRIVER = Path("lib/libOpenVX.so")
_SHADERS = Path("include/CL/cl_viv_vx_ext.h")
_TIMVX_HEADER = Path("include/tim/vx/graph.h")
_TIMVX_LIBRARY = Path("lib/libtim-vx.so")
FAILURES_VARIABLE = "DOVETAIL_FAILURES"
"""Names the folder of what compilers were seen to crash or hang on."""
VERSION_VARIABLE = "DOVETAIL_VSI_SDK"
"""Chooses among the installed versions of the SDK."""


@dataclass(frozen=True, slots=True)
class SdkFolder:
    """A place for an SDK: its headers and libraries, and beside them what we built."""

    sdk: Path
    shim: Path
    chosen_by: str
    timvx: Path | None = None
    """Where TIM-VX is installed; the shim then stands on it, and not on ovxlib."""

    @property
    def has_sdk(self) -> bool:
        """Tell whether headers, library and the headers of shader kernels are there."""
        return not self.missing

    @property
    def version(self) -> str:
        """Return the version in the name of the SDK's folder, or the folder's name."""
        name = self.sdk.name if self.sdk.name != "sdk" else self.sdk.parent.name
        return name.removeprefix("verisilicon-")

    @property
    def missing(self) -> tuple[Path, ...]:
        """Return the files that an SDK has and this folder has not."""
        files = [self.sdk / _SHADERS]
        if self.timvx is None:
            files += [self.sdk / _HEADER, self.sdk / _LIBRARY]
        else:
            files += [self.sdk / _DRIVER, self.timvx / _TIMVX_HEADER, self.timvx / _TIMVX_LIBRARY]
        return tuple(path for path in files if not path.is_file())

    @property
    def library(self) -> Path:
        """Return the library that the shim stands on."""
        return self.sdk / _LIBRARY if self.timvx is None else self.timvx / _TIMVX_LIBRARY

    @property
    def libraries(self) -> tuple[Path, ...]:
        """Return the folders of shared libraries that a worker needs."""
        found = [self.sdk / "lib", *([self.timvx / "lib"] if self.timvx else []), self.shim.parent]
        return tuple(dict.fromkeys(found))

    @property
    def has_shim(self) -> bool:
        """Tell whether the shim has been built."""
        return self.shim.is_file()


@dataclass(frozen=True, slots=True)
class SdkState:
    """Whether an SDK can be used; `reason` says what is missing where it cannot."""

    folder: SdkFolder
    reason: str = ""

    @property
    def usable(self) -> bool:
        """Tell whether SDK and shim are there."""
        return not self.reason


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's data folder for Dovetail (XDG base directory specification)."""
    variables = os.environ if environment is None else environment
    stated = variables.get("XDG_DATA_HOME", "")
    # The specification says that relative paths must be ignored.
    base = Path(stated) if stated and Path(stated).is_absolute() else Path(variables.get("HOME", "~")).expanduser()
    return (base if stated and Path(stated).is_absolute() else base / ".local" / "share") / "dovetail"


def failures_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of what compilers were seen to crash or hang on: DOVETAIL_FAILURES, or in the data folder."""
    variables = os.environ if environment is None else environment
    given = variables.get(FAILURES_VARIABLE, "")
    return Path(given).expanduser() if given else data_folder(variables) / "failures"


def installation_folder(environment: Mapping[str, str] | None = None, version: str = "") -> Path:
    """Return the folder that `dovetail sdk install verisilicon` fills; by default of the chosen version."""
    variables = os.environ if environment is None else environment
    chosen = version or variables.get(VERSION_VARIABLE, "") or VERISILICON.version
    # A name, never a path.
    return data_folder(environment) / "sdk" / f"verisilicon-{Path(chosen).name or VERISILICON.version}"


def verisilicon_folder(environment: Mapping[str, str] | None = None) -> SdkFolder:
    """Return the place of the SDK: VIVANTE_SDK_DIR where it is set, else the user's data folder.

    With TIM_VX_INSTALL_DIR the shim stands on that TIM-VX.
    """
    variables = os.environ if environment is None else environment
    given, above = variables.get("VIVANTE_SDK_DIR", ""), variables.get("TIM_VX_INSTALL_DIR", "")
    timvx = Path(above).expanduser().absolute() if above else None
    folder = installation_folder(variables)
    if not given and timvx is None:
        return SdkFolder(folder / "sdk", folder / SHIM_NAME, "dovetail sdk install verisilicon")
    sdk = Path(given).expanduser().absolute() if given else folder / "sdk"
    shim = data_folder(variables) / "sdk" / "shims" / fingerprint(sdk, timvx) / SHIM_NAME
    return SdkFolder(sdk, shim, "VIVANTE_SDK_DIR" if given else "TIM_VX_INSTALL_DIR", timvx)


def fingerprint(sdk: Path, timvx: Path | None = None) -> str:
    """Return 16 hexadecimal digits of the contents that an SDK's results and our shim depend on, wherever it lies.

    These are its libraries and the header that the shim is compiled against, and those of TIM-VX above it.
    """
    files = [sdk / _HEADER, *(sdk / "lib").glob("*.so*")]
    if timvx is not None:
        files += [timvx / _TIMVX_HEADER, timvx / _TIMVX_LIBRARY]
    lines: list[str] = []
    for path in sorted(files):
        if path.is_file() and not path.is_symlink():
            facts = path.stat()
            lines.append(f"{path.name} {_content(path, facts.st_size, facts.st_mtime_ns)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@cache
def _content(path: Path, size_bytes: int, changed_ns: int) -> str:
    """Return the SHA-256 of a file, read again only when its size or its time of change are others."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_verisilicon(environment: Mapping[str, str] | None = None) -> SdkState:
    """Return the SDK, with what is missing where it cannot be used."""
    folder = verisilicon_folder(environment)
    if not folder.has_sdk:
        where = f"VIVANTE_SDK_DIR={folder.sdk}" if folder.chosen_by == "VIVANTE_SDK_DIR" else str(folder.sdk)
        library = "ovxlib" if folder.timvx is None else f"TIM-VX in TIM_VX_INSTALL_DIR={folder.timvx}, or no driver"
        return SdkState(folder, f"the VeriSilicon SDK is not installed (no {library} at {where})")
    if not folder.has_shim:
        return SdkState(folder, f"the shim is not built (no {folder.shim})")
    return SdkState(folder)
