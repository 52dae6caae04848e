"""Dovetail fits one neural network across an NPU and a CPU."""

__version__ = "0.1.0"
