"""ONNX Runtime: arguments of its quantiser, annotated models, Q/DQ models, and its own report of who runs what."""
