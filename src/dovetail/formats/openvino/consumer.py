"""OpenVINO's HETERO as the consumer of affinities: its own drawing says on which device every operator is."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.errors import FormatError
from dovetail.exporters import to_onnx
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, Obeyed, ReadNode
from dovetail.formats.format import ReadRequest
from dovetail.formats.openvino.affinities import FORMAT
from dovetail.formats.openvino.model import apply_affinities, bind_operators
from dovetail.formats.openvino.weights import fold_constants
from dovetail.plan.placement import HOST

if TYPE_CHECKING:
    from openvino import Core

_DRAW = "OPENVINO_HETERO_VISUALIZE"
_DRAWN = re.compile(r'label="(?P<name>.*?)\\n[^"]*device=(?P<device>\w+)"')
_STANDINS = {"NPU": "CPUA", "CPU": "CPUB"}
"""Devices of the file, and the names under which the CPU plug-in stands in for them: it wants its own in them."""
_ABSENT = "no operator"
_SHAPE_TROUBLE = (
    *("dynamic rank", "rank is dynamic", "dynamic shape", "Node::evaluate() is not implemented"),
    *("Cannot fallback on ngraph reference",),
)
"""What OpenVINO 2026 says where parts read shapes from each other."""


@dataclass(frozen=True, slots=True)
class HeteroConsumer:
    """Compile a model with the affinities of a file, on the CPU plug-in under two names."""

    models: str = ".onnx"
    needs_model: bool = False

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return on which device every node is; raise FormatError where OpenVINO refuses it."""
        import openvino

        base = request.plan.default
        plan = FORMAT.read(request.written.content, ReadRequest(request.graph, base))
        content = request.model if request.model is not None else to_onnx(request.graph).SerializeToString()
        devices = {target: "CPU" if target == HOST else "NPU" for target in (*request.plan.targets, *plan.targets)}
        core = _two_devices()
        try:
            model = core.read_model(content)
            # As the documentation says: shapes and weights that are computed have no size between devices.
            fold_constants(model)
            apply_affinities(model, request.graph, plan, {key: _STANDINS[name] for key, name in devices.items()})
            with _drawing() as folder:
                compiled = core.compile_model(model, f"HETERO:{','.join(_STANDINS.values())}")
                placed = _drawn(folder)
            runs = [compiled(dict(item)) for item in request.run]
        except RuntimeError as error:
            message = (str(error).strip().splitlines() or ["no reason"])[-1].strip().rstrip(".")
            raise FormatError(
                f"OpenVINO refuses it: {message}.",
                path="the exported file",
                line=0,
                code="CONSUMER",
                hint=hint_for(str(error)),
            ) from error
        on: dict[str, set[str]] = {}
        for operator, nodes in bind_operators(model, request.graph).nodes_of.items():
            for node in nodes:
                on.setdefault(node, set()).update({placed[operator]} if operator in placed else ())
        names = request.graph.outputs
        outputs = tuple({name: made[place] for place, name in enumerate(names)} for made in runs)
        read = tuple(_compared(request, devices, on))
        consumer = f"OpenVINO {openvino.__version__} after fold_constants"
        return ConsumerReading(consumer, read, outputs, computes_floats=True)


def hint_for(message: str) -> str | None:
    """Return what to try where OpenVINO stumbles over shapes that it computes between parts, else None."""
    if not any(sign in message for sign in _SHAPE_TROUBLE):
        return None
    return (
        "read_model leaves computations of shapes and weights in a model, and between two devices they have no fixed "
        "shape: fold them first (dovetail.formats.openvino.fold_constants), or take openvino.convert_model, or fix all "
        "sizes, or place what is around the operator on one device."
    )


def _compared(request: ConsumerRequest, devices: Mapping[str, str], on: Mapping[str, set[str]]) -> Iterator[ReadNode]:
    for node in request.graph.nodes:
        asked, given = devices[request.plan.placement(node.name).target], on.get(node.name, set())
        text = " and ".join(sorted(given)) or _ABSENT
        obeyed = Obeyed.HONOURED if given == {asked} else Obeyed.CHANGED if given else Obeyed.DROPPED
        yield ReadNode(node.name, node.op, asked, text, obeyed)


def _two_devices() -> Core:
    """Return a core with the CPU plug-in under two names."""
    import openvino

    core = openvino.Core()
    plugin = next(Path(openvino.__file__).parent.rglob("*openvino_intel_cpu_plugin.*"))
    for name in _STANDINS.values():
        core.register_plugin(str(plugin), name)
        # Some processors would compute in bfloat16.
        core.set_property(name, {"INFERENCE_PRECISION_HINT": "f32"})
    return core


@contextmanager
def _drawing() -> Iterator[Path]:
    """Have HETERO draw what it compiles: it writes into the working folder."""
    before = os.environ.get(_DRAW)
    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder, chdir(folder):
        os.environ[_DRAW] = "YES"
        try:
            yield Path(folder)
        finally:
            os.environ.pop(_DRAW) if before is None else os.environ.update({_DRAW: before})


def _drawn(folder: Path) -> Mapping[str, str]:
    """Return the device of every operator that is drawn."""
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("hetero_affinity_*.dot"))
    names = {standin: name for name, standin in _STANDINS.items()}
    return {match["name"]: names[match["device"]] for match in _DRAWN.finditer(text)}


HETERO = HeteroConsumer()
