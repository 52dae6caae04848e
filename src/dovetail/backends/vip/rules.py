"""The operators that VeriSilicon's engines do not compute exactly, from stored values to stored values.

Every rule was derived from sweeps over all stored values on the vendor's simulator; an operator without one is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.array import average_rule
from dovetail.backends.vip.edges import edge_rule
from dovetail.backends.vip.functions import Function
from dovetail.backends.vip.halves import mean_rule
from dovetail.backends.vip.lengths import length_rule
from dovetail.backends.vip.products import CONVOLUTIONS, product_rule
from dovetail.backends.vip.quotients import quotient_rule, softmax_rule
from dovetail.backends.vip.response import response_rule
from dovetail.backends.vip.scene import NEWEST, Rule, Scene, Values, is_stored, product_in_shader
from dovetail.backends.vip.shaders import shader_rule
from dovetail.backends.vip.sums import sum_rule
from dovetail.backends.vip.table import (
    Scales,
    clip_function,
    copied,
    native_table,
    stream_bytes,
    stream_table,
    unary_results,
    user_table,
)
from dovetail.ir import AnyArray, Graph, Node, dequantize_array
from dovetail.ir.dtypes import DType


def vip_rule(graph: Graph, node: Node, vip: Vip) -> Rule | None:
    """Return how a generation of the engines computes a node with one quantised output, or None where that is exact."""
    if node.domain not in ("", "dovetail") or not node.inputs or len([name for name in node.outputs if name]) != 1:
        return None
    edge = edge_rule(graph, node, vip)
    if edge is not None:
        return edge
    scene = Scene(graph, node, vip)
    if not scene.is_quantised:
        return None
    shader = shader_rule(scene)
    if shader is None and scene.kind(0).dtype is DType.I16 and vip is not Vip.STREAM:
        shader = product_rule(scene) if node.op in CONVOLUTIONS and product_in_shader(graph, node, vip) else None
    if shader is not None:
        return shader
    if vip is Vip.STREAM:
        return _streamed(scene)
    maker = _MAKERS.get(node.op)
    return _unary(scene) if maker is None else maker(scene)


def read_table(entries: AnyArray, stored: AnyArray) -> AnyArray:
    """Return the entries for stored values."""
    return np.asarray(np.take(entries, stored.view(f"u{stored.dtype.itemsize}")))


def _from_table(entries: AnyArray, position: int = 0) -> Rule:
    def rule(values: Values) -> AnyArray:
        stored = values[position]
        assert stored is not None
        return read_table(entries, stored)

    return rule


def _unary(scene: Scene) -> Rule | None:
    if len(scene.node.inputs) != 1:
        return None
    probe, _ = scene.scales()
    if unary_results(scene.node, np.zeros(1), probe) is None:
        return None

    def results(steps: AnyArray, scales: Scales) -> AnyArray:
        found = unary_results(scene.node, steps, scales)
        assert found is not None
        return found

    return _from_table(scene.table(results))


_STREAMED: dict[str, Callable[[Scene], Rule | None]] = {
    "Div": quotient_rule,
    "LRN": response_rule,
    "Mean": mean_rule,
    "Softmax": softmax_rule,
}


def _streamed(scene: Scene) -> Rule | None:
    """Return how the stream processor computes: bytes exactly, 16 bits with tables."""
    if scene.node.op == "AveragePool":
        return average_rule(scene)
    if scene.node.op in ("Add", "Sub", "Sum"):
        return sum_rule(scene)
    if scene.node.op in _STREAMED:
        return _STREAMED[scene.node.op](scene)
    if scene.kind(0).dtype is not scene.made.dtype:
        return None
    node = scene.node
    if node.op == "Pow" and _power(scene) == 2.0:
        node = Node(node.name, "Square", node.inputs[:1], node.outputs)
    table = stream_table if scene.kind(0).dtype is DType.I16 else stream_bytes
    if len(node.inputs) != 1 or table(np.zeros(1), node, scene.scales()[0]) is None:
        return None

    def results(steps: AnyArray, scales: Scales) -> AnyArray:
        found = table(steps, node, scales)
        assert found is not None
        return found

    return _from_table(scene.table(results))


def _copy(scene: Scene) -> Rule | None:
    return _from_table(scene.table(copied))


def _power(scene: Scene) -> float | None:
    """Return the one constant exponent of a Pow, or None."""
    exponent, kind = scene.graph.constants.get(scene.node.inputs[1]), scene.kind(1)
    if exponent is None or exponent.size == 0:
        return None
    real = (exponent if kind.quant is None else dequantize_array(exponent, kind.quant)).reshape(-1)
    return float(real[0]) if bool((real == real[0]).all()) else None


def _pow(scene: Scene) -> Rule | None:
    """Square and reciprocal have tables of their own; the vendor's power goes through a logarithm in a shader."""
    power = _power(scene)
    if power == 2.0:
        return _from_table(scene.table(lambda steps, scales: native_table(steps, np.square, scales)))
    if power == -1.0:
        node = Node(scene.node.name, "Reciprocal", scene.node.inputs[:1], scene.node.outputs)
        return _unary(Scene(scene.graph, node, scene.vip))
    return None


