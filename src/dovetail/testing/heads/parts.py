"""Parts that heads of several designs share: decoders, selections, resizes, layers over tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import DType, Node, TensorType
from dovetail.testing.heads.net import HeadNet


def cells(net: HeadNet, features: Sequence[str], size: tuple[int, int], anchors: int = 1) -> tuple[str, str]:
    """Return the constants `[1, P, 2]` and `[1, P, 1]`: the centres of the cells, in pixels, and their strides."""
    points, strides = [], []
    for feature in features:
        rows, cols = net.shape(feature)[2:]
        stride = size[0] / rows
        y, x = np.meshgrid(np.arange(rows) + 0.5, np.arange(cols) + 0.5, indexing="ij")
        points.append(np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2) * stride, anchors, axis=0))
        strides.append(np.full((rows * cols * anchors, 1), stride))
    return (
        net.constant(np.concatenate(points)[None].astype(np.float32)),
        net.constant(np.concatenate(strides)[None].astype(np.float32)),
    )


def table(net: HeadNet, features: Sequence[str], channels: int, anchors: int = 1) -> str:
    """Return `[1, P, channels]` of convolutions over all features."""
    return net.concat([net.rows(net.conv(item, anchors * channels), channels) for item in features], 1)


def corners(net: HeadNet, features: Sequence[str], size: tuple[int, int]) -> str:
    """Return decoded boxes `[1, P, 4]`: corners in pixels."""
    low, high = _sides(net, features, size)
    return net.concat([low, high], 2)


def middles(net: HeadNet, features: Sequence[str], size: tuple[int, int]) -> str:
    """Return decoded boxes `[1, P, 4]`: centres and sizes in pixels."""
    low, high = _sides(net, features, size)
    half = net.constant(np.float32(0.5))
    return net.concat([net.op("Mul", net.op("Add", low, high), half), net.op("Sub", high, low)], 2)


def _sides(net: HeadNet, features: Sequence[str], size: tuple[int, int]) -> tuple[str, str]:
    points, strides = cells(net, features, size)
    distances = net.op("Mul", net.relu(table(net, features, 4)), strides)
    first = net.part(distances, 0, 2, 2)
    low = net.op("Sub", points, first, shape=net.shape(first))
    return low, net.op("Add", points, net.part(distances, 2, 4, 2), shape=net.shape(first))


def best_places(net: HeadNet, scores: str, count: int) -> tuple[str, str]:
    """Return the highest of scores `[1, P]`, and their places `[1, count]`."""
    number = len(net.nodes)
    names = (f"best{number}", f"at{number}")
    net.types[names[0]] = TensorType(DType.F32, (1, count))
    net.types[names[1]] = TensorType(DType.I64, (1, count))
    net.nodes.append(Node(f"n{number}", "TopK", (scores, net.constant([count])), names, {"axis": 1}))
    return names


def picked(net: HeadNet, rows: str, at: str) -> str:
    """Return the rows `[1, count, C]` of `[1, P, C]` at some places `[1, count]`."""
    count, width = net.shape(at)[1], net.shape(rows)[2]
    flat = typed(net, net.reshape(at, count), DType.I64)
    return net.op("Gather", rows, flat, shape=(1, count, width), axis=1)


def typed(net: HeadNet, tensor: str, dtype: DType) -> str:
    """Declare the element type of a tensor and return it."""
    net.types[tensor] = TensorType(dtype, net.types[tensor].shape)
    return tensor


def cast(net: HeadNet, tensor: str, dtype: DType) -> str:
    """Add a Cast."""
    code = {DType.F32: 1, DType.I32: 6, DType.I64: 7}[dtype]
    return typed(net, net.op("Cast", tensor, to=code), dtype)


def kept_by_suppression(net: HeadNet, boxes: str, scores: str, most: int) -> tuple[str, str]:
    """Return the places `[n]` and the classes `[n]` that a NonMaxSuppression keeps of `[1, P, 4]` and `[1, C, P]`."""
    limits = (
        net.constant([most]),
        net.constant(np.array([0.6], np.float32)),
        net.constant(np.array([0.3], np.float32)),
    )
    kept = typed(net, net.op("NonMaxSuppression", boxes, scores, *limits, shape=("n", 3)), DType.I64)
    found = [
        typed(net, net.op("Gather", kept, net.constant(np.int64(column)), shape=("n",), axis=1), DType.I64)
        for column in (2, 1)
    ]
    return found[0], found[1]


def resized(net: HeadNet, tensor: str, size: tuple[int, int]) -> str:
    """Add a linear Resize of a map to so many rows and columns."""
    batch, channels, rows, cols = net.shape(tensor)
    scales = net.constant(np.array([1.0, 1.0, size[0] / rows, size[1] / cols], np.float32))
    empty = net.constant(np.zeros(0, np.float32))
    return net.op("Resize", tensor, empty, scales, shape=(batch, channels, *size), mode="linear")


def product(net: HeadNet, rows: str, count: int) -> str:
    """Add a MatMul with weights and a bias to `[1, T, C]`."""
    batch, length, width = net.shape(rows)
    reach = 2.0 / float(np.sqrt(width))
    made = net.op("MatMul", rows, net.uniform(width, count, low=-reach, high=reach), shape=(batch, length, count))
    return net.op("Add", made, net.uniform(count, low=-0.3, high=0.3))


def queries(net: HeadNet, feature: str, count: int) -> str:
    """Return `[1, count, C]`: what queries see of a feature map by attention."""
    tokens = net.rows(feature, net.shape(feature)[1])
    places, width = net.shape(tokens)[1:]
    asked = net.uniform(1, count, width)
    weights = net.softmax(net.op("MatMul", asked, net.transpose(tokens, (0, 2, 1)), shape=(1, count, places)))
    return net.op("MatMul", weights, tokens, shape=(1, count, width))


def normalised(net: HeadNet, rows: str) -> str:
    """Add a LayerNormalization over the last axis."""
    width = net.shape(rows)[-1]
    return net.op("LayerNormalization", rows, net.uniform(width, low=0.5, high=1.5), net.uniform(width), axis=-1)


def along(net: HeadNet, sequence: str, channels: int, stride: int = 1) -> str:
    """Add a convolution of width 3 along `[1, C, T]`, and a Relu."""
    batch, read, length = net.shape(sequence)
    weight = net.uniform(channels, read, 3, low=-0.5, high=0.5)
    shape = (batch, channels, (length - 1) // stride + 1)
    made = net.op("Conv", sequence, weight, net.uniform(channels), shape=shape, pads=(1, 1), strides=(stride,))
    return net.relu(made)
