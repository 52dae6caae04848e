"""Seeded networks with the blocks of published ones: what the prices are fitted to.

Shapes follow the families (separable, inverted residual, residual, bottleneck, fire, pyramids, attention), never one
network: widths, sizes, depths, kernels and activations are drawn. Nothing of the collection of models is in here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.passes.rewrites import REWRITES
from dovetail.testing.networks import Network

_CHANNEL_SPREAD = 0.5
"""Standard deviation of the logarithm of the channels' scales: trained filters are uneven, which compresses them."""
_MOST_WEIGHTS = 1_500_000
_MOST_ELEMENTS = 1_200_000
"""Of one map: the vendor's compiler takes seconds beyond."""
_WIDTHS = (8, 16, 16, 24, 32, 32, 40, 48, 64, 64, 80, 96, 128, 128, 160, 192, 256, 256, 320, 384, 512)
_GATED_FROM = 100
"""From this seed on every activation is a gate, `x * sigmoid(x)`, and large pictures are split into quarters first."""
_WIDE_FROM = 200
"""From this seed on networks are wide and small."""
_WIDE_WEIGHTS = 3_000_000
_HEADS_FROM = 300
"""From this seed on networks are detectors' heads."""
_DECODERS_FROM = 400
"""From this seed on networks are decoders, which make maps larger by transposed convolutions."""
_SMALL_FROM = 500
"""From this seed on networks are small: recurrent cells step by step, and a few features from layer to layer."""
_DECODED_FROM = 600
"""From this seed on networks are detectors' heads that are decoded: functions, products and sums with constants."""
_HEADS = (1, 2, 4, 5, 10, 18, 21, 35, 75, 85, 100, 255)


