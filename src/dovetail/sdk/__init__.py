"""Vendors' SDKs on this machine: find, install, build, examine; the self-test alone needs numpy.

A board looks for one only: what installs and examines it is loaded when it is asked for.
"""

import typing as _typing

from dovetail._lazy import exports as _exports

if _typing.TYPE_CHECKING:
    from dovetail.sdk.doctor import Check as Check
    from dovetail.sdk.doctor import Health as Health
    from dovetail.sdk.doctor import examine as examine
    from dovetail.sdk.install import InstallRequest as InstallRequest
    from dovetail.sdk.install import install_verisilicon as install_verisilicon
    from dovetail.sdk.location import SdkFolder as SdkFolder
    from dovetail.sdk.location import SdkState as SdkState
    from dovetail.sdk.location import find_verisilicon as find_verisilicon
    from dovetail.sdk.location import installation_folder as installation_folder
    from dovetail.sdk.parts import part_pid as part_pid
    from dovetail.sdk.parts import simulated_parts as simulated_parts
    from dovetail.sdk.pinned import VERISILICON as VERISILICON
    from dovetail.sdk.pinned import WHEELS as WHEELS
    from dovetail.sdk.pinned import PinnedWheel as PinnedWheel
    from dovetail.sdk.selftest import self_test as self_test

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = _exports(
        __name__,
        {
            "dovetail.sdk.doctor": (
                "Check",
                "Health",
                "examine",
            ),
            "dovetail.sdk.install": (
                "InstallRequest",
                "install_verisilicon",
            ),
            "dovetail.sdk.location": (
                "SdkFolder",
                "SdkState",
                "find_verisilicon",
                "installation_folder",
            ),
            "dovetail.sdk.parts": (
                "part_pid",
                "simulated_parts",
            ),
            "dovetail.sdk.pinned": (
                "VERISILICON",
                "WHEELS",
                "PinnedWheel",
            ),
            "dovetail.sdk.selftest": ("self_test",),
        },
    )
