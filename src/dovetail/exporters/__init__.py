"""Write Graphs as model files."""

from dovetail.exporters.onnx import save_onnx, to_onnx

__all__ = ["save_onnx", "to_onnx"]
