"""Where SDKs lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail.sdk.pinned import VERISILICON

SHIM_NAME = "libdovetail_vsi.so"
_HEADER = Path("include/ovxlib/vsi_nn_pub.h")
_LIBRARY = Path("lib/libovxlib.so")
_SHADERS = Path("include/CL/cl_viv_vx_ext.h")


@dataclass(frozen=True, slots=True)
class SdkFolder:
    """A place for an SDK: its headers and libraries, and beside them what we built."""

    sdk: Path
    shim: Path
    chosen_by: str

    @property
    def has_sdk(self) -> bool:
        """Tell whether headers, library and the headers of shader kernels are there."""
        return all((self.sdk / name).is_file() for name in (_HEADER, _LIBRARY, _SHADERS))

    @property
    def has_shim(self) -> bool:
        """Tell whether the shim has been built."""
        return self.shim.is_file()


@dataclass(frozen=True, slots=True)
class Found:
    """Say whether an SDK can be used; `reason` says what is missing where it cannot."""

    folder: SdkFolder
    reason: str = ""

    @property
    def usable(self) -> bool:
        """Tell whether SDK and shim are there."""
        return not self.reason


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's data folder for Dovetail (XDG base directory specification)."""
    variables = os.environ if environment is None else environment
    given = variables.get("XDG_DATA_HOME", "")
    # The specification says that relative paths must be ignored.
    base = Path(given) if given and Path(given).is_absolute() else Path(variables.get("HOME", "~")).expanduser()
    return (base if given and Path(given).is_absolute() else base / ".local" / "share") / "dovetail"


def installation_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder that `dovetail sdk install verisilicon` fills."""
    return data_folder(environment) / "sdk" / f"verisilicon-{VERISILICON.version}"


def verisilicon_folder(environment: Mapping[str, str] | None = None) -> SdkFolder:
    """Return the place of the SDK: VIVANTE_SDK_DIR where it is set, else the user's data folder."""
    variables = os.environ if environment is None else environment
    given = variables.get("VIVANTE_SDK_DIR", "")
    if given:
        sdk = Path(given).expanduser().absolute()
        shim = data_folder(variables) / "sdk" / "shims" / _fingerprint(sdk) / SHIM_NAME
        return SdkFolder(sdk, shim, "VIVANTE_SDK_DIR")
    folder = installation_folder(variables)
    return SdkFolder(folder / "sdk", folder / SHIM_NAME, "dovetail sdk install verisilicon")


def _fingerprint(sdk: Path) -> str:
    """Return a name for the shim of one SDK: it is tied to that SDK's headers."""
    import hashlib

    text = str(sdk).encode()
    for name in (_LIBRARY, _HEADER):
        path = sdk / name
        if path.is_file():
            facts = path.stat()
            text += f"{facts.st_size} {facts.st_mtime_ns}".encode()
    return hashlib.sha256(text).hexdigest()[:16]


def find_verisilicon(environment: Mapping[str, str] | None = None) -> Found:
    """Return the SDK, with what is missing where it cannot be used."""
    folder = verisilicon_folder(environment)
    if not folder.has_sdk:
        where = f"VIVANTE_SDK_DIR={folder.sdk}" if folder.chosen_by == "VIVANTE_SDK_DIR" else str(folder.sdk)
        return Found(folder, f"the VeriSilicon SDK is not installed (no ovxlib at {where})")
    if not folder.has_shim:
        return Found(folder, f"the shim is not built (no {folder.shim})")
    return Found(folder)
