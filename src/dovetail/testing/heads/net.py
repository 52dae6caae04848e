"""A picture, a small backbone, and a head on top of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.outputs.view import Kind
from dovetail.testing.networks import Network

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GeneratedHead:
    """A network with a head, and what its outputs are."""

    graph: Graph
    kinds: Mapping[str, Kind]
    """The kind of the decision that each output belongs to."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class HeadFamily:
    """A design of heads; `draw` makes one from a stream of random numbers."""

    name: str
    draw: Callable[[np.random.Generator], GeneratedHead]
    source: str = ""
    """Where the shapes and names were read."""


class HeadNet(Network):
    """Grow a head; channels come first inside, as in ONNX, and names are given when it is finished."""

    def picture(self, rows: int, cols: int, channels: int = 3, *, channels_last: bool = False) -> str:
        """Add the picture that goes in and return it with channels first."""
        if not channels_last:
            return self.input("images", 1, channels, rows, cols)
        name = self.input("input", 1, rows, cols, channels)
        return self.transpose(name, (0, 3, 1, 2))

    def backbone(self, picture: str, strides: Sequence[int], width: int = 8) -> list[str]:
        """Return features at rising strides (powers of two)."""
        found: dict[int, str] = {}
        tensor, stride = picture, 1
        while stride < max(strides):
            tensor = self.relu(self.down(tensor, width))
            stride *= 2
            found[stride] = tensor
        return [found[item] for item in strides]

    def down(self, tensor: str, channels: int) -> str:
        """Halve rows and columns, rounded up."""
        batch, read, *space = self.shape(tensor)
        weight = self.uniform(channels, read, 3, 3, low=-0.6, high=0.6)
        smaller = tuple((size + 1) // 2 for size in space)
        bias = self.uniform(channels, low=-0.3, high=0.3)
        return self.op("Conv", tensor, weight, bias, shape=(batch, channels, *smaller), pads=(1,) * 4, strides=(2, 2))

    def up(self, tensor: str, channels: int) -> str:
        """Double rows and columns by a transposed convolution."""
        batch, read, rows, cols = self.shape(tensor)
        weight = self.uniform(read, channels, 2, 2)
        bias = self.uniform(channels, low=-0.3, high=0.3)
        return self.op(
            "ConvTranspose", tensor, weight, bias, shape=(batch, channels, 2 * rows, 2 * cols), strides=(2, 2)
        )

    def relu(self, tensor: str) -> str:
        """Add a Relu."""
        return self.op("Relu", tensor)

    def sigmoid(self, tensor: str) -> str:
        """Add a Sigmoid."""
        return self.op("Sigmoid", tensor)

    def softmax(self, tensor: str, axis: int = -1) -> str:
        """Add a Softmax."""
        return self.op("Softmax", tensor, axis=axis)

    def reshape(self, tensor: str, *shape: int) -> str:
        """Add a Reshape."""
        return self.op("Reshape", tensor, self.constant(list(shape)), shape=shape)

    def transpose(self, tensor: str, perm: tuple[int, ...]) -> str:
        """Add a Transpose."""
        before = self.shape(tensor)
        return self.op("Transpose", tensor, shape=tuple(before[axis] for axis in perm), perm=perm)

    def concat(self, tensors: Sequence[str], axis: int) -> str:
        """Add a Concat; one tensor alone stays as it is."""
        if len(tensors) == 1:
            return tensors[0]
        shape = list(self.shape(tensors[0]))
        shape[axis] = sum(self.shape(tensor)[axis] for tensor in tensors)
        return self.op("Concat", *tensors, shape=tuple(shape), axis=axis)

    def part(self, tensor: str, start: int, stop: int, axis: int) -> str:
        """Add a Slice."""
        shape = list(self.shape(tensor))
        shape[axis] = stop - start
        bounds = (self.constant([start]), self.constant([stop]), self.constant([axis]))
        return self.op("Slice", tensor, *bounds, shape=tuple(shape))

    def dense(self, tensor: str, count: int) -> str:
        """Add a Gemm to a tensor `[1, C]`."""
        batch, read = self.shape(tensor)
        reach = 2.0 / float(np.sqrt(read))
        weight = self.uniform(read, count, low=-reach, high=reach)
        return self.op("Gemm", tensor, weight, self.uniform(count, low=-0.3, high=0.3), shape=(batch, count))

    def pooled(self, tensor: str) -> str:
        """Return the mean of every channel `[1, C]`."""
        batch, channels = self.shape(tensor)[:2]
        means = self.op("GlobalAveragePool", tensor, shape=(batch, channels, 1, 1))
        return self.op("Flatten", means, shape=(batch, channels))

    def arg_max(self, tensor: str, axis: int, *, keep: bool = False) -> str:
        """Add an ArgMax."""
        shape = list(self.shape(tensor))
        shape[axis : axis + 1] = [1] if keep else []
        made = self.op("ArgMax", tensor, shape=tuple(shape), axis=axis, keepdims=int(keep))
        self.types[made] = TensorType(DType.I64, tuple(shape))
        return made

    def rows(self, tensor: str, channels: int) -> str:
        """Return a map `[1, A*C, H, W]` as rows `[1, H*W*A, C]`."""
        _, total, height, width = self.shape(tensor)
        last = self.transpose(tensor, (0, 2, 3, 1))
        return self.reshape(last, 1, height * width * total // channels, channels)

    def finish(self, outputs: Mapping[str, str], kinds: Mapping[str, Kind] | Kind, note: str = "") -> GeneratedHead:
        """Return the head with its outputs named; `kinds` is one for all, or one for each name."""
        names = {tensor: name for name, tensor in outputs.items()}
        every = dict.fromkeys(outputs, kinds) if isinstance(kinds, Kind) else dict(kinds)
        return GeneratedHead(_renamed(self.graph(*outputs.values(), name="head"), names), every, note)


def stripped(head: GeneratedHead) -> GeneratedHead:
    """Return a head whose outputs are numbers, as exporters name what nobody has named."""
    names = {name: str(400 + 13 * index) for index, name in enumerate(head.graph.outputs)}
    kinds = {names[name]: kind for name, kind in head.kinds.items()}
    return GeneratedHead(_renamed(head.graph, names), kinds, f"{head.note}, names stripped")


def _renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """Return the graph with other names of tensors."""

    def turn(tensors: Sequence[str]) -> tuple[str, ...]:
        return tuple(names.get(tensor, tensor) for tensor in tensors)

    nodes = tuple(
        Node(node.name, node.op, turn(node.inputs), turn(node.outputs), node.attributes) for node in graph.nodes
    )
    types = {names.get(tensor, tensor): kind for tensor, kind in graph.types.items()}
    return Graph(graph.name, nodes, graph.inputs, turn(graph.outputs), types, graph.constants)


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """Return one of some items."""
    return items[int(rng.integers(len(items)))]


def drawn_net(rng: np.random.Generator) -> HeadNet:
    """Return an empty net with weights of its own."""
    return HeadNet(int(rng.integers(2**16)))


def channels_last(net: HeadNet, tensor: str) -> str:
    """Return a map with channels last."""
    return net.transpose(tensor, (0, 2, 3, 1))
