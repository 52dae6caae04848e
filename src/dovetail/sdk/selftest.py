"""Run one small graph on what was installed: a convolution at u8, whose result is known exactly."""

from __future__ import annotations

import time

import numpy as np

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backend.registry import backend
from dovetail.errors import DovetailError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType

_STEP = Quantization((0.5,), (3,))
_WEIGHT = Quantization((0.25,), (0,))
_BIAS = Quantization((0.125,), (0,))


def convolution_graph() -> Graph:
    """Return a 1x1 convolution of two channels into one: y = 2 a + 3 b + 1 in reals."""
    kinds = {
        "x": TensorType(DType.U8, (1, 2, 4, 4), _STEP),
        "w": TensorType(DType.U8, (1, 2, 1, 1), _WEIGHT),
        "b": TensorType(DType.I32, (1,), _BIAS),
        "y": TensorType(DType.U8, (1, 1, 4, 4), _STEP),
    }
    weight = np.array([8, 12], np.uint8).reshape(1, 2, 1, 1)
    node = Node("convolution", "Conv", ("x", "w", "b"), ("y",))
    return Graph("self-test", (node,), ("x",), ("y",), kinds, {"w": weight, "b": np.array([8], np.int32)})


def self_test() -> str:
    """Compile and run the convolution; return what was seen, or raise DovetailError."""
    plugin = backend("vsi")
    targets = plugin.targets()
    if not targets:
        raise DovetailError("the installed SDK knows none of Dovetail's VeriSilicon targets.")
    target, graph = targets[0], convolution_graph()
    start = time.perf_counter()
    blob = plugin.compile(graph, target, CompileOptions())
    signature = Signature({"x": graph.types["x"]}, {"y": graph.types["y"]})
    executable = plugin.devices()[0].load(blob, signature)
    try:
        stored = (np.arange(32, dtype=np.uint8) % 13).reshape(1, 2, 4, 4)
        result = executable.run({"x": stored})["y"]
    finally:
        executable.close()
    steps = stored.astype(np.int64) - 3
    expected = np.clip(2 * steps[:, :1] + 3 * steps[:, 1:] + 2 + 3, 0, 255).astype(np.uint8)
    if not np.array_equal(result, expected):
        raise DovetailError(
            f"the simulator of {target.name} gives a wrong convolution ({np.count_nonzero(result != expected)} of 16).",
            hint="Install the SDK anew (dovetail sdk install verisilicon); if it stays, report it.",
            option="again",
        )
    return f"a u8 convolution on {target.name} is exact ({time.perf_counter() - start:.2f} s)"
