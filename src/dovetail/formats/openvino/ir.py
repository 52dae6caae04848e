"""Write a model with its affinities as OpenVINO's IR.

OpenVINO leaves affinities out when it writes an IR, and keeps what programs of a user say of an operator (`user_data`,
since 2025.4): the affinity is written as such, and whoever reads the IR makes it an affinity again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.errors import DovetailError, FormatError
from dovetail.exporters import to_onnx
from dovetail.formats.openvino.model import AFFINITY, OpenVinoModel, apply_affinities, read_affinities
from dovetail.formats.openvino.parts import HeteroPrediction, predict_parts
from dovetail.formats.openvino.weights import fold_constants, weights_without_shape
from dovetail.ir.graph import Graph
from dovetail.plan.placement import HOST
from dovetail.plan.plan import Plan

if TYPE_CHECKING:
    from openvino import Model

KEPT = "user_dataaffinity"
"""The key of what OpenVINO writes as `<user_data name="affinity">`."""
_PREFIX = "openvino:"
_HOST_DEVICE, _OTHER_DEVICE = "CPU", "NPU"


@dataclass(frozen=True, slots=True)
class AffinityIr:
    """An IR with affinities, and how HETERO will cut it."""

    xml: bytes
    weights: bytes
    devices: Mapping[str, str]
    """The device of every operator, by friendly name."""
    order: tuple[str, ...]
    """The devices for `HETERO:`, the plan's default first."""
    prediction: HeteroPrediction
    refused: tuple[str, ...]
    """Convolutions that OpenVINO's CPU refuses where the model is cut so."""


def device_names(plan: Plan, named: Mapping[str, str]) -> Mapping[str, str]:
    """Return the OpenVINO device of every target of a plan: as named, its own, CPU for the host, else NPU."""
    devices: dict[str, str] = {}
    for target in plan.targets:
        own = target.removeprefix(_PREFIX).partition("(")[0] if target.startswith(_PREFIX) else ""
        devices[target] = named.get(target) or own or (_HOST_DEVICE if target == HOST else _OTHER_DEVICE)
    return devices


def write_ir(graph: Graph, plan: Plan, devices: Mapping[str, str]) -> AffinityIr:
    """Return a model as an IR with the affinities of a plan; `devices` maps its targets to OpenVINO's devices.

    Raises DovetailError where openvino is not installed, or does not keep what is written.
    """
    try:
        import openvino
    except ImportError as error:
        raise DovetailError(
            "the package openvino is not installed.", hint="pip install 'dovetail[openvino]', or take export."
        ) from error
    model = openvino.Core().read_model(to_onnx(graph).SerializeToString())
    fold_constants(model)
    apply_affinities(model, graph, plan, devices)
    placed = read_affinities(model)
    for op in model.get_ordered_ops():
        op.get_rt_info()[KEPT] = placed[op.get_friendly_name()]
    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        path = Path(folder, "model.xml")
        openvino.save_model(model, path, compress_to_fp16=False)
        xml, weights = path.read_bytes(), path.with_suffix(".bin").read_bytes()
    written = _read(xml, weights)
    if restore_affinities(written) != placed:
        raise FormatError(
            f"OpenVINO {openvino.__version__} does not keep affinities in an IR.",
            path="the IR",
            line=0,
            code="CONSUMER",
            hint="Take OpenVINO 2025.4 or newer, or the affinities as a file of their own.",
        )
    prediction = predict_parts(written, placed)
    order = tuple(dict.fromkeys((devices[plan.default.target], *devices.values())))
    lost = weights_without_shape(written, prediction)
    return AffinityIr(xml, weights, placed, order, prediction, lost)


def _read(xml: bytes, weights: bytes) -> Model:
    import numpy as np
    import openvino

    return openvino.Core().read_model(xml, openvino.Tensor(np.frombuffer(weights, np.uint8)))


def restore_affinities(model: OpenVinoModel) -> Mapping[str, str]:
    """Make what an IR of `write_ir` says the affinities of the model that was read; return them, by friendly name."""
    for op in model.get_ordered_ops():
        info = op.get_rt_info()
        if KEPT in info:
            value = info[KEPT]
            info[AFFINITY] = str(getattr(value, "value", value))
    return read_affinities(model)
