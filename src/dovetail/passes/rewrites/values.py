"""Operators on values and pictures written otherwise: divisions, softmax over channels, pools of whole pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.ir import Graph, Node
from dovetail.passes.rewrites.base import Rewrite, Scene, fixed_behind_batch


@dataclass(frozen=True)
class DivAsMul(Rewrite):
    """Write a division by a constant as a product with its reciprocal."""

    name: ClassVar[str] = "div-as-mul"
    title: ClassVar[str] = "a division by a constant as a product"

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Div by a constant without a zero, whose reciprocals are finite and not tiny."""
        if node.op != "Div" or node.inputs[1] not in graph.constants or node.inputs[0] in graph.constants:
            return False
        size = np.abs(graph.constants[node.inputs[1]].astype(np.float64))
        limits = np.finfo(graph.types[node.outputs[0]].dtype.carrier)
        return bool(np.all(size > 1 / float(limits.max)) and np.all(size < 1 / float(limits.tiny)))

    def build(self, scene: Scene, node: Node) -> None:
        """Put the product in its place."""
        value = scene.graph.constants[node.inputs[1]]
        scene.remove(node)
        stored = scene.constant(f"{node.inputs[1]}/reciprocal", (1 / value.astype(np.float64)).astype(value.dtype))
        scene.end(node, "Mul", (node.inputs[0], stored), {})


@dataclass(frozen=True)
class SoftmaxOverLast(Rewrite):
    """Write a Softmax over another axis than the last as one over the last, between transposes."""

    name: ClassVar[str] = "softmax-over-last"
    title: ClassVar[str] = "a softmax over channels as one over the last axis"

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Softmax over another axis that has more than one element."""
        if node.op not in ("Softmax", "LogSoftmax"):
            return False
        shape = graph.types[node.inputs[0]].shape or ()
        axis = node.integer("axis", -1) % max(len(shape), 1)
        return len(shape) > 1 and axis != len(shape) - 1 and shape[axis] != 1

    def build(self, scene: Scene, node: Node) -> None:
        """Put transposes around it."""
        shape = scene.shape(node.inputs[0])
        axis = node.integer("axis", -1) % len(shape)
        order = [*(item for item in range(len(shape)) if item != axis), axis]
        scene.remove(node)
        data = scene.transpose(node, node.inputs[0], order)
        data = scene.add(node, node.op, (data,), scene.shape(data), {"axis": -1})
        back = [order.index(item) for item in range(len(shape))]
        scene.end(node, "Transpose", (data,), {"perm": tuple(back)})


@dataclass(frozen=True)
class PoolInTwoSteps(Rewrite):
    """Write a pool of a whole large picture as a pool of windows of one size, and a pool of what they give."""

    name: ClassVar[str] = "pool-in-two-steps"
    title: ClassVar[str] = "a pool of a large picture in two steps"
    least: int = 256
    """Elements of a picture from which on it is large."""

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a global pool of a large picture that windows divide into a small one without a rest."""
        shape = graph.types[node.inputs[0]].shape
        if node.op not in ("GlobalAveragePool", "GlobalMaxPool") or shape is None or len(shape) != 4:
            return False
        area = _area(shape[2:])
        return fixed_behind_batch(shape) and area >= self.least > area // _area(self._window(shape[2:]))

    def _window(self, sizes: tuple[object, ...]) -> tuple[int, ...]:
        return tuple(_divisor(size) for size in sizes if isinstance(size, int))

    def build(self, scene: Scene, node: Node) -> None:
        """Put the two pools in its place."""
        shape = scene.shape(node.inputs[0])
        window = self._window(shape[2:])
        rest = tuple(size // one for size, one in zip(shape[2:], window, strict=True) if isinstance(size, int))
        scene.remove(node)
        op = node.op.removeprefix("Global")
        attributes: dict[str, object] = {"kernel_shape": window, "strides": window}
        data = scene.add(node, op, (node.inputs[0],), (*shape[:2], *rest), attributes)
        scene.end(node, node.op, (data,), {})


def _area(sizes: tuple[object, ...]) -> int:
    return math.prod(size for size in sizes if isinstance(size, int))


def _divisor(size: int) -> int:
    """Return the largest divisor that is at most the root."""
    return max(one for one in range(1, math.isqrt(size) + 1) if size % one == 0)
