"""How the kernels of the ONNX Runtime that is installed add up products of bytes on this machine."""

from __future__ import annotations

from functools import cache

from dovetail.backend.arithmetic import Accumulator
from dovetail.errors import DeviceError

_DATA, _WEIGHT = 255, 127
_SUMS = {2 * _DATA * _WEIGHT: Accumulator.WIDE, 2**15 - 1: Accumulator.PAIRS}
"""What 255 * 127 + 255 * 127 comes out as."""


@cache
def measured_accumulator() -> Accumulator:
    """Run one product of uint8 by int8 whose sum does not fit 16 bits; raise DeviceError when it cannot be run.

    Which kernels ONNX Runtime takes depends on the processor: those for x86 without VNNI saturate.
    """
    try:
        import numpy as np
        import onnx
        import onnxruntime
    except ImportError as error:
        raise DeviceError(
            f"how ONNX Runtime adds up products of bytes cannot be measured: {error}.",
            hint="Install onnxruntime and onnx, or name the rules: reference:ort-wide or reference:ort-pairs.",
        ) from error
    weight = onnx.numpy_helper.from_array(np.full((2, 1), _WEIGHT, np.int8), "b")
    edges = onnx.TensorProto
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "probe",
        [onnx.helper.make_tensor_value_info("a", edges.UINT8, [1, 2])],
        [onnx.helper.make_tensor_value_info("y", edges.INT32, [1, 1])],
        [weight],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)], ir_version=7)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    total = int(session.run(None, {"a": np.full((1, 2), _DATA, np.uint8)})[0][0, 0])
    if total not in _SUMS:
        raise DeviceError(f"ONNX Runtime {onnxruntime.__version__} adds 255 * 127 twice up to {total}: no known rules.")
    return _SUMS[total]
