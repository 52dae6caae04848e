"""ONNX Runtime on any execution provider: built in, or a plug-in library."""

from dovetail.backends.ort.plugin import OrtBackend
from dovetail.backends.ort.providers import present_providers

backend = OrtBackend("ort", present_providers)
"""The plug-in of every provider that is found."""

__all__ = ["backend"]
