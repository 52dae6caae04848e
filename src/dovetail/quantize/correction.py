"""Bias correction: what rounding the weights shifts an output by on average goes into the bias.

With rounding errors dW of the weights and means E[x] of the input, the shift of an output channel is sum(dW E[x]) over
inputs and taps (Nagel et al. 2019, arXiv:1906.04721, section 4.2); a tap counts as often as it lies inside the picture.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node

CORRECTED = ("Conv", "Gemm")
"""Operators whose biases can be corrected."""


def bias_shift(graph: Graph, node: Node, error: AnyArray, mean: AnyArray) -> AnyArray | None:
    """Return what weights with an error shift every output channel by, `[C]`; None where that cannot be told."""
    if node.domain or node.op not in CORRECTED:
        return None
    if node.op == "Gemm":
        flat = error if node.integer("transB", 0) else error.T
        if node.integer("transA", 0) or flat.ndim != 2 or flat.shape[1] != len(mean):
            return None
        shift: AnyArray = flat @ mean * node.number("alpha", 1.0)
        return shift
    groups, share = node.integer("group", 1), _inside(graph, node, error.shape[2:])
    if error.shape[1] * groups != len(mean):
        return None
    taps = (error * share).reshape(groups, error.shape[0] // groups, error.shape[1], -1).sum(axis=3)
    shifts: AnyArray = np.einsum("goi,gi->go", taps, mean.reshape(groups, -1))
    return shifts.reshape(-1)


def _inside(graph: Graph, node: Node, kernel: tuple[int, ...]) -> AnyArray:
    """Return the share of output positions at which every tap reads the picture and no padding, `[taps...]`."""
    share = np.ones(kernel)
    sizes, made = (graph.types[name].shape for name in (node.inputs[0], node.outputs[0]))
    pads = node.integers("pads") or (0,) * (2 * len(kernel))
    if sizes is None or made is None or node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return share
    for axis, taps in enumerate(kernel):
        size, count = sizes[axis + 2], made[axis + 2]
        if not isinstance(size, int) or not isinstance(count, int) or count == 0:
            continue
        stride = (node.integers("strides") or (1,) * len(kernel))[axis]
        dilation = (node.integers("dilations") or (1,) * len(kernel))[axis]
        positions = np.arange(count)[:, None] * stride + np.arange(taps)[None, :] * dilation - pads[axis]
        inside = ((positions >= 0) & (positions < size)).mean(axis=0)
        share = share * inside.reshape([-1 if item == axis else 1 for item in range(len(kernel))])
    return share
