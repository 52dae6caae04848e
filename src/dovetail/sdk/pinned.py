"""The packages that the installer downloads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A file of the package index by version, interpreter and checksum."""

    package: str
    version: str
    python: str
    platform: str
    sha256: str
    size_bytes: int
    archive: str
    """The member of the wheel that holds the SDK."""
    sdk_folder: str
    """The folder of the archive that is kept."""
    has_timvx: bool = False
    """Whether its TIM-VX fits its driver; that of a later package is left over from an earlier one."""

    @property
    def requirement(self) -> str:
        """Return what pip is asked for."""
        return f"{self.package}=={self.version}"


VERISILICON = PinnedWheel(
    package="acuitylite",
    version="6.57.1",
    python="3.10",
    platform="manylinux2010_x86_64",
    sha256="bc687bc67aa475e97f174dfa7bbbab05c1872ed116f5954810da858ce72c99b8",
    size_bytes=246_671_312,
    archive="acuitylib/vsi_sdk.tar.gz",
    sdk_folder="vsi_sdk/prebuilt-sdk/x86_64_linux",
)

OLDER = PinnedWheel(
    package="acuitylite",
    version="6.42.0",
    python="3.10",
    platform="manylinux2010_x86_64",
    sha256="fe52aa25572dda003087383489085f7b0a4b154b85dcadf89da213a9dc762599",
    size_bytes=188_744_129,
    archive="acuitylib/vsi_sdk.tar.gz",
    sdk_folder="vsi_sdk/prebuilt-sdk/x86_64_linux",
    has_timvx=True,
)
"""Binary networks for older drivers, which refuse those of a later SDK; and TIM-VX on the simulator."""

WHEELS = {wheel.version: wheel for wheel in (VERISILICON, OLDER)}

LICENCE_NOTE = (
    "The SDK comes from VeriSilicon's package acuitylite. Its repository is under the MIT licence; nothing separate "
    "covers the binaries inside: keep them on this machine and do not redistribute them."
)
