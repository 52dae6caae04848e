"""Matrix products with a known number of threads.

ONNX Runtime's product is used where it is installed, and not numpy's: numpy's takes a thread a core, which stalls for a
scheduler's tick (12 ms here) whenever another process has one of them. Sums of integers are the same either way: all
of them are exact in the type in which they are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from dovetail.ir import AnyArray, DType, TensorType

Product = Callable[[AnyArray, AnyArray], AnyArray]


def multiply(left: AnyArray, right: AnyArray, threads: int) -> AnyArray:
    """Return the matrix product of two arrays of one type (float32, float64 or int64); batches broadcast."""
    if left.dtype == np.int64 or 0 in left.shape + right.shape:
        return np.asarray(np.matmul(left, right))
    return _product(DType.of(left.dtype), threads)(left, right)


@cache
def _product(dtype: DType, threads: int) -> Product:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        # A board has numpy alone.
        return np.matmul
    from dovetail.backends.proto import model_of
    from dovetail.exporters.onnx_protos import value_info

    graph = onnx.GraphProto(name="product")
    graph.node.append(onnx.helper.make_node("MatMul", ["a", "b"], ["c"]))
    kind = TensorType(dtype, None)
    graph.input.extend([value_info("a", kind), value_info("b", kind)])
    graph.output.append(value_info("c", kind))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model_of(graph), options, providers=["CPUExecutionProvider"])

    def product(left: AnyArray, right: AnyArray) -> AnyArray:
        (made,) = session.run(None, {"a": np.ascontiguousarray(left), "b": np.ascontiguousarray(right)})
        return np.asarray(made)

    return product
