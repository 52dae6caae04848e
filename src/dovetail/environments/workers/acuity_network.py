"""Import an ONNX file into Acuity and write the network that pegasus writes: layers under names of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def convert(request: dict[str, Any], progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Write network.json into the request's folder."""
    os.chdir(request["folder"])
    from acuitylib.vsi_nn import VSInn

    progress("importing the network into Acuity", 0.3)
    acuity = VSInn()
    acuity.save_model(acuity.load_onnx(request["path"]), "network.json")
    return {"network": "network.json"}
