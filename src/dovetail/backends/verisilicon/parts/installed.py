"""Targets by any of their names, those of an installed SDK's simulator too."""

from __future__ import annotations

from dovetail.backends.verisilicon.parts.named import vsi_profile
from dovetail.backends.verisilicon.parts.part import VsiProfile
from dovetail.sdk.location import verisilicon_folder
from dovetail.sdk.parts import simulated_parts


def simulated_profile(name: str) -> VsiProfile | None:
    """Return a VeriSilicon target by any of its names; those of an installed SDK's simulator are known too.

    Raises DeviceNotFound where a name or a product id fits no part, or several.
    """
    folder = verisilicon_folder()
    return vsi_profile(name, simulated_parts(folder.sdk) if folder.has_sdk else ())