class Sketch(Network):
    """A network under construction, with the layers of real ones; every method returns the tensor that it makes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.weights = 0

    def chance(self, share: float) -> bool:
        """Tell whether something happens that has this probability."""
        return bool(self.rng.random() < share)

    def pick(self, choices: Sequence[int]) -> int:
        """Return one of some numbers."""
        return int(choices[int(self.rng.integers(len(choices)))])

    def layer(
        self, tensor: str, channels: int, kernel: tuple[int, int], stride: int = 1, group: int = 1, dilation: int = 1
    ) -> str:
        """Add a convolution with a bias that keeps the size at stride 1."""
        batch, read, height, width = self.shape(tensor)
        pads = tuple(dilation * (size - 1) // 2 for size in kernel)
        reach = [dilation * (size - 1) + 1 - 2 * pad for size, pad in zip(kernel, pads, strict=True)]
        sizes = [(side - size) // stride + 1 for side, size in zip((height, width), reach, strict=True)]
        weight = self.weight(channels, read // group, *kernel)
        form = {"kernel_shape": kernel, "pads": (*pads, *pads), "strides": (stride, stride), "group": group}
        shape = (batch, channels, *sizes)
        bias = self.uniform(channels)
        return self.op("Conv", tensor, weight, bias, shape=shape, dilations=(dilation, dilation), **form)

    def depthwise(self, tensor: str, kernel: int, stride: int = 1) -> str:
        """Add a depthwise convolution."""
        channels = self.shape(tensor)[1]
        return self.layer(tensor, channels, (kernel, kernel), stride, channels)

    def weight(self, *shape: int) -> str:
        """Add normal weights whose spread differs from channel to channel."""
        uneven = np.exp(self.rng.standard_normal((shape[0], *(1,) * (len(shape) - 1))) * _CHANNEL_SPREAD)
        values = self.rng.standard_normal(shape) * uneven * np.sqrt(2.0 / np.prod(shape[1:]))
        self.weights += values.size
        return self.constant(values.astype(np.float32))

    def dense(self, tensor: str, made: int) -> str:
        """Add a fully connected layer on a matrix."""
        rows, columns = self.shape(tensor)
        weight, bias = self.weight(made, columns), self.uniform(made)
        return self.op("Gemm", tensor, weight, bias, shape=(rows, made), transB=1)

    def product(self, tensor: str, made: int) -> str:
        """Add a product with a constant matrix over the last axis."""
        *outer, columns = self.shape(tensor)
        return self.op("MatMul", tensor, self.weight(columns, made), shape=(*outer, made))

    def pool(self, op: str, tensor: str, kernel: int, stride: int) -> str:
        """Add a pooling."""
        batch, channels, height, width = self.shape(tensor)
        pad = kernel // 2 if kernel % 2 else 0
        sizes = [(side + 2 * pad - kernel) // stride + 1 for side in (height, width)]
        form = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (pad,) * 4}
        return self.op(op, tensor, shape=(batch, channels, *sizes), **form)

    def doubled(self, tensor: str) -> str:
        """Add a resize to twice the size, by nearest neighbours."""
        batch, channels, height, width = self.shape(tensor)
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        form = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.op("Resize", tensor, "", scales, shape=(batch, channels, 2 * height, 2 * width), **form)

    def grown(self, tensor: str, made: int, kernel: int, *, alone: bool = False) -> str:
        """Add a transposed convolution to twice the size; `alone`: of each channel by itself."""
        batch, read, height, width = self.shape(tensor)
        weight, group = self.weight(read, 1 if alone else made, kernel, kernel), read if alone else 1
        pad = (kernel - 1) // 2
        form = {"kernel_shape": (kernel, kernel), "strides": (2, 2), "pads": (pad,) * 4, "group": group}
        more = kernel % 2
        shape = (batch, made, 2 * height, 2 * width)
        return self.op("ConvTranspose", tensor, weight, shape=shape, output_padding=(more, more), **form)

    def clip(self, tensor: str) -> str:
        """Add a clamp to 0 .. 6."""
        return self.op("Clip", tensor, self.constant(np.float32(0.0)), self.constant(np.float32(6.0)))

    def rows(self, tensor: str, *shape: int) -> str:
        """Add a reshape."""
        return self.op("Reshape", tensor, self.constant(list(shape)), shape=shape)

    def norm(self, tensor: str) -> str:
        """Add a layer normalisation over the last axis."""
        size = self.shape(tensor)[-1]
        return self.op("LayerNormalization", tensor, self.uniform(size, low=0.5, high=1.5), self.uniform(size), axis=-1)

    def joined(self, *tensors: str) -> str:
        """Concatenate channels."""
        batch, _, *space = self.shape(tensors[0])
        channels = sum(self.shape(item)[1] for item in tensors)
        return self.op("Concat", *tensors, shape=(batch, channels, *space), axis=1)


Act = Callable[[Sketch, str], str]
Block = Callable[[Sketch, str, Act], str]


def _silu(net: Sketch, tensor: str) -> str:
    return net.op("Mul", tensor, net.op("Sigmoid", tensor))


_ACTS: tuple[Act, ...] = (
    lambda net, tensor: net.op("Relu", tensor),
    lambda net, tensor: net.op("Relu", tensor),
    lambda net, tensor: net.op("Relu", tensor),
    lambda net, tensor: net.clip(tensor),
    lambda net, tensor: net.clip(tensor),
    lambda net, tensor: net.op("LeakyRelu", tensor, alpha=0.1),
    lambda net, tensor: net.op("HardSwish", tensor),
    lambda net, tensor: net.op("Tanh", tensor),
    lambda net, tensor: net.op("Sigmoid", tensor),
    lambda net, tensor: _silu(net, tensor) if net.chance(0.1) else net.op("HardSwish", tensor),
)


def _room(net: Sketch, tensor: str, made: int, kernel: int = 1) -> int:
    """Return a number of channels that keeps map and weights within bounds."""
    _, read, height, width = net.shape(tensor)
    fitting = _MOST_ELEMENTS // max(1, height * width)
    affordable = max(8, (_MOST_WEIGHTS - net.weights) // max(1, read * kernel * kernel))
    return max(4, min(made, fitting, affordable))


def _step(net: Sketch, tensor: str) -> int:
    return 2 if min(net.shape(tensor)[2:]) >= 8 and net.chance(0.4) else 1


def _wider(net: Sketch, tensor: str) -> int:
    channels = net.shape(tensor)[1]
    return channels if net.chance(0.4) else net.pick([one for one in _WIDTHS if channels // 2 <= one <= 4 * channels])


def _plain(net: Sketch, tensor: str, act: Act) -> str:
    side = net.pick((1, 1, 3, 3, 3, 3, 5, 7))
    kernel = (side, side) if not net.chance(0.08) else ((1, side), (side, 1))[net.pick((0, 1))]
    dilation = 2 if net.chance(0.05) else 1
    stride = _step(net, tensor) if dilation == 1 else 1
    return act(net, net.layer(tensor, _room(net, tensor, _wider(net, tensor), side), kernel, stride, 1, dilation))


def _separable(net: Sketch, tensor: str, act: Act) -> str:
    made = act(net, net.depthwise(tensor, net.pick((3, 3, 3, 5)), _step(net, tensor)))
    return act(net, net.layer(made, _room(net, made, _wider(net, made)), (1, 1)))


def _inverted(net: Sketch, tensor: str, act: Act) -> str:
    channels = net.shape(tensor)[1]
    wide = act(net, net.layer(tensor, _room(net, tensor, channels * net.pick((2, 3, 4, 6))), (1, 1)))
    stride = _step(net, wide)
    inner = act(net, net.depthwise(wide, net.pick((3, 3, 5)), stride))
    if net.chance(0.05):
        inner = _excited(net, inner, act)
    keeps = stride == 1 and net.chance(0.6)
    narrow = net.layer(inner, channels if keeps else _room(net, inner, _wider(net, tensor)), (1, 1))
    return net.op("Add", tensor, narrow) if keeps else narrow


def _excited(net: Sketch, tensor: str, act: Act) -> str:
    channels = net.shape(tensor)[1]
    mean = net.op("GlobalAveragePool", tensor, shape=(1, channels, 1, 1))
    inner = net.op("Relu", net.layer(mean, max(4, channels // 4), (1, 1)))
    return net.op("Mul", tensor, net.op("HardSigmoid", net.layer(inner, channels, (1, 1))), shape=net.shape(tensor))


def _residual(net: Sketch, tensor: str, act: Act) -> str:
    channels = net.shape(tensor)[1]
    inner = act(net, net.layer(tensor, channels, (3, 3)))
    return act(net, net.op("Add", tensor, net.layer(inner, channels, (3, 3))))


def _bottleneck(net: Sketch, tensor: str, act: Act) -> str:
    channels = net.shape(tensor)[1]
    narrow = max(4, channels // net.pick((2, 4)))
    inner = act(net, net.layer(tensor, narrow, (1, 1)))
    inner = act(net, net.layer(inner, narrow, (3, 3), 1, 4 if narrow % 4 == 0 and net.chance(0.15) else 1))
    return act(net, net.op("Add", net.layer(inner, channels, (1, 1)), tensor))


def _fire(net: Sketch, tensor: str, act: Act) -> str:
    channels = net.shape(tensor)[1]
    inner = act(net, net.layer(tensor, max(8, channels // 4), (1, 1)))
    sides = [act(net, net.layer(inner, max(8, channels // 2), (size, size))) for size in (1, 3)]
    return net.joined(*sides)


def _pooled(net: Sketch, tensor: str, act: Act) -> str:
    op = "MaxPool" if net.chance(0.75) else "AveragePool"
    return net.pool(op, tensor, *((2, 2), (3, 2), (3, 1), (5, 1))[net.pick((0, 0, 1, 1, 2, 3))])


def _pyramid(net: Sketch, tensor: str, act: Act) -> str:
    lower = act(net, net.layer(tensor, _room(net, tensor, 2 * net.shape(tensor)[1], 3), (3, 3), 2))
    upper = net.doubled(act(net, net.layer(lower, max(8, net.shape(lower)[1] // 2), (1, 1))))
    if net.shape(upper)[2:] != net.shape(tensor)[2:]:
        return lower
    return act(net, net.layer(net.joined(upper, tensor), net.shape(tensor)[1], (1, 1)))


def _focused(net: Sketch, tensor: str) -> str:
    """Add the four halves of a picture, rows and columns apart, side by side as channels."""
    batch, channels, height, width = net.shape(tensor)
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        starts, ends = net.constant([row, column]), net.constant([height, width])
        axes, steps = net.constant([2, 3]), net.constant([2, 2])
        shape = (batch, channels, height // 2, width // 2)
        parts.append(net.op("Slice", tensor, starts, ends, axes, steps, shape=shape))
    return net.joined(*parts)


def _shuffled(net: Sketch, tensor: str, act: Act) -> str:
    batch, channels, height, width = net.shape(tensor)
    if channels % 4:
        return _separable(net, tensor, act)
    left, right = net.split(tensor)
    inner = net.depthwise(act(net, net.layer(right, channels // 2, (1, 1))), 3)
    made = net.joined(left, act(net, net.layer(inner, channels // 2, (1, 1))))
    split = net.rows(made, batch, 2, channels // 2, height, width)
    turned = net.op("Transpose", split, shape=(batch, channels // 2, 2, height, width), perm=(0, 2, 1, 3, 4))
    return net.rows(turned, batch, channels, height, width)


def _upsampled(net: Sketch, tensor: str, act: Act) -> str:
    batch, read, height, width = net.shape(tensor)
    made = _room(net, tensor, read // 2, 4) if height * width * read * 4 < _MOST_ELEMENTS else 0
    if not made:
        return _separable(net, tensor, act)
    form = {"kernel_shape": (2, 2), "strides": (2, 2)}
    shape = (batch, made, 2 * height, 2 * width)
    return act(net, net.op("ConvTranspose", tensor, net.weight(read, made, 2, 2), shape=shape, **form))


def _scaled(net: Sketch, tensor: str, act: Act) -> str:
    inner = act(net, net.layer(tensor, net.shape(tensor)[1], (3, 3)))
    return net.op("Mul", inner, net.uniform(net.shape(inner)[1], 1, 1))


def _crossed(net: Sketch, tensor: str, act: Act) -> str:
    """Add half of a partial network: one side goes through a residual block, and both meet."""
    channels = max(8, net.shape(tensor)[1] // 2)
    sides = [act(net, net.layer(tensor, channels, (1, 1))) for _ in range(2)]
    made = net.joined(_residual(net, sides[0], act), sides[1])
    return act(net, net.layer(made, net.shape(tensor)[1], (1, 1)))


_BLOCKS: tuple[Block, ...] = (
    *(_plain,) * 4,
    *(_separable,) * 3,
    *(_inverted,) * 3,
    *(_residual,) * 2,
    _bottleneck,
    _fire,
    _pooled,
    _pyramid,
)


_MOVING: tuple[Block, ...] = (
    *(_shuffled,) * 3,
    *(_crossed,) * 3,
    *(_plain,) * 2,
    *(_separable,) * 2,
    _inverted,
    _upsampled,
    _scaled,
    _pooled,
    _pyramid,
)
"""Of every fourth network: more that moves data, and gates on every map."""


def _convolutional(net: Sketch, operators: int, blocks: Sequence[Block], acts: Sequence[Act]) -> list[str]:
    height = net.pick((10, 16, 28, 32, 40, 48, 56, 64, 96, 112, 128, 160, 192, 224, 256, 320))
    width = height if net.chance(0.7) else net.pick((10, 20, 32, 40, 49, 64, 96, 160, 240, 320))
    act = acts[net.pick(range(len(acts)))]
    tensor = net.input("x", 1, net.pick((1, 3, 3, 3)), height, width)
    if acts == (_silu,) and height % 2 == width % 2 == 0 and height * width > 1600:
        tensor = _focused(net, tensor)
    kernel = net.pick((3, 3, 3, 5, 7))
    stride = 2 if height * width > 1600 else 1
    tensor = act(net, net.layer(tensor, net.pick((8, 16, 24, 32, 32, 64)), (kernel, kernel), stride))
    # Large maps are rare in real networks: most blocks follow a second halving.
    if height * width > 10_000 and net.chance(0.7):
        tensor = _separable(net, net.pool("MaxPool", tensor, 2, 2), act)
    ends: list[str] = []
    while len(net.nodes) < operators:
        tensor = blocks[net.pick(range(len(blocks)))](net, tensor, act)
        if min(net.shape(tensor)[2:]) < 3:
            break
        if net.chance(0.08):
            ends.append(net.layer(tensor, net.pick(_HEADS), (1, 1)))
    return [*ends, _head(net, tensor)]


def _wide(net: Sketch, operators: int) -> list[str]:
    """Add the second half of a classifier: hundreds of channels on small maps, equal blocks one after the other."""
    side, width = net.pick((7, 10, 13, 14, 14, 20, 28)), net.pick((96, 128, 192, 256, 320, 384, 512))
    act = _ACTS[net.pick(range(5))]
    tensor = act(net, net.layer(net.input("x", 1, net.pick((32, 64, 128)), side, side), width, (1, 1)))
    block = (_even, _even, _inverted, _residual, _bottleneck)[net.pick(range(5))]
    while len(net.nodes) < operators and net.weights < _WIDE_WEIGHTS:
        tensor = block(net, tensor, act)
        if min(net.shape(tensor)[2:]) >= 12 and net.chance(0.15):
            tensor = act(net, net.layer(act(net, net.depthwise(tensor, 3, 2)), 2 * net.shape(tensor)[1], (1, 1)))
    return [_head(net, tensor)]


def _detecting(net: Sketch) -> list[str]:
    """Add heads over a pyramid of maps, each laid out anew with a row for every place, and all rows together."""
    side, width = net.pick((20, 28, 32, 40, 52, 64)), net.pick((16, 24, 32, 64))
    act, rows = _ACTS[net.pick(range(5))], net.pick(_HEADS)
    tensor = act(net, net.layer(net.input("x", 1, net.pick((8, 16, 32)), side, side), width, (3, 3)))
    parts, joins = [], net.chance(0.5)
    for _ in range(3):
        made = net.layer(tensor, rows, (1, 1))
        _, _, height, across = net.shape(made)
        flat = net.rows(made, 1, rows, height * across)
        shape = (1, height * across, rows)
        parts.append(flat if joins else net.op("Transpose", flat, shape=shape, perm=(0, 2, 1)))
        tensor = _separable(net, net.pool("MaxPool", tensor, 2, 2), act)
    axis = 2 if joins else 1
    total = sum(net.shape(part)[axis] for part in parts)
    whole = net.op("Concat", *parts, shape=(1, rows, total) if joins else (1, total, rows), axis=axis)
    return [net.op("Transpose", whole, shape=(1, total, rows), perm=(0, 2, 1)) if joins else whole]


def _decoding(net: Sketch, operators: int) -> list[str]:
    """Add a decoder: from a small map to a large one by transposed convolutions, some of each channel alone."""
    side, width = net.pick((5, 8, 10, 13, 16, 20, 28, 32, 40)), net.pick((12, 16, 24, 32, 48, 64, 96, 128))
    act = (*_ACTS[:6], lambda _, tensor: tensor)[net.pick(range(7))]
    tensor = act(net, net.layer(net.input("x", 1, net.pick((8, 16, 32, 64)), side, side), width, (3, 3)))
    while len(net.nodes) < operators:
        _, read, height, across = net.shape(tensor)
        if 4 * read * height * across > _MOST_ELEMENTS:
            break
        made = read if net.chance(0.6) else max(4, read // net.pick((1, 2, 2, 3)))
        tensor = act(net, net.grown(tensor, made, net.pick((2, 2, 3, 4)), alone=made == read and net.chance(0.5)))
        if net.chance(0.5):
            tensor = act(net, net.layer(tensor, net.pick((made, max(4, made // 2))), (3, 3)))
    return [net.grown(tensor, net.pick((1, 1, 2, 8)), 2), _head(net, tensor)]


def _recurrent(net: Sketch) -> list[str]:
    """Add a recurrent layer, which is written step by step afterwards, and a classifier."""
    op, gates = (("RNN", 1), ("GRU", 3), ("LSTM", 4))[net.pick((0, 1, 2, 2))]
    steps, read, hidden = (
        net.pick((2, 3, 4, 6, 8)),
        net.pick((4, 10, 20, 28, 40, 64)),
        net.pick((4, 10, 16, 20, 32, 64)),
    )
    weights = (net.weight(1, gates * hidden, read), net.weight(1, gates * hidden, hidden))
    bias = net.uniform(1, 2 * gates * hidden)
    tensor = net.input("x", steps, 1, read)
    if net.chance(0.5):
        tensor = net.op("Tanh", net.product(tensor, read))
    made = net.op(op, tensor, *weights, bias, shape=(steps, 1, 1, hidden), hidden_size=hidden)
    return [net.dense(net.rows(made, steps, hidden), net.pick((1, 2, 10, 12)))]


def _small(net: Sketch, operators: int) -> list[str]:
    """Add layers of a few features: sums, products, gates and functions of what two layers make, halves, joined."""
    width = net.pick((4, 8, 12, 16, 20, 32, 48, 64, 100, 128))
    tensor = net.dense(net.input("x", 1, net.pick((4, 10, 16, 40))), width)
    while len(net.nodes) < operators:
        left = net.op(("Sigmoid", "Tanh", "Relu")[net.pick(range(3))], net.dense(tensor, width))
        right = net.dense(tensor, width) if net.chance(0.5) else tensor
        made = net.op(("Add", "Mul", "Sub")[net.pick((0, 0, 0, 1, 1, 2))], left, right)
        if net.chance(0.4):
            halves = net.split(made)
            parts = (net.op("Sigmoid", halves[0]), net.op("Tanh", halves[1]))
            made = net.op("Concat", *parts, shape=net.shape(made), axis=1)
        tensor = net.op("Add", made, left) if net.chance(0.3) else made
    return [net.op("Softmax", tensor, axis=-1) if net.chance(0.3) else net.dense(tensor, 2)]


def _even(net: Sketch, tensor: str, act: Act) -> str:
    made = act(net, net.depthwise(tensor, net.pick((3, 3, 3, 5))))
    return act(net, net.layer(made, net.shape(tensor)[1], (1, 1)))


def _head(net: Sketch, tensor: str) -> str:
    kind = net.pick((0, 0, 0, 0, 0, 0, 1, 2))
    if kind == 0:
        made = net.layer(tensor, net.pick(_HEADS), (net.pick((1, 3)),) * 2)
        return net.op("Sigmoid", made) if net.chance(0.5) else made
    channels = net.shape(tensor)[1]
    mean = net.op("GlobalAveragePool", tensor, shape=(1, channels, 1, 1))
    if kind == 1:
        return net.layer(mean, net.pick((10, 35, 100, 200, 1000, 1001)), (1, 1))
    return net.dense(net.rows(mean, 1, channels), net.pick((2, 10, 35, 100, 200, 1000)))


def _decoded(net: Sketch, operators: int) -> list[str]:
    """Add maps that are decoded: places, sizes and scores, each by functions and constants, joined and turned."""
    side, anchors = net.pick((5, 7, 8, 10, 13, 14, 20, 26, 40)), net.pick((1, 1, 2, 3))
    tensor = net.op(
        "Relu", net.layer(net.input("x", 1, net.pick((3, 16, 32)), side, side), net.pick((8, 16, 32, 64)), (3, 3))
    )
    ends = []
    while len(net.nodes) < operators:
        tensor = net.op("Relu", net.layer(tensor, net.shape(tensor)[1], (net.pick((1, 3)),) * 2))
        parts = [
            _with_constants(net, net.layer(tensor, anchors * size, (1, 1)), function)
            for size, function in (
                (2, "Sigmoid"),
                (2, "Tanh"),
                (net.pick((1, 2, 6, 11, 21)), "Sigmoid"),
            )
        ]
        joined = net.joined(*parts)
        channels = net.shape(joined)[1]
        flat = net.rows(joined, 1, channels, side * side)
        ends.append(
            net.op("Transpose", flat, shape=(1, side * side, channels), perm=(0, 2, 1)) if net.chance(0.7) else flat
        )
    return ends


def _with_constants(net: Sketch, tensor: str, function: str) -> str:
    """Add a function, and products and sums with one number, one of each channel, or one of each place."""
    made = net.op(function, tensor) if net.chance(0.8) else tensor
    _, channels, height, width = net.shape(made)
    for op in ("Mul", "Add", "Sub", "Mul", "Add"):
        if net.chance(0.4):
            shape = ((1,), (1, channels, 1, 1), (1, channels, height, width))[net.pick((0, 0, 1, 2))]
            made = net.op(op, made, net.constant(net.rng.uniform(0.5, 2.0, shape).astype(np.float32)))
    return made


def _attention(net: Sketch, operators: int) -> list[str]:
    length, width = net.pick((16, 32, 49, 64, 98, 128, 196)), net.pick((32, 48, 64, 96, 128, 192))
    tensor = net.product(net.input("x", 1, length, net.pick((16, 40, 64, 96, 192))), width)
    while len(net.nodes) < operators:
        query, key, value = (net.product(net.norm(tensor), width) for _ in range(3))
        turned = net.op("Transpose", key, shape=(1, width, length), perm=(0, 2, 1))
        weights = net.op("Softmax", net.op("MatMul", query, turned, shape=(1, length, length)), axis=-1)
        mixed = net.product(net.op("MatMul", weights, value, shape=(1, length, width)), width)
        tensor = net.op("Add", tensor, mixed)
        inner = net.op("Gelu", net.product(net.norm(tensor), net.pick((2, 4)) * width))
        tensor = net.op("Add", tensor, net.product(inner, width))
    return [tensor]


def network(seed: int) -> Graph:
    """Return the network of a seed, 6 to 40 operators, of recurrent cells up to some hundreds.

    Of those of the first family every 24th is one of attention.

    Operators of the shaders are rarer than in life: their kernels take the vendor's compiler seconds, and its model
    knows only their traffic.
    """
    net = Sketch(seed)
    operators = int(net.rng.integers(6, 40))
    if seed >= _DECODED_FROM:
        return net.graph(*_decoded(net, operators), name=f"seed{seed}")
    if seed >= _SMALL_FROM and seed % 2:
        graph = normalize(net.graph(*_recurrent(net), name=f"seed{seed}"))
        return next(rewrite for rewrite in REWRITES if rewrite.name == "unroll-recurrent")(graph)
    if seed >= _SMALL_FROM:
        ends = _small(net, operators)
    elif seed >= _DECODERS_FROM:
        ends = _decoding(net, operators)
    elif seed >= _HEADS_FROM:
        ends = _detecting(net)
    elif seed >= _WIDE_FROM:
        ends = _wide(net, operators)
    elif seed >= _GATED_FROM:
        ends = _convolutional(net, operators, (*_MOVING, *_BLOCKS), (_silu,))
    elif seed % 24 == 23:
        ends = _attention(net, operators)
    elif seed % 4 == 3:
        ends = _convolutional(net, operators, _MOVING, (*_ACTS[:4], _silu))
    else:
        ends = _convolutional(net, operators, _BLOCKS, _ACTS)
    return net.graph(*dict.fromkeys(ends), name=f"seed{seed}")
