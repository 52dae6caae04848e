"""Kernels that are too large: a smaller one on shifted copies of the input, or a sum of shifted smaller ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from dovetail.ir import AnyArray, Graph, Node
from dovetail.passes.rewrites.base import Rewrite, Scene
from dovetail.passes.rewrites.windows import MOST_KERNEL, KernelWindow, Part, cut_off, has_fixed_window, parts_of


@dataclass(frozen=True)
class StackLargeKernels(Rewrite):
    """Write a convolution whose kernel is too large as one with a smaller kernel on shifted copies of its input.

    The copies stand beside each other as channels, so that all products are still added up in one accumulator: in
    integers nothing is rounded more often than before. The kernel is filled up with zeros to parts of one size.
    """

    name: ClassVar[str] = "stack-large-kernels"
    title: ClassVar[str] = "a large kernel as a smaller one on shifted copies of the input"
    most: int = MOST_KERNEL
    """Elements of a kernel along an axis."""

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Conv of one group with fixed weights beyond the limit."""
        if not has_fixed_window(graph, node) or node.integer("group", 1) != 1:
            return False
        return max(KernelWindow.of(graph, node).kernel) > self.most

    def build(self, scene: Scene, node: Node) -> None:
        """Put padding, slices, their concatenation and a convolution in its place."""
        window = KernelWindow.of(scene.graph, node)
        numbers = [-(-size // self.most) for size in window.kernel]
        sizes = [-(-size // number) for size, number in zip(window.kernel, numbers, strict=True)]
        steps = [size * dilation for size, dilation in zip(sizes, window.dilations, strict=True)]
        lengths = [
            (window.counts[axis] - 1) * window.strides[axis] + steps[axis] - window.dilations[axis] + 1
            for axis in range(len(sizes))
        ]
        ends = [step * (number - 1) + length for step, number, length in zip(steps, numbers, lengths, strict=True)]
        weight = scene.graph.constants[node.inputs[1]]
        more = [number * size - old for number, size, old in zip(numbers, sizes, window.kernel, strict=True)]
        filled = np.pad(weight, [(0, 0), (0, 0), *((0, count) for count in more)])
        scene.remove(node)
        data = self._padded(scene, node, window, ends)
        pieces, copies = [], []
        for place in product(*(range(number) for number in numbers)):
            lows = [index * step for index, step in zip(place, steps, strict=True)]
            spans = [slice(index * size, (index + 1) * size) for index, size in zip(place, sizes, strict=True)]
            pieces.append(filled[(slice(None), slice(None), *spans)])
            copies.append(self._copy(scene, node, data, lows, lengths))
        batch, channels = scene.shape(node.inputs[0])[:2]
        assert isinstance(channels, int)
        stacked = scene.add(node, "Concat", copies, (batch, channels * len(copies), *lengths), {"axis": 1})
        stored = scene.constant(f"{node.inputs[1]}/stacked", np.concatenate(pieces, axis=1))
        attributes: dict[str, object] = {**window.attributes(), "kernel_shape": tuple(sizes)}
        scene.end(node, "Conv", (stacked, stored, *node.inputs[2:]), attributes)

    @staticmethod
    def _padded(scene: Scene, node: Node, window: KernelWindow, ends: list[int]) -> str:
        """Return the input with the padding before it, and as much behind it as the last copy reads."""
        count = len(ends)
        begins = list(window.pads[:count])
        behind = [max(ends[axis] - begins[axis] - window.sizes[axis], 0) for axis in range(count)]
        if not any(begins) and not any(behind):
            return node.inputs[0]
        around = scene.constant(f"{node.name}/pads", np.array([0, 0, *begins, 0, 0, *behind], np.int64))
        sizes = [begins[axis] + window.sizes[axis] + behind[axis] for axis in range(count)]
        return scene.add(node, "Pad", (node.inputs[0], around), (*scene.shape(node.inputs[0])[:2], *sizes), {})

    @staticmethod
    def _copy(scene: Scene, node: Node, data: str, lows: list[int], lengths: list[int]) -> str:
        highs = [low + length for low, length in zip(lows, lengths, strict=True)]
        values = (lows, highs, list(range(2, 2 + len(lows))))
        names = [scene.constant(f"{node.name}/copy", np.array(value, np.int64)) for value in values]
        return scene.add(node, "Slice", (data, *names), (*scene.shape(data)[:2], *lengths), {})


@dataclass(frozen=True)
class SplitLargeKernels(Rewrite):
    """Write a convolution whose kernel is too large, and whose stride is 1, as a sum of convolutions with its parts.

    A part that begins at row r of the kernel sees the input r rows (times the dilation) further down: that much less is
    padded above and more below, and what would be padded by less than nothing is cut off. Results of a part whose
    windows lie in the padding alone are zeros, put around the others; a part that has no others is left out.
    Larger strides are left alone: of a sum of two such convolutions with a Relu behind, VeriSilicon's compiler was seen
    to make something else.
    """

    name: ClassVar[str] = "split-large-kernels"
    title: ClassVar[str] = "a large kernel as a sum of shifted smaller ones"
    most: int = MOST_KERNEL
    """Elements of a kernel along an axis; of a depthwise one with its dilation."""

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Conv with fixed weights beyond the limit, at a stride of 1."""
        if not has_fixed_window(graph, node):
            return False
        window = KernelWindow.of(graph, node)
        if set(window.strides) != {1}:
            return False
        limits = self._limits(node, window)
        return any(size > most for size, most in zip(window.kernel, limits, strict=True)) and bool(
            parts_of(window, limits)
        )

    def _limits(self, node: Node, window: KernelWindow) -> list[int]:
        depthwise = node.integer("group", 1) > 1
        return [(self.most - 1) // dilation + 1 if depthwise else self.most for dilation in window.dilations]

    def build(self, scene: Scene, node: Node) -> None:
        """Put a chain of sums in its place; a part that gives all results has the bias, else it is added in the end."""
        window = KernelWindow.of(scene.graph, node)
        weight = scene.graph.constants[node.inputs[1]]
        parts = sorted(parts_of(window, self._limits(node, window)), key=lambda part: not window.covers(part))
        scene.remove(node)
        bias = node.inputs[2] if len(node.inputs) > 2 else ""
        inside = bool(bias) and window.covers(parts[0])
        made = [
            self._part(scene, node, part, weight, bias if inside and index == 0 else "")
            for index, part in enumerate(parts)
        ]
        if bias and not inside:
            values = scene.graph.constants.get(bias)
            shape = (1, weight.shape[0], *(1 for _ in window.kernel))
            spread = scene.reshape(node, bias, shape) if values is None else ""
            made.append(spread or scene.constant(f"{bias}/spread", np.asarray(values).reshape(shape)))
        total = made[0]
        for other in made[1:-1]:
            total = scene.add(node, "Add", (total, other), scene.shape(node.outputs[0]), {})
        if len(made) > 1:
            scene.end(node, "Add", (total, made[-1]), {})
        else:
            scene.end(node, "Identity", (total,), {})

    def _part(self, scene: Scene, node: Node, part: Part, weight: AnyArray, bias: str) -> str:
        """Put in the convolution with a part of the kernel, and the zeros around it; return what they make."""
        window = KernelWindow.of(scene.graph, node)
        views = window.views(part)
        piece = weight[(slice(None), slice(None), *(slice(low, high) for low, high in part))]
        data = cut_off(scene, node, views)
        attributes: dict[str, object] = {**window.attributes(), "group": node.integer("group", 1)}
        attributes["pads"] = (*(max(one.begin, 0) for one in views), *(max(one.end, 0) for one in views))
        attributes["kernel_shape"] = tuple(piece.shape[2:])
        inputs = (data, scene.constant(f"{node.inputs[1]}/part", piece), *((bias,) if bias else ()))
        shape = scene.shape(node.outputs[0])
        made = scene.add(node, "Conv", inputs, (*shape[:2], *(one.count for one in views)), attributes)
        if not any(one.before or one.behind for one in views):
            return made
        around = [0, 0, *(one.before for one in views), 0, 0, *(one.behind for one in views)]
        return scene.add(
            node, "Pad", (made, scene.constant(f"{node.name}/pads", np.array(around, np.int64))), shape, {}
        )
