"""What NNCF makes of an ignored scope, by its own rules: the model that its score is predicted with."""

from dovetail.formats.openvino.nncf.expected import expected_model

__all__ = ["expected_model"]
