"""Vendors' SDKs on this machine: find, install, build, examine; the self-test alone needs numpy."""

from dovetail.sdk.doctor import Check, Health, examine
from dovetail.sdk.install import InstallRequest, install_verisilicon
from dovetail.sdk.location import SdkFolder, SdkState, find_verisilicon, installation_folder
from dovetail.sdk.parts import part_pid, simulated_parts
from dovetail.sdk.pinned import VERISILICON, WHEELS, PinnedWheel
from dovetail.sdk.selftest import self_test

__all__ = [
    "VERISILICON",
    "WHEELS",
    "Check",
    "Health",
    "InstallRequest",
    "PinnedWheel",
    "SdkFolder",
    "SdkState",
    "examine",
    "find_verisilicon",
    "install_verisilicon",
    "installation_folder",
    "part_pid",
    "self_test",
    "simulated_parts",
]
