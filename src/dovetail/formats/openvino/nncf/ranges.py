"""Ranges and steps as NNCF (3.4, `quantization/fake_quantize.py`) chooses them: bytes with zero points for activations,
-127 to 127 for weights, for each channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import WeightLayout

_LEVELS = 255
_NARROWEST = 8e-4
"""A range that is narrower is widened by so much on both sides."""
_SMALLEST_SHARE, _SMALLEST = 0.01, 8e-5
"""Weights of a channel have at least the step of such a share of the largest weight, and of such a weight."""
_LARGEST = 127


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bounds that are rounded within, and the step; each one number or one for every channel."""

    low: AnyArray
    high: AnyArray
    step: AnyArray


def byte_range(low: AnyArray, high: AnyArray) -> ByteRange:
    """Return the range for values between bounds: it holds 0, on a step of its own, and is widened on one side."""
    low, high = low.astype(np.float32), high.astype(np.float32)
    margin = np.where(high - low > _NARROWEST, np.float32(0), np.float32(_NARROWEST))
    low, high = np.minimum(low - margin, 0), np.maximum(high + margin, 0)
    zero = np.rint(-low * (_LEVELS / (high - low)))
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = np.where(zero < _LEVELS, zero / (zero - _LEVELS) * high, low)
        upper = np.where(zero > 0, (zero - _LEVELS) / zero * low, high)
    down = high - lower > upper - low
    low, high = np.where(down, lower, low).astype(np.float32), np.where(down, high, upper).astype(np.float32)
    return ByteRange(low, high, ((high - low) / _LEVELS).astype(np.float32))


def rounded_weight(graph: Graph, node: Node, layout: WeightLayout) -> AnyArray:
    """Return the weight of a node as what its integers stand for."""
    value = graph.constants[node.inputs[layout.weight]]
    groups = node.integer("group", 1) if node.op == "ConvTranspose" else 1
    split = value.reshape(groups, -1, *value.shape[1:]) if groups > 1 else value
    kept = (0, 2) if groups > 1 else (layout.channel_axis,)
    others = tuple(axis for axis in range(split.ndim) if axis not in kept)
    largest = np.abs(split).max(axis=others, keepdims=True).astype(np.float32)
    floor = np.maximum(largest.max(initial=0.0) * np.float32(_SMALLEST_SHARE), np.float32(_SMALLEST))
    bound = np.maximum(largest, floor)
    # In float32 and from the lower bound on, as OpenVINO computes it: halves become what they become there.
    steps = np.rint((split + bound) / (bound + bound) * np.float32(2 * _LARGEST)) - _LARGEST
    return np.asarray((steps * (bound / _LARGEST)).reshape(value.shape), value.dtype)
