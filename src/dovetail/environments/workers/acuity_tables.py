"""Quantise a network in Acuity as a table says, and tell what becomes of its tensors.

The request has `path` (an ONNX file), `table` (a .quantize file), `samples` to calibrate on and `runs` (both: for each
sample an .npy file for every input), `inputmeta` and the `lists` of files that it names, one for each input, and `base`
(quantiser and type of what the table leaves out).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BLOCK = "customized_quantize_layers"
_CONFLICT = re.compile(r"conflict to quantize tensor @(\S+?):out\d+")
_EMPTY_BLOCK = re.compile(rf"^{_BLOCK}:.*\n(?:[ \t]+.*\n)*", re.MULTILINE)


def convert(request: dict[str, Any], progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Write outputs.npz into the request's folder, and return the tensors' types and what Acuity could not do."""
    import numpy as np
    from acuitylib.vsi_nn import VSInn

    folder = Path(request["folder"])
    os.chdir(folder)
    progress("importing the network into Acuity", 0.2)
    acuity = VSInn()
    net = acuity.load_onnx(request["path"])
    # A list of files for every input, as the inputmeta names them: a line for every sample.
    for place, name in enumerate(request["lists"]):
        Path(name).write_text("".join(f"{files[place]}\n" for files in request["samples"]))
    Path("inputmeta.yml").write_text(request["inputmeta"])
    acuity.load_model_inputmeta(net, "inputmeta.yml")
    quantizer, qtype = request["base"]
    settings = {"quantizer": quantizer, "qtype": qtype, "iterations": len(request["samples"])}
    progress("quantising in Acuity", 0.4)
    low = acuity.quantize(net, rebuild=True, **settings)
    acuity.save_model_quantize(low, "base.quantize")
    block = _EMPTY_BLOCK.search(request["table"] + "\n")
    whole = Path("base.quantize").read_text()
    Path("asked.quantize").write_text(_EMPTY_BLOCK.sub("", whole) + (block.group(0) if block else ""))
    acuity.load_model_quantize(low, "asked.quantize")
    progress("making the hybrid network in Acuity", 0.6)
    mixed = acuity.quantize(low, hybrid=True, rebuild=False, **settings)
    acuity.save_model_quantize(mixed, "given.quantize")
    progress("running it in Acuity", 0.8)
    acuity.build_inference_session(mixed)
    arrays: dict[str, Any] = {}
    for number, files in enumerate(request["runs"]):
        _, outputs = acuity.run_inference_session([np.load(file) for file in files])
        arrays |= {f"{number}_{place}": np.asarray(value) for place, value in enumerate(outputs)}
    np.savez("outputs.npz", **arrays)
    log = Path("log.txt").read_text(errors="replace") if Path("log.txt").exists() else ""
    return {"table": "given.quantize", "outputs": "outputs.npz", "conflicts": sorted(set(_CONFLICT.findall(log)))}
