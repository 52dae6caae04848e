"""Programs that we did not write, run on single quantised nodes: TFLite's reference kernels and ONNX Runtime's."""
