"""How a convolution walks over its input, and what a part of its kernel sees of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np

from dovetail.ir import Graph, Node
from dovetail.passes.rewrites.base import Scene, fixed_behind_batch

MOST_KERNEL = 11
"""Elements of a kernel along an axis that every known part convolves, however many it reads in all."""


@dataclass(frozen=True)
class KernelWindow:
    """How a convolution walks over its input, axis by axis; `pads` has all beginnings, then all ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    sizes: tuple[int, ...] = field(default=())
    """Sizes of the input."""
    counts: tuple[int, ...] = field(default=())
    """How many windows there are."""

    @classmethod
    def of(cls, graph: Graph, node: Node) -> KernelWindow:
        """Return the window of a convolution with fixed weights."""
        kernel = graph.constants[node.inputs[1]].shape[2:]
        count = len(kernel)
        sizes, counts = ((graph.types[name].shape or ())[2:] for name in (node.inputs[0], node.outputs[0]))
        return cls(
            tuple(kernel),
            node.integers("strides", (1,) * count),
            node.integers("dilations", (1,) * count),
            node.integers("pads", (0,) * 2 * count),
            tuple(int(size) for size in sizes if isinstance(size, int)),
            tuple(int(size) for size in counts if isinstance(size, int)),
        )

    def views(self, part: Part) -> list[View]:
        """Return what a part of the kernel sees, axis by axis."""
        return [self._view(axis, low, high) for axis, (low, high) in enumerate(part)]

    def _view(self, axis: int, low: int, high: int) -> View:
        stride, dilation, size = self.strides[axis], self.dilations[axis], self.sizes[axis]
        begin, span = self.pads[axis] - low * dilation, (high - low - 1) * dilation + 1
        # Window i begins at i * stride - begin.
        first = (begin - span) // stride + 1 if begin >= span else 0
        behind_last = min(self.counts[axis], (size - 1 + begin) // stride + 1)
        end = (behind_last - 1) * stride - begin + span - size
        return View(begin - first * stride, end, size, behind_last - first, first, self.counts[axis] - behind_last)

    def covers(self, part: Part) -> bool:
        """Tell whether each window of a part sees something."""
        return not any(one.before or one.behind for one in self.views(part))

    def attributes(self) -> dict[str, object]:
        """Return the attributes of every part."""
        return {"strides": self.strides, "dilations": self.dilations}


def has_fixed_window(graph: Graph, node: Node) -> bool:
    """Tell whether it is a Conv with fixed weights and explicit padding, over known sizes."""
    if node.op != "Conv" or node.inputs[1] not in graph.constants:
        return False
    if node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    return fixed_behind_batch(graph.types[node.inputs[0]].shape) and fixed_behind_batch(
        graph.types[node.outputs[0]].shape
    )


@dataclass(frozen=True)
class View:
    """What a part of a kernel sees along an axis: the input with padding, or cut off where that is below nothing."""

    begin: int
    end: int
    size: int
    count: int
    """Windows that see something."""
    before: int
    behind: int
    """Windows before and behind them, which see padding alone."""

    @property
    def bounds(self) -> tuple[int, int]:
        """Return where what is seen of the input begins and ends."""
        return max(-self.begin, 0), min(self.size + self.end, self.size)


Part = tuple[tuple[int, int], ...]


def parts_of(window: KernelWindow, limits: Sequence[int]) -> list[Part]:
    """Return the ranges of a kernel that see more than padding."""
    cuts = []
    for size, limit in zip(window.kernel, limits, strict=True):
        count = -(-size // limit)
        edges = [round(index * size / count) for index in range(count + 1)]
        cuts.append(list(pairwise(edges)))
    return [part for part in product(*cuts) if all(view.count > 0 for view in window.views(part))]


def cut_off(scene: Scene, node: Node, views: Sequence[View]) -> str:
    """Return what a part reads, cut off where it would be padded by less than nothing."""
    if all(one.bounds == (0, one.size) for one in views):
        return node.inputs[0]
    lows, highs = zip(*(one.bounds for one in views), strict=True)
    axes = range(2, 2 + len(views))
    names = [scene.constant(f"{node.name}/cut", np.array(list(value), np.int64)) for value in (lows, highs, axes)]
    shape = (*scene.shape(node.inputs[0])[:2], *(high - low for low, high in zip(lows, highs, strict=True)))
    return scene.add(node, "Slice", (node.inputs[0], *names), shape, {})
