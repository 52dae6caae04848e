"""Vendors' SDKs on this machine: find, install, build, examine (standard library only)."""

from dovetail.sdk.doctor import Check, Health, examine
from dovetail.sdk.install import InstallRequest, install_verisilicon
from dovetail.sdk.location import Found, SdkFolder, find_verisilicon, installation_folder
from dovetail.sdk.pinned import VERISILICON, PinnedWheel

__all__ = [
    "VERISILICON",
    "Check",
    "Found",
    "Health",
    "InstallRequest",
    "PinnedWheel",
    "SdkFolder",
    "examine",
    "find_verisilicon",
    "install_verisilicon",
    "installation_folder",
]
