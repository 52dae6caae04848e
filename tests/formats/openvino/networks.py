"""Random networks of what OpenVINO and NNCF know."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.testing.networks import Network

from ..test_demands import sourced

Draw = np.random.Generator


def _plain(op: str, **attributes: object) -> Callable[[Network, str, Draw], str]:
    return lambda net, tensor, rng: net.op(op, tensor, shape=None, **attributes)


def _conv(net: Network, tensor: str, rng: Draw) -> str:
    return net.conv(tensor, int(rng.integers(3, 9)), int(rng.choice([1, 3])), bool(rng.integers(2)))


def _depthwise(net: Network, tensor: str, rng: Draw) -> str:
    channels = net.shape(tensor)[1]
    kernel = net.uniform(channels, 1, 3, 3)
    return net.op("Conv", tensor, kernel, net.uniform(channels), group=channels, pads=(1, 1, 1, 1))


def _clip(net: Network, tensor: str, rng: Draw) -> str:
    return net.op("Clip", tensor, net.constant(np.float32(-0.5 * rng.integers(2))), net.constant(np.float32(6.0)))


def _pair(op: str) -> Callable[[Network, str, Draw], str]:
    def step(net: Network, tensor: str, rng: Draw) -> str:
        made = [*net.inputs, *(name for node in net.nodes for name in node.outputs)]
        return net.op(op, tensor, str(rng.choice([name for name in made if net.shape(name) == net.shape(tensor)])))

    return step


def _constant(op: str) -> Callable[[Network, str, Draw], str]:
    return lambda net, tensor, rng: net.op(op, tensor, net.uniform(net.shape(tensor)[1], 1, 1))


def _join(net: Network, tensor: str, rng: Draw) -> str:
    batch, channels, *space = net.shape(tensor)
    other = net.op("Tanh", tensor)
    return net.op("Concat", tensor, other, shape=(batch, 2 * channels, *space), axis=1) if channels < 9 else other


def _gate(net: Network, tensor: str, rng: Draw) -> str:
    batch, channels, *_ = net.shape(tensor)
    return net.op("Mul", tensor, net.op("Sigmoid", net.op("GlobalAveragePool", tensor, shape=(batch, channels, 1, 1))))


def _product(net: Network, tensor: str, rng: Draw) -> str:
    width = net.shape(tensor)[3]
    made = net.op("MatMul", tensor, net.uniform(width, width, low=-0.3, high=0.3))
    return net.op("Add", made, net.uniform(width)) if rng.integers(2) else made


_STEPS: tuple[Callable[[Network, str, Draw], str], ...] = (
    *(_conv, _conv, _conv, _depthwise, _product, _clip, _plain("Relu"), _plain("Sigmoid"), _plain("Softmax", axis=1)),
    *(_plain("HardSwish"), _plain("LeakyRelu", alpha=0.1), _pair("Add"), _pair("Mul"), _pair("Sub"), _constant("Add")),
    *(_constant("Mul"), _plain("MaxPool", kernel_shape=(3, 3), pads=(1,) * 4), _join, _gate, _plain("Gelu")),
    *(_plain("AveragePool", kernel_shape=(3, 3), pads=(1,) * 4, count_include_pad=1), _plain("Abs")),
    lambda net, tensor, rng: net.split(tensor)[int(rng.integers(2))],
    lambda net, tensor, rng: net.op("Transpose", tensor, shape=net.shape(tensor), perm=(0, 1, 3, 2)),
)


def network(number: int, count: int = 9) -> Graph:
    """Return a random network with branches of tensors with many values."""
    rng, net = np.random.default_rng(number), Network(number)
    made = [net.input("x", 1, 4, 24, 24)]
    for _ in range(count):
        tensor = made[int(rng.integers(max(0, len(made) - 3), len(made)))]
        step = _STEPS[int(rng.integers(len(_STEPS)))]
        made.append(step(net, tensor, rng) if net.shape(tensor)[1] > 1 else _conv(net, tensor, rng))
    net.conv(made[-1], 4)
    read = {name for node in net.nodes for name in node.inputs}
    computed = [name for node in net.nodes for name in node.outputs]
    return sourced(normalize(net.graph(*(name for name in computed if name not in read))))
