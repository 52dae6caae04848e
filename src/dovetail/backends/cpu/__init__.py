"""The CPU, through ONNX Runtime: float32, and 8 bits with its integer kernels."""

from dovetail.backends.cpu.plugin import backend

__all__ = ["backend"]
