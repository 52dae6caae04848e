"""Matrix products with a known number of threads.

ONNX Runtime's product is used and not numpy's: numpy's takes a thread a core, which stalls for a scheduler's tick
(12 ms here) whenever another process has one of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnxruntime
from onnx import GraphProto, helper

from dovetail.backends.proto import model_of
from dovetail.exporters.onnx_protos import value_info
from dovetail.ir import AnyArray, DType, TensorType


def multiply(left: AnyArray, right: AnyArray, threads: int) -> AnyArray:
    """Return the matrix product of two arrays of one type (float32, float64 or int64); batches broadcast."""
    if left.dtype == np.int64 or 0 in left.shape + right.shape:
        return np.asarray(np.matmul(left, right))
    session = _session(DType.of(left.dtype), threads)
    (product,) = session.run(None, {"a": np.ascontiguousarray(left), "b": np.ascontiguousarray(right)})
    return np.asarray(product)


@cache
def _session(dtype: DType, threads: int) -> onnxruntime.InferenceSession:
    graph = GraphProto(name="product")
    graph.node.append(helper.make_node("MatMul", ["a", "b"], ["c"]))
    kind = TensorType(dtype, None)
    graph.input.extend([value_info("a", kind), value_info("b", kind)])
    graph.output.append(value_info("c", kind))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model_of(graph), options, providers=["CPUExecutionProvider"])
