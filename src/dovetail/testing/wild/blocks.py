"""Blocks of real networks, each grown from one tensor of a random graph."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail.testing.wild.growth import Growth, UnfitError

Block = Callable[[Growth, str], str]

_CHANNELS = (1, 3, 4, 5, 8, 12, 16, 17, 24, 32)
_SIDES = (1, 3, 5, 7, 8, 9, 12, 16, 17)
_IMAGE, _ROWS = 4, 3
"""Ranks: `[batch, channels, height, width]` and `[batch, places, channels]`."""


def start(growth: Growth) -> str:
    """Return an input: mostly an image, at times rows or a vector."""
    draw = growth.draw
    batch = draw.pick(1, 1, 1, 2, 3)
    rank = draw.pick(_IMAGE, _IMAGE, _IMAGE, _ROWS, 2)
    if rank == _IMAGE:
        channels = draw.pick(*_CHANNELS, 130)
        return growth.input(batch, channels, draw.pick(*_SIDES), draw.pick(*_SIDES))
    return growth.input(batch, *(draw.pick(*_CHANNELS, 130) for _ in range(rank - 1)))


def _weight(growth: Growth, shape: tuple[int, ...], reads: int, axis: int = 0) -> str:
    """Return a weight as uneven as trained ones: channels that are dead, small or one-sided."""
    rng, draw = growth.rng, growth.draw
    value = rng.normal(0.0, 1.0 / math.sqrt(reads), shape)
    if draw.chance(0.1):
        value = np.abs(value) * draw.pick(1.0, -1.0)
    along = [1] * len(shape)
    along[axis] = shape[axis]
    if draw.chance(0.3):
        value = value * (10.0 ** rng.uniform(-4.0, 0.5, along))
    if draw.chance(0.2):
        value = value * (rng.random(along) > 0.2)
    if draw.chance(0.1):
        value = value * draw.pick(1e-6, 1e-3, 10.0, 100.0)
    return growth.constant(value.astype(np.float64))


def _bias(growth: Growth, count: int) -> tuple[str, ...]:
    draw = growth.draw
    if draw.chance(0.3):
        return ()
    size = draw.pick(0.1, 0.1, 1.0, 30.0, 0.0)
    return (growth.constant(growth.rng.normal(0.0, 1.0, (count,)) * size),)


def _image(growth: Growth, tensor: str) -> tuple[int, int, int, int]:
    shape = growth.shape(tensor)
    if len(shape) != _IMAGE:
        raise UnfitError
    return shape[0], shape[1], shape[2], shape[3]


def _conv(growth: Growth, tensor: str, *, outer: int = 0, side: int = 0, group: int = 1, stride: int = 1) -> str:
    """Add a convolution that keeps the size where the stride is 1."""
    batch, channels, height, width = _image(growth, tensor)
    draw = growth.draw
    outer = outer or draw.pick(*_CHANNELS)
    side = side or draw.pick(1, 1, 3, 3, 5)
    spread = draw.pick(1, 1, 1, 2) if side > 1 else 1
    growth.spend(batch * channels * outer * side * side * height * width // (stride * stride))
    reads = channels // group * side * side
    weight = _weight(growth, (outer, channels // group, side, side), reads)
    pad = spread * (side // 2)
    attributes = {"pads": (pad,) * 4, "group": group, "strides": (stride,) * 2, "dilations": (spread,) * 2}
    return growth.op("Conv", tensor, weight, *_bias(growth, outer), **attributes)


def convolution(growth: Growth, tensor: str) -> str:
    """Add a convolution and mostly an activation."""
    made = _conv(growth, tensor, stride=growth.draw.pick(1, 1, 2, 3, 4))
    return activation(growth, made) if growth.draw.chance(0.7) else made


def uneven_convolution(growth: Growth, tensor: str) -> str:
    """Add a convolution with a rectangular kernel, uneven strides and pads."""
    batch, channels, height, width = _image(growth, tensor)
    draw = growth.draw
    kernel = (min(draw.pick(1, 2, 3, 4, 7), height), min(draw.pick(1, 2, 3, 4, 7), width))
    outer = draw.pick(*_CHANNELS)
    growth.spend(batch * channels * outer * math.prod(kernel) * height * width)
    weight = _weight(growth, (outer, channels, *kernel), channels * math.prod(kernel))
    pads = tuple(draw.whole(0, size // 2) for size in (*kernel, *kernel))
    strides = (draw.pick(1, 2, 3), draw.pick(1, 2, 4))
    return growth.op("Conv", tensor, weight, *_bias(growth, outer), pads=pads, strides=strides)


def depthwise(growth: Growth, tensor: str) -> str:
    """Add a depthwise convolution, an activation and a pointwise convolution."""
    channels = _image(growth, tensor)[1]
    if channels == 1:
        raise UnfitError
    stride, side = growth.draw.pick(1, 1, 2), growth.draw.pick(3, 3, 5)
    made = _conv(growth, tensor, outer=channels, side=side, group=channels, stride=stride)
    return _conv(growth, activation(growth, made), side=1)


def grouped(growth: Growth, tensor: str) -> str:
    """Add a grouped convolution."""
    channels = _image(growth, tensor)[1]
    groups = [count for count in (2, 3, 4) if channels % count == 0 and channels > count]
    if not groups:
        raise UnfitError
    group = growth.draw.pick(*groups)
    return _conv(growth, tensor, outer=group * growth.draw.pick(1, 2, 4), group=group)


def transposed_convolution(growth: Growth, tensor: str) -> str:
    """Add a transposed convolution."""
    batch, channels, height, width = _image(growth, tensor)
    draw = growth.draw
    side, stride, outer = draw.pick(2, 3, 4), draw.pick(1, 2, 2, 3), draw.pick(1, 3, 4, 8)
    growth.spend(batch * channels * outer * side * side * height * width * stride * stride)
    weight = _weight(growth, (channels, outer, side, side), channels * side, axis=1)
    pads = (draw.pick(0, 1),) * 4
    return growth.op("ConvTranspose", tensor, weight, *_bias(growth, outer), pads=pads, strides=(stride,) * 2)


_PLAIN = ("Relu", "Relu", "Relu", "Sigmoid", "Tanh", "HardSwish", "Mish", "Softplus", "Softsign", "Abs", "Neg", "Erf")


def activation(growth: Growth, tensor: str) -> str:
    """Add an activation."""
    draw = growth.draw
    kind = draw.pick("plain", "plain", "clip", "leaky", "hard", "swish", "gelu", "elu", "prelu")
    if kind == "plain":
        return growth.op(draw.pick(*_PLAIN), tensor)
    if kind == "clip":
        low, high = draw.pick((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0), (0.5, 2.0))
        return growth.op("Clip", tensor, growth.constant(low), growth.constant(high))
    if kind == "leaky":
        return growth.op("LeakyRelu", tensor, alpha=draw.pick(0.1, 0.01, 0.3))
    if kind == "hard":
        return growth.op("HardSigmoid", tensor, alpha=float(np.float32(1 / 6)), beta=0.5)
    if kind == "swish":
        return growth.op("Mul", tensor, growth.op("Sigmoid", tensor))
    if kind == "gelu":
        return growth.op("Gelu", tensor, approximate=draw.pick("none", "tanh"))
    if kind == "elu":
        return growth.op("Elu", tensor, alpha=1.0)
    shape = growth.shape(tensor)
    if len(shape) != _IMAGE:
        raise UnfitError
    return growth.op("PRelu", tensor, growth.constant(growth.rng.uniform(-0.3, 0.5, (shape[1], 1, 1))))


def residual(growth: Growth, tensor: str) -> str:
    """Add two convolutions and a sum with where they started."""
    channels = _image(growth, tensor)[1]
    made = activation(growth, _conv(growth, tensor))
    made = growth.op(growth.draw.pick("Add", "Add", "Sub"), _conv(growth, made, outer=channels), tensor)
    return growth.op("Relu", made) if growth.draw.chance(0.6) else made


def excitation(growth: Growth, tensor: str) -> str:
    """Add a squeeze and excitation: averages that scale the channels."""
    channels = _image(growth, tensor)[1]
    made = growth.op("GlobalAveragePool", tensor)
    made = growth.op("Relu", _conv(growth, made, outer=max(channels // 4, 1), side=1))
    made = _conv(growth, made, outer=channels, side=1)
    gate = growth.op("Sigmoid", made) if growth.draw.chance(0.5) else growth.op("HardSigmoid", made, alpha=0.2)
    return growth.op("Mul", tensor, gate)


def inception(growth: Growth, tensor: str) -> str:
    """Add branches and join them."""
    draw = growth.draw
    branches = [_conv(growth, tensor, side=side) for side in draw.pick((1, 3), (1, 1, 3), (3, 5))]
    if draw.chance(0.5):
        branches.append(growth.op("MaxPool", tensor, kernel_shape=(3, 3), pads=(1, 1, 1, 1)))
    branches = [growth.op("Relu", name) if draw.chance(0.5) else name for name in branches]
    return growth.op("Concat", *branches, axis=1)


def pooling(growth: Growth, tensor: str) -> str:
    """Add a pooling."""
    _, _, height, width = _image(growth, tensor)
    draw = growth.draw
    if draw.chance(0.25):
        return growth.op(draw.pick("GlobalAveragePool", "GlobalMaxPool"), tensor)
    kernel = (min(draw.pick(2, 2, 3, 5), height), min(draw.pick(2, 2, 3), width))
    attributes: dict[str, object] = {"kernel_shape": kernel, "strides": (draw.pick(1, 2), draw.pick(1, 2, 2))}
    if draw.chance(0.4):
        attributes["pads"] = tuple(size // 2 for size in (*kernel, *kernel))
    if draw.chance(0.5):
        return growth.op("MaxPool", tensor, **attributes)
    return growth.op("AveragePool", tensor, count_include_pad=draw.pick(0, 1), **attributes)


def resize(growth: Growth, tensor: str) -> str:
    """Add an enlargement, nearest or linear."""
    shape = _image(growth, tensor)
    draw = growth.draw
    factor = draw.pick(2, 2, 3)
    sizes = growth.constant([*shape[:2], factor * shape[2], factor * shape[3]])
    nearest: dict[str, object] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    linear: dict[str, object] = {"mode": "linear"}
    linear["coordinate_transformation_mode"] = draw.pick("half_pixel", "align_corners", "asymmetric")
    return growth.op("Resize", tensor, "", "", sizes, **draw.pick(nearest, linear))


def pair(growth: Growth, tensor: str) -> str:
    """Add an operator of two operands: with an earlier tensor, with a constant, or with itself."""
    draw, shape = growth.draw, growth.shape(tensor)
    op = draw.pick("Add", "Add", "Mul", "Mul", "Sub", "Max", "Min", "Div")
    same = [name for name in growth.values if growth.shape(name) == shape]
    kind = draw.pick("earlier", "constant", "itself")
    if op == "Div":
        return growth.op(op, tensor, growth.constant(growth.rng.uniform(0.5, 4.0, (1,) * len(shape))))
    if kind == "earlier":
        return growth.op(op, tensor, draw.pick(*same))
    if kind == "itself":
        return growth.op("Mul", tensor, tensor)
    wide = draw.broadcast(shape)
    return growth.op(op, tensor, growth.constant(growth.rng.normal(0.0, 1.0, wide) * draw.pick(0.01, 1.0, 10.0)))


def normalisation(growth: Growth, tensor: str) -> str:
    """Add a normalisation."""
    draw, shape = growth.draw, growth.shape(tensor)
    if len(shape) < _ROWS or draw.chance(0.2):
        return _layer_norm(growth, tensor)
    channels, rng = shape[1], growth.rng
    scale, shift = (growth.constant(rng.normal(1.0, 0.3, (channels,))) for _ in range(2))
    if draw.chance(0.5) or len(shape) != _IMAGE:
        mean = growth.constant(rng.normal(0.0, 1.0, (channels,)))
        spread = growth.constant(10.0 ** rng.uniform(-3.0, 1.0, (channels,)))
        return growth.op("BatchNormalization", tensor, scale, shift, mean, spread)
    return growth.op("InstanceNormalization", tensor, scale, shift)


def _layer_norm(growth: Growth, tensor: str) -> str:
    width = growth.shape(tensor)[-1]
    if growth.draw.chance(0.4):
        # The root of the mean square, as newer transformers have it.
        square = growth.op("Mul", tensor, tensor)
        mean = growth.op("ReduceMean", square, growth.constant([-1]))
        root = growth.op("Sqrt", growth.op("Add", mean, growth.constant(1e-3)))
        return growth.op("Div", tensor, root)
    scale, shift = (growth.constant(growth.rng.normal(1.0, 0.3, (width,))) for _ in range(2))
    return growth.op("LayerNormalization", tensor, scale, shift, axis=-1)


def softmax(growth: Growth, tensor: str) -> str:
    """Add a softmax, mostly along the last axis."""
    rank = len(growth.shape(tensor))
    return growth.op("Softmax", tensor, axis=growth.draw.pick(-1, -1, 1 if rank > 1 else 0))


def shuffle(growth: Growth, tensor: str) -> str:
    """Exchange channels between groups."""
    batch, channels, height, width = _image(growth, tensor)
    groups = [count for count in (2, 3, 4) if channels % count == 0 and channels > count]
    if not groups:
        raise UnfitError
    group = growth.draw.pick(*groups)
    made = growth.op("Reshape", tensor, growth.constant([batch, group, channels // group, height, width]))
    made = growth.op("Transpose", made, perm=(0, 2, 1, 3, 4))
    return growth.op("Reshape", made, growth.constant([batch, channels, height, width]))


def moving(growth: Growth, tensor: str) -> str:
    """Add an operator that moves values."""
    draw, shape = growth.draw, growth.shape(tensor)
    kind = draw.pick("transpose", "reshape", "slice", "pad", "split", "concat", "depth", "flatten")
    if kind == "transpose":
        return growth.op("Transpose", tensor, perm=tuple(int(axis) for axis in growth.rng.permutation(len(shape))))
    if kind == "flatten":
        return growth.op("Flatten", tensor)
    if kind == "slice":
        axis = draw.whole(0, len(shape) - 1)
        low, high = sorted((draw.whole(0, shape[axis] - 1), draw.whole(0, shape[axis] - 1)))
        bounds = (growth.constant([value]) for value in (low, high + 1, axis, draw.pick(1, 1, 2)))
        return growth.op("Slice", tensor, *bounds)
    if kind == "concat":
        axis = draw.whole(0, len(shape) - 1)
        return growth.op("Concat", tensor, draw.pick(*_like(growth, shape)), axis=axis)
    if kind == "split":
        first = shape[-1] // 2
        if not first:
            raise UnfitError
        sizes = growth.constant([first, shape[-1] - first])
        parts = growth.split("Split", (tensor, sizes), 2, axis=-1)
        return growth.op("Concat", parts[1], growth.op("Relu", parts[0]), axis=-1)
    if kind == "reshape":
        return growth.op("Reshape", tensor, growth.constant([shape[0], math.prod(shape[1:-1]), shape[-1]]))
    _, channels, _, _ = _image(growth, tensor)
    if kind == "pad":
        widths = [draw.whole(0, 2) for _ in range(4)]
        return growth.op("Pad", tensor, growth.constant([0, 0, *widths[:2], 0, 0, *widths[2:]]))
    if channels % 4:
        return growth.op("SpaceToDepth", tensor, blocksize=1)
    return growth.op("DepthToSpace", tensor, blocksize=2, mode=draw.pick("DCR", "CRD"))


def _like(growth: Growth, shape: tuple[int, ...]) -> list[str]:
    return [name for name in growth.values if growth.shape(name) == shape]


def reduction(growth: Growth, tensor: str) -> str:
    """Add a reduction that keeps its axes."""
    rank, draw = len(growth.shape(tensor)), growth.draw
    axes = draw.pick([-1], [1], [rank - 2, rank - 1] if rank > _ROWS else [-1])
    op = draw.pick("ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
    return growth.op(op, tensor, growth.constant(axes))


def _rows(growth: Growth, tensor: str) -> str:
    """Return a tensor as `[batch, places, channels]`."""
    shape = growth.shape(tensor)
    if len(shape) == _ROWS:
        return tensor
    batch, channels, height, width = _image(growth, tensor)
    made = growth.op("Reshape", tensor, growth.constant([batch, channels, height * width]))
    return growth.op("Transpose", made, perm=(0, 2, 1))


def _dense(growth: Growth, tensor: str, made: int) -> str:
    """Add a product with a constant matrix, and mostly a bias."""
    shape = growth.shape(tensor)
    growth.spend(math.prod(shape) * made)
    weight = _weight(growth, (shape[-1], made), shape[-1], axis=1)
    found = growth.op("MatMul", tensor, weight)
    if growth.draw.chance(0.4):
        return found
    return growth.op("Add", found, growth.constant(growth.rng.normal(0.0, 0.3, (made,))))


def attention(growth: Growth, tensor: str) -> str:
    """Add an attention of one head and a sum with where it started."""
    data = _rows(growth, tensor)
    channels = growth.shape(data)[-1]
    inner = growth.draw.pick(4, 8, 17)
    query, key = (_dense(growth, data, inner) for _ in range(2))
    growth.spend(2 * math.prod(growth.shape(data)[:-1]) * growth.shape(data)[1] * (inner + channels))
    scores = growth.op("MatMul", query, growth.op("Transpose", key, perm=(0, 2, 1)))
    scores = growth.op("Mul", scores, growth.constant(1.0 / math.sqrt(inner)))
    weights = growth.op("Softmax", scores, axis=-1)
    return growth.op("Add", growth.op("MatMul", weights, _dense(growth, data, channels)), data)


def perceptron(growth: Growth, tensor: str) -> str:
    """Add two dense layers on rows, or one on a vector."""
    shape = growth.shape(tensor)
    if len(shape) != 2:
        data = _rows(growth, tensor)
        hidden = activation(growth, _dense(growth, data, growth.draw.pick(5, 16, 32)))
        return _dense(growth, hidden, growth.shape(data)[-1])
    made = growth.draw.pick(1, 3, 10, 17, 32)
    growth.spend(math.prod(shape) * made)
    weight = _weight(growth, (made, shape[1]), shape[1])
    return growth.op("Gemm", tensor, weight, *_bias(growth, made), transB=1)


def detection(growth: Growth, tensor: str) -> str:
    """Add the head of a detector: boxes, one objectness, classes, joined over two levels or handed out."""
    batch, _, height, width = _image(growth, tensor)
    draw = growth.draw
    boxes = _conv(growth, tensor, outer=4, side=1)
    objectness = growth.op("Sigmoid", _conv(growth, tensor, outer=1, side=draw.pick(1, 3)))
    classes = growth.op("Sigmoid", _conv(growth, tensor, outer=draw.pick(1, 3, 20), side=1))
    joined = growth.op("Concat", boxes, objectness, classes, axis=1)
    made = growth.op("Reshape", joined, growth.constant([batch, growth.shape(joined)[1], height * width]))
    made = growth.op("Transpose", made, perm=(0, 2, 1))
    if draw.chance(0.5):
        growth.heads.append(objectness)
    return made


BLOCKS: tuple[Block, ...] = (
    activation,
    attention,
    convolution,
    convolution,
    convolution,
    depthwise,
    depthwise,
    detection,
    excitation,
    grouped,
    inception,
    moving,
    moving,
    normalisation,
    pair,
    pair,
    perceptron,
    perceptron,
    pooling,
    pooling,
    reduction,
    residual,
    residual,
    resize,
    shuffle,
    softmax,
    transposed_convolution,
    uneven_convolution,
)
