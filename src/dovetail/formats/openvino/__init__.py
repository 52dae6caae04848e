"""OpenVINO: affinities for HETERO, from plans and from `query_model`."""

from dovetail.formats.openvino.ir import AffinityIr, device_names, restore_affinities, write_ir
from dovetail.formats.openvino.model import apply_affinities, count_submodels, read_affinities
from dovetail.formats.openvino.parts import HeteroPrediction, predict_parts, predict_submodels
from dovetail.formats.openvino.weights import fold_constants, weights_without_shape

__all__ = [
    "AffinityIr",
    "HeteroPrediction",
    "apply_affinities",
    "count_submodels",
    "device_names",
    "fold_constants",
    "predict_parts",
    "predict_submodels",
    "read_affinities",
    "restore_affinities",
    "weights_without_shape",
    "write_ir",
]
