"""OpenVINO: affinities for HETERO, from plans and from `query_model`."""

from dovetail.formats.openvino.model import apply_affinities, count_submodels, predict_submodels, read_affinities

__all__ = ["apply_affinities", "count_submodels", "predict_submodels", "read_affinities"]
