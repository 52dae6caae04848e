"""Convolutions written otherwise: short kernels filled up, one axis as two; products as convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.ir import Graph, Node
from dovetail.passes.rewrites.base import Rewrite, Scene, fixed_behind_batch
from dovetail.passes.rewrites.windows import KernelWindow, has_fixed_window


@dataclass(frozen=True)
class FillShortKernels(Rewrite):
    """Fill a kernel that is shorter than its stride up with zeros, to the stride."""

    name: ClassVar[str] = "fill-short-kernels"
    title: ClassVar[str] = "a kernel shorter than its stride filled up with zeros"

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Conv with fixed weights that skips elements."""
        if not has_fixed_window(graph, node):
            return False
        window = KernelWindow.of(graph, node)
        pairs = zip(window.kernel, window.strides, window.dilations, strict=True)
        return any(size < stride for size, stride, _ in pairs) and set(window.dilations) == {1}

    def build(self, scene: Scene, node: Node) -> None:
        """Put the same convolution with more weights in its place; what it sees more is padded below."""
        window = KernelWindow.of(scene.graph, node)
        weight = scene.graph.constants[node.inputs[1]]
        more = [max(stride - size, 0) for size, stride in zip(window.kernel, window.strides, strict=True)]
        filled = np.pad(weight, [(0, 0), (0, 0), *((0, count) for count in more)])
        count = len(more)
        pads = (*window.pads[:count], *(pad + extra for pad, extra in zip(window.pads[count:], more, strict=True)))
        attributes: dict[str, object] = {**window.attributes(), "pads": pads, "group": node.integer("group", 1)}
        attributes["kernel_shape"] = tuple(filled.shape[2:])
        scene.remove(node)
        stored = scene.constant(f"{node.inputs[1]}/filled", filled)
        scene.end(node, "Conv", (node.inputs[0], stored, *node.inputs[2:]), attributes)


@dataclass(frozen=True)
class ConvOverTwoAxes(Rewrite):
    """Write a convolution over one axis as one over two, the first of which has one element."""

    name: ClassVar[str] = "conv1d-as-conv2d"
    title: ClassVar[str] = "a convolution over one axis as one over two"

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a Conv over one axis of known sizes."""
        return has_fixed_window(graph, node) and len(KernelWindow.of(graph, node).kernel) == 1

    def build(self, scene: Scene, node: Node) -> None:
        """Put reshapes around a convolution over two axes."""
        window = KernelWindow.of(scene.graph, node)
        weight = scene.graph.constants[node.inputs[1]]
        batch, channels, length = scene.shape(node.inputs[0])
        made = scene.shape(node.outputs[0])
        scene.remove(node)
        data = scene.reshape(node, node.inputs[0], (batch, channels, 1, length))
        wide = scene.constant(f"{node.inputs[1]}/wide", weight[:, :, None, :])
        before, after = window.pads
        attributes: dict[str, object] = {
            "kernel_shape": (1, window.kernel[0]),
            "strides": (1, window.strides[0]),
            "dilations": (1, window.dilations[0]),
            "pads": (0, before, 0, after),
            "group": node.integer("group", 1),
        }
        shape = (made[0], made[1], 1, made[2])
        result = scene.add(node, "Conv", (data, wide, *node.inputs[2:]), shape, attributes)
        scene.end(node, "Reshape", (result, scene.sizes(node, made)), {})


@dataclass(frozen=True)
class MatMulAsConv(Rewrite):
    """Write a product with fixed weights as a convolution by one element; a stack of products as a grouped one."""

    name: ClassVar[str] = "matmul-as-conv"
    title: ClassVar[str] = "a product with fixed weights as a convolution by one element"

    def fits(self, graph: Graph, node: Node) -> bool:
        """Tell whether it is a MatMul of at least three axes by a constant that does not widen it."""
        if node.op != "MatMul" or node.inputs[1] not in graph.constants or node.inputs[0] in graph.constants:
            return False
        data, weight = graph.types[node.inputs[0]].shape or (), graph.constants[node.inputs[1]]
        if not fixed_behind_batch(data) or len(data) not in (3, 4) or weight.ndim < 2 or weight.ndim > len(data):
            return False
        stack = list(weight.shape[:-2])
        if math.prod(stack) == 1:
            return True
        return len(data) == 4 and stack[-1] == data[1] and math.prod(stack[:-1]) == 1

    def build(self, scene: Scene, node: Node) -> None:
        """Put transposes and reshapes around a convolution: rows become columns of a picture, one element high."""
        weight = scene.graph.constants[node.inputs[1]]
        batch, *middle, depth = scene.shape(node.inputs[0])
        made = scene.shape(node.outputs[0])
        width = weight.shape[-1]
        groups = math.prod(weight.shape[:-2])
        rows = math.prod(int(size) for size in middle if isinstance(size, int)) // groups
        assert isinstance(depth, int)
        kernel = np.swapaxes(weight.reshape(groups, depth, width), 1, 2).reshape(groups * width, depth, 1, 1)
        scene.remove(node)
        data = scene.reshape(node, node.inputs[0], (batch, groups, rows, depth))
        data = scene.transpose(node, data, (0, 1, 3, 2))
        data = scene.reshape(node, data, (batch, groups * depth, 1, rows))
        stored = scene.constant(f"{node.inputs[1]}/kernel", kernel)
        attributes: dict[str, object] = {"kernel_shape": (1, 1), "group": groups}
        data = scene.add(node, "Conv", (data, stored), (batch, groups * width, 1, rows), attributes)
        data = scene.reshape(node, data, (batch, groups, width, rows))
        data = scene.transpose(node, data, (0, 1, 3, 2))
        scene.end(node, "Reshape", (data, scene.sizes(node, made)), {})
