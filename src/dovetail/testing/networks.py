"""Small networks with branches: a builder for hand-written ones and a Hypothesis strategy for random ones.

Every tensor of a drawn network is `[1, C, H, W]`; its values stay within some tens, so that one scale fits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from dovetail.ir import AnyArray, DType, Graph, Node, TensorType

_MOST_CHANNELS = 8


class Network:
    """Grow a float graph; every method returns the name of the tensor that it makes."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, AnyArray] = {}
        self.inputs: list[str] = []

    def input(self, name: str, *shape: int | str) -> str:
        """Add a float32 input."""
        self.inputs.append(name)
        self.types[name] = TensorType(DType.F32, shape)
        return name

    def constant(self, value: object, name: str = "") -> str:
        """Add a constant; Python integers become int64 and floats float32."""
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        label = name or f"k{len(self.constants)}"
        self.constants[label] = array
        self.types[label] = TensorType(DType.of(array.dtype), tuple(array.shape))
        return label

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        """Add a constant of random float32 values."""
        return self.constant(self.rng.uniform(low, high, shape).astype(np.float32))

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the static shape of a tensor."""
        found = self.types[tensor].static_shape
        assert found is not None
        return found

    def op(self, op: str, *inputs: str, shape: tuple[int | str, ...] | None = None, **attributes: object) -> str:
        """Add a node with one float32 output, by default shaped as the first input; node `n3` makes tensor `t3`."""
        return self.named(f"n{len(self.nodes)}", op, *inputs, shape=shape, **attributes)

    def named(
        self, name: str, op: str, *inputs: str, shape: tuple[int | str, ...] | None = None, **attributes: object
    ) -> str:
        """Add a node of a given name; it makes the tensor of that name with `t` in front, or `t3` for `n3`."""
        tensor = f"t{name.removeprefix('n')}"
        self.types[tensor] = TensorType(DType.F32, self.types[inputs[0]].shape if shape is None else shape)
        self.nodes.append(Node(name, op, inputs, (tensor,), attributes))
        return tensor

    def split(self, tensor: str) -> tuple[str, str]:
        """Split the channels into two halves; an odd one goes to the first."""
        batch, channels, *space = self.shape(tensor)
        sizes = (channels - channels // 2, channels // 2)
        number = len(self.nodes)
        outputs = (f"t{number}", f"t{number}b")
        for name, size in zip(outputs, sizes, strict=True):
            self.types[name] = TensorType(DType.F32, (batch, size, *space))
        self.nodes.append(Node(f"n{number}", "Split", (tensor, self.constant(list(sizes))), outputs, {"axis": 1}))
        return outputs

    def conv(self, tensor: str, channels: int, kernel: int = 1, bias: bool = True) -> str:
        """Add a convolution that keeps the size and, about, the power of its input."""
        batch, read, *space = self.shape(tensor)
        reach = 2.0 / float(np.sqrt(read * kernel * kernel))
        weight = self.uniform(channels, read, kernel, kernel, low=-reach, high=reach)
        extra = (self.uniform(channels),) if bias else ()
        half = kernel // 2
        return self.op("Conv", tensor, weight, *extra, shape=(batch, channels, *space), pads=(half,) * 4)

    def graph(self, *outputs: str, name: str = "net") -> Graph:
        """Return the graph."""
        return Graph(name, tuple(self.nodes), tuple(self.inputs), outputs, self.types, self.constants)


Pick = Callable[[int], int]


def _plain(op: str, **attributes: object) -> Callable[[Network, str, Pick], str]:
    return lambda net, tensor, pick: net.op(op, tensor, shape=None, **attributes)


def _conv(net: Network, tensor: str, pick: Pick) -> str:
    return net.conv(tensor, 1 + pick(4), 1 + 2 * pick(2), pick(2) == 1)


def _clip(net: Network, tensor: str, pick: Pick) -> str:
    return net.op("Clip", tensor, net.constant(np.float32(-0.5 * pick(2))), net.constant(np.float32(6.0)))


def _pair(op: str) -> Callable[[Network, str, Pick], str]:
    def step(net: Network, tensor: str, pick: Pick) -> str:
        same = [name for name in _tensors(net) if net.types[name] == net.types[tensor]]
        return net.op(op, tensor, same[pick(len(same))])

    return step


def _addend(net: Network, tensor: str, pick: Pick) -> str:
    channels = net.shape(tensor)[1]
    return net.op("Add", tensor, net.uniform(*((channels, 1, 1), (1,), ())[pick(3)]))


def _concat(net: Network, tensor: str, pick: Pick) -> str:
    batch, channels, *space = net.shape(tensor)
    fitting = [name for name in _tensors(net) if list(net.shape(name)[2:]) == space]
    other = fitting[pick(len(fitting))]
    total = channels + net.shape(other)[1]
    if total > _MOST_CHANNELS:
        return net.op("Relu", tensor)
    return net.op("Concat", tensor, other, shape=(batch, total, *space), axis=1)


def _reshape(net: Network, tensor: str, pick: Pick) -> str:
    batch, channels, height, width = net.shape(tensor)
    shape = (batch, channels, width, height)
    return net.op("Reshape", tensor, net.constant(list(shape)), shape=shape)


def _transpose(net: Network, tensor: str, pick: Pick) -> str:
    batch, channels, height, width = net.shape(tensor)
    return net.op("Transpose", tensor, shape=(batch, channels, width, height), perm=(0, 1, 3, 2))


def _pad(net: Network, tensor: str, pick: Pick) -> str:
    batch, channels, height, width = net.shape(tensor)
    pads = net.constant([0, 0, 1, 0, 0, 0, 0, 1])
    value = (net.constant(np.float32(pick(2))),) if pick(2) else ()
    padded = net.op("Pad", tensor, pads, *value, shape=(batch, channels, height + 1, width + 1))
    shape = (batch, channels, height, width)
    return net.op("MaxPool", padded, shape=shape, kernel_shape=(2, 2))


def _split(net: Network, tensor: str, pick: Pick) -> str:
    return net.split(tensor)[pick(2)] if net.shape(tensor)[1] > 1 else net.op("Relu", tensor)


_STEPS: tuple[Callable[[Network, str, Pick], str], ...] = (
    _conv,
    _conv,
    _conv,
    _plain("Relu"),
    _clip,
    _pair("Add"),
    _pair("Sub"),
    _addend,
    _concat,
    _reshape,
    _transpose,
    _pad,
    _split,
    _plain("Sigmoid"),
    _plain("MaxPool", kernel_shape=(3, 3), pads=(1, 1, 1, 1)),
    _plain("AveragePool", kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1),
    _plain("LeakyRelu", alpha=0.1),
)


def _tensors(net: Network) -> list[str]:
    return [*net.inputs, *(tensor for node in net.nodes for tensor in node.outputs)]


@st.composite
def networks(draw: st.DrawFn, most: int = 10) -> Graph:
    """Draw a network with skips, joins and several outputs over one input `x` of `[1, C, 4, 3]`.

    Every tensor that nothing reads is an output, and sometimes one that is read.
    """
    net = Network(draw(st.integers(0, 2**16)))
    net.input("x", 1, draw(st.integers(1, 3)), 4, 3)

    def pick(count: int) -> int:
        return draw(st.integers(0, count - 1))

    for _ in range(draw(st.integers(1, most))):
        made = _tensors(net)
        # Mostly go on from the last tensor; else branch off an older one.
        source = made[-1] if draw(st.integers(0, 2)) else made[pick(len(made))]
        _STEPS[pick(len(_STEPS))](net, source, pick)
    read = {tensor for node in net.nodes for tensor in node.inputs}
    computed = [tensor for node in net.nodes for tensor in node.outputs]
    extra = draw(st.lists(st.sampled_from(computed), max_size=1))
    return net.graph(*dict.fromkeys([*(tensor for tensor in computed if tensor not in read), *extra]))
