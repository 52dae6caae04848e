"""Large kernels that skip elements, written without skipping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.ir import AnyArray, Graph, Node
from dovetail.passes.rewrites.base import Rewrite, Scene
from dovetail.passes.rewrites.windows import MOST_KERNEL, KernelWindow, has_fixed_window


@dataclass(frozen=True)
class FoldStrides(Rewrite):
    """Write a large kernel that goes on by s elements as a kernel s times shorter on s times the channels.

    What stands at one place of each s becomes a channel. All products are still added up in one accumulator.
    """

    name: ClassVar[str] = "fold-strides"
    title: ClassVar[str] = "a large kernel of stride s as a short one on s times the channels"
    most: int = MOST_KERNEL
    """Elements of a kernel along an axis."""
    furthest: int = 63
    """Elements that it may go on by."""

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Conv of one group over one or two axes, one of them beyond a limit, without holes."""
        if not has_fixed_window(graph, node) or node.integer("group", 1) != 1:
            return False
        window = KernelWindow.of(graph, node)
        folds = self._folds(window)
        holes = any(fold > 1 < step for fold, step in zip(folds, window.dilations, strict=True))
        return len(folds) <= 2 and math.prod(folds) > 1 and not holes

    def _folds(self, window: KernelWindow) -> list[int]:
        pairs = zip(window.kernel, window.strides, strict=True)
        return [step if size > self.most or step > self.furthest else 1 for size, step in pairs]

    def build(self, scene: Scene, node: Node) -> None:
        """Put padding, reshapes around a transpose, and the shorter convolution in its place."""
        window = KernelWindow.of(scene.graph, node)
        folds = self._folds(window)
        weight = scene.graph.constants[node.inputs[1]]
        kernel = [-(-size // fold) for size, fold in zip(window.kernel, folds, strict=True)]
        batch, channels = scene.shape(node.inputs[0])[:2]
        assert isinstance(channels, int)
        scene.remove(node)
        data, lengths = self._cut(scene, node, window, folds)
        split = [item for length, fold in zip(lengths, folds, strict=True) for item in (length // fold, fold)]
        data = scene.reshape(node, data, (batch, channels, *split))
        count = len(folds)
        data = scene.transpose(node, data, (0, 1, *range(3, 3 + 2 * count, 2), *range(2, 2 + 2 * count, 2)))
        data = scene.reshape(node, data, (batch, channels * math.prod(folds), *split[::2]))
        stored = scene.constant(f"{node.inputs[1]}/folded", _folded(weight, kernel, folds))
        attributes: dict[str, object] = {
            "kernel_shape": tuple(kernel),
            "strides": tuple(1 if fold > 1 else step for fold, step in zip(folds, window.strides, strict=True)),
            "dilations": window.dilations,
        }
        scene.end(node, "Conv", (data, stored, *node.inputs[2:]), attributes)

    @staticmethod
    def _cut(scene: Scene, node: Node, window: KernelWindow, folds: Sequence[int]) -> tuple[str, list[int]]:
        """Return the input with its padding, as long as windows see, in whole steps; and its sizes."""
        count = len(folds)
        lengths = []
        for axis, fold in enumerate(folds):
            if fold > 1:
                lengths.append((window.counts[axis] - 1 + -(-window.kernel[axis] // fold)) * fold)
            else:
                lengths.append(window.sizes[axis] + window.pads[axis] + window.pads[count + axis])
        begins = list(window.pads[:count])
        ends = [length - begin - size for length, begin, size in zip(lengths, begins, window.sizes, strict=True)]
        data, shape = node.inputs[0], list(scene.shape(node.inputs[0]))
        if any(end < 0 for end in ends):
            highs = [size + min(end, 0) for size, end in zip(window.sizes, ends, strict=True)]
            values = ([0] * count, highs, list(range(2, 2 + count)))
            names = [scene.constant(f"{node.name}/cut", np.array(value, np.int64)) for value in values]
            shape = [*shape[:2], *highs]
            data = scene.add(node, "Slice", (data, *names), shape, {})
        around = [0, 0, *begins, 0, 0, *(max(end, 0) for end in ends)]
        if any(around):
            pads = scene.constant(f"{node.name}/pads", np.array(around, np.int64))
            data = scene.add(node, "Pad", (data, pads), (*shape[:2], *lengths), {})
        return data, lengths


def _folded(weight: AnyArray, kernel: Sequence[int], folds: Sequence[int]) -> AnyArray:
    """Return `[O, C, K...]` filled up with zeros as `[O, C * folds, K / folds...]`."""
    made, channels, *sizes = weight.shape
    more = [size * fold - old for size, fold, old in zip(kernel, folds, sizes, strict=True)]
    filled = np.pad(weight, [(0, 0), (0, 0), *((0, count) for count in more)])
    split = [item for size, fold in zip(kernel, folds, strict=True) for item in (size, fold)]
    count = len(folds)
    order = (0, 1, *range(3, 3 + 2 * count, 2), *range(2, 2 + 2 * count, 2))
    return filled.reshape(made, channels, *split).transpose(order).reshape(made, channels * math.prod(folds), *kernel)
