"""MobileNetV1 at any width and resolution, with seeded weights: what a performance model is asked about."""

from __future__ import annotations

import numpy as np

from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.quantize.ranges import Range, Ranges

_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *(((512, 1),) * 5), (1024, 2), (1024, 1))
"""Output channels at width 1.0 and stride of each separable block (Howard et al. 2017, table 1)."""
_CLASSES = 1001


class _Draft:
    """Collect the layers of the network; weights are normal with the spread that keeps activations level."""

    def __init__(self, resolution: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, AnyArray] = {}
        self.nodes: list[Node] = []
        self.now, self.channels, self.size = "image", 3, resolution
        self.hold("image", (1, 3, resolution, resolution))

    def hold(self, name: str, shape: tuple[int, ...]) -> str:
        self.types[name] = TensorType(DType.F32, shape)
        return name

    def weight(self, name: str, shape: tuple[int, ...], spread: float) -> str:
        self.constants[name] = (self.random.standard_normal(shape) * spread).astype(np.float32)
        return self.hold(name, shape)

    def convolution(self, name: str, made: int, kernel: int, stride: int, group: int = 1) -> None:
        """Add a convolution with ReLU6, padded as TensorFlow's SAME does."""
        size = -(-self.size // stride)
        missing = max(0, (size - 1) * stride + kernel - self.size)
        shape = (made, self.channels // group, kernel, kernel)
        weight = self.weight(f"{name}.w", shape, float(np.sqrt(2.0 / np.prod(shape[1:]))))
        bias = self.weight(f"{name}.b", (made,), 0.1)
        before, after = missing // 2, missing - missing // 2
        attributes = {"pads": (before, before, after, after), "strides": (stride, stride), "group": group}
        linear = self.hold(f"{name}.linear", (1, made, size, size))
        clamped = self.hold(f"{name}.out", (1, made, size, size))
        self.nodes.append(Node(name, "Conv", (self.now, weight, bias), (linear,), attributes))
        self.nodes.append(Node(f"{name}.relu6", "Clip", (linear, *self._bounds()), (clamped,)))
        self.now, self.channels, self.size = clamped, made, size

    def _bounds(self) -> tuple[str, str]:
        for name, value in (("zero", 0.0), ("six", 6.0)):
            self.constants[name] = np.array(value, np.float32)
            self.hold(name, ())
        return "zero", "six"


def mobilenet_v1(width: float = 1.0, resolution: int = 224, seed: int = 0) -> Graph:
    """Return the float network, NCHW, from the image to the logits."""
    draft = _Draft(resolution, seed)
    draft.convolution("stem", int(32 * width), 3, 2)
    for index, (channels, stride) in enumerate(_BLOCKS, 1):
        draft.convolution(f"depthwise{index}", draft.channels, 3, stride, group=draft.channels)
        draft.convolution(f"pointwise{index}", int(channels * width), 1, 1)
    pooled = draft.hold("pooled", (1, draft.channels, 1, 1))
    draft.nodes.append(Node("pool", "GlobalAveragePool", (draft.now,), (pooled,)))
    shape = (_CLASSES, draft.channels, 1, 1)
    weight = draft.weight("logits.w", shape, float(np.sqrt(1.0 / draft.channels)))
    bias = draft.weight("logits.b", (_CLASSES,), 0.1)
    draft.nodes.append(Node("logits", "Conv", (pooled, weight, bias), (draft.hold("scores", (1, _CLASSES, 1, 1)),)))
    name = f"mobilenet_v1_{width:g}_{resolution}"
    return Graph(name, tuple(draft.nodes), ("image",), ("scores",), draft.types, draft.constants)


def stated_ranges(graph: Graph) -> Ranges:
    """Return ranges that nobody measured: enough for sizes and times, which do not depend on them."""
    tensors = {name: Range(0.0, 6.0) if name.endswith(".out") else Range(-8.0, 8.0) for name in graph.types}
    return Ranges(graph.digest, "stated", 0, tensors)