def _clip(scene: Scene) -> Rule | None:
    bounds: list[float] = []
    for index, default in ((1, -np.inf), (2, np.inf)):
        bound = _scalar(scene, index, default)
        if bound is None:
            return None
        bounds.append(bound)
    quant, made = scene.made.quant, scene.made
    assert quant is not None
    scale, zero = quant.scale[0], quant.zero_point[0]
    ends = [(edge - zero) * scale for edge in made.dtype.integer_range]
    low, high = (min(max(bound, ends[0]), ends[1]) for bound in (min(bounds), bounds[1]))
    # The bounds as the lowering hands them on: values that the output holds.
    low, high = (float(np.rint(bound / scale)) * scale for bound in (low, high))
    if (low, high) == (0.0, float(np.rint(ends[1] / scale)) * scale):
        return _from_table(scene.table(lambda steps, scales: copied(np.maximum(steps, 0.0), scales)))
    function: Function = clip_function(low, high)
    return _from_table(scene.table(lambda steps, scales: user_table(steps, function, scales)))


def _scalar(scene: Scene, index: int, default: float) -> float | None:
    if index >= len(scene.node.inputs) or not scene.node.inputs[index]:
        return default
    value, kind = scene.graph.constants.get(scene.node.inputs[index]), scene.kind(index)
    if value is None or value.size != 1:
        return None
    real = value if kind.quant is None else dequantize_array(value, kind.quant)
    return float(real.reshape(()))


def _concat(scene: Scene) -> Rule | None:
    """Each operand is copied with its own scale."""
    positions = range(len(scene.node.inputs))
    if not all(is_stored(scene.kind(index)) and scene.kind(index).dtype is scene.made.dtype for index in positions):
        return None
    tables = [scene.table(copied, index) for index in positions]
    axis = scene.node.integer("axis", 0)

    def rule(values: Values) -> AnyArray:
        parts = [read_table(table, value) for table, value in zip(tables, values, strict=True) if value is not None]
        return np.concatenate(parts, axis)

    return rule


def _where(scene: Scene) -> Rule | None:
    """Both operands are copied to the output's scale before one is chosen; older parts copy signed bytes exactly."""
    if scene.made.dtype is DType.I8 and scene.vip not in NEWEST:
        return None
    if not all(is_stored(scene.kind(index)) and scene.kind(index).dtype is scene.made.dtype for index in (1, 2)):
        return None
    tables = [scene.table(copied, index) for index in (1, 2)]

    def rule(values: Values) -> AnyArray:
        condition, first, second = values
        assert condition is not None
        assert first is not None
        assert second is not None
        return np.where(condition, read_table(tables[0], first), read_table(tables[1], second))

    return rule


_MAKERS: dict[str, Callable[[Scene], Rule | None]] = {
    "Add": sum_rule,
    "AveragePool": average_rule,
    "Clip": _clip,
    "Concat": _concat,
    "GlobalAveragePool": average_rule,
    "Identity": _copy,
    "LRN": response_rule,
    "Mean": mean_rule,
    "Pow": _pow,
    "ReduceL2": length_rule,
    "ReduceMean": average_rule,
    "Requantize": _copy,
    "Sub": sum_rule,
    "Sum": sum_rule,
    "Where": _where,
}
