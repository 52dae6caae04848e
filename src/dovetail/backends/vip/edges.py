"""QuantizeLinear and DequantizeLinear in the newest tensor processor: every step is rounded to 21 bits.

Measured on all stored values of 8 bits at three scales, and on floats for stored values of 8 and 16 bits: equal.
"""

from __future__ import annotations

import numpy as np
from numpy import float32

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.array import centred
from dovetail.backends.vip.floats import fp21, saturated, single
from dovetail.backends.vip.scene import Rule, Values, is_stored
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType


def edge_rule(graph: Graph, node: Node, vip: Vip) -> Rule | None:
    """Return how a conversion between floats and stored integers is computed, or None where ONNX's formula holds."""
    if vip is not Vip.VIP9000_PLUS or len(node.inputs) != 1:
        return None
    kind, made = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    if node.op == "QuantizeLinear" and kind.dtype is DType.F32 and is_stored(made):
        return _to_stored(made)
    if node.op == "DequantizeLinear" and made.dtype is DType.F32 and is_stored(kind):
        return _to_float(kind)
    return None


def _to_stored(made: TensorType) -> Rule:
    assert made.quant is not None
    inverse = fp21(single(1.0 / made.quant.scale[0]))
    # Signed bytes are computed as unsigned ones.
    move = 128 if made.dtype is DType.I8 else 0
    zero = made.quant.zero_point[0] + move
    lowest, highest = (edge + move for edge in made.dtype.integer_range)

    def rule(values: Values) -> AnyArray:
        given = values[0]
        assert given is not None
        moved = fp21(fp21(fp21(given) * inverse) + zero)
        return np.asarray((saturated(moved, lowest, highest) - move).astype(made.dtype.carrier))

    return rule


def _to_float(kind: TensorType) -> Rule:
    assert kind.quant is not None
    scale = fp21(kind.quant.scale[0])

    def rule(values: Values) -> AnyArray:
        stored = values[0]
        assert stored is not None
        return np.asarray(fp21(centred(stored, kind) * scale).astype(float32))

    return rule
