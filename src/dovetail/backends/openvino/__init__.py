"""OpenVINO: every device that it lists, and plug-ins that are registered by name."""

from dovetail.backends.openvino.plugin import backend

__all__ = ["backend"]
