"""One provider for each generation of Hexagon: the same plug-in with other options."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache

import onnxruntime

from dovetail.backends.ort.providers import Provider, register
from dovetail.ir.precision import Precision

_NAME = "QNN"
_PRECISIONS = (Precision.U8, Precision.I8PC, Precision.FP16)
"""Float32 is left out: the NPU would compute it in float16."""


@dataclass(frozen=True, slots=True)
class HexagonGeneration:
    """A generation, QNN's number for one of its chips, and what is known by that name."""

    arch: str
    soc: str
    title: str


GENERATIONS = (
    HexagonGeneration("68", "30", "Hexagon v68 (Snapdragon 888)"),
    HexagonGeneration("73", "43", "Hexagon v73 (Snapdragon 8 Gen 2)"),
    HexagonGeneration("75", "57", "Hexagon v75 (Snapdragon 8 Gen 3)"),
    HexagonGeneration("79", "69", "Hexagon v79 (Snapdragon 8 Elite)"),
    HexagonGeneration("81", "87", "Hexagon v81 (Snapdragon 8 Elite Gen 5)"),
)


@cache
def hexagon_providers() -> tuple[Provider, ...]:
    """Return a provider for every generation; raise ImportError when the plug-in does not load."""
    package = importlib.import_module("onnxruntime_qnn")
    failure = register(_NAME, str(package.get_library_path()))
    if failure:
        raise ImportError(f"QNN's plug-in does not load: {failure}")
    found = [device for device in onnxruntime.get_ep_devices() if device.ep_name == _NAME]
    if not found:
        raise ImportError("QNN's plug-in finds no device")
    htp = str(package.get_qnn_htp_path())
    version = str(getattr(package, "__version__", ""))
    return tuple(_provider(one, htp, version) for one in GENERATIONS)


def _provider(generation: HexagonGeneration, htp: str, version: str) -> Provider:
    options = {
        "backend_path": htp,
        "htp_arch": generation.arch,
        "soc_model": generation.soc,
        "enable_htp_fp16_precision": "1",
        # The conversions at the edges are nodes of the plan: the NPU runs them where the plan says so.
        "offload_graph_io_quantization": "0",
    }
    return Provider(
        name=f"v{generation.arch}",
        title=generation.title,
        ep=_NAME,
        plugin=True,
        options=tuple(options.items()),
        mark=f"onnxruntime-qnn {version}; htp v{generation.arch}; soc {generation.soc}",
        compiles=True,
        precisions=_PRECISIONS,
    )
