"""What ONNX Runtime's rules need to know of nodes that ONNX has no attribute for."""

from __future__ import annotations

WEIGHT_ZEROS = "onnxruntime.weight_zeros"
"""Of a MatMul that was a MatMulInteger: the zero points of its int8 weights, which are constants without them."""
