"""Whether the first layer's biases are as large as its signals: the scale of the input, read from the weights.

Where a batch normalisation is folded into a convolution, the bias of a channel is its mean, shifted, over the standard
deviation that its signal had in training: both are of one size. An input that is 255 times too large or too small makes
the biases as much too small or too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backend.protocols import Executable
from dovetail.data.preprocess import Channels
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph, prune
from dovetail.ir.node import Node
from dovetail.outputs.ends import ImageInput

_SPREAD = 0.5
"""Standard deviation of the balance, in powers of ten: within a factor of three in two nets of three."""
_WEIGHTED = ("Conv", "Gemm")


@dataclass(frozen=True, slots=True)
class FirstLayer:
    """The first layer with weights and biases."""

    node: Node
    bias: AnyArray
    weight: AnyArray

    @property
    def tap(self) -> str:
        """Return the tensor that it makes."""
        return self.node.outputs[0]


def first_layer(graph: Graph) -> FirstLayer | None:
    """Return the first layer with constant weights and a bias that is not all zero, or None."""
    for node in graph.nodes:
        if node.op not in _WEIGHTED:
            continue
        bias = graph.constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
        weight = graph.constant(node.inputs[1])
        return FirstLayer(node, bias, weight) if bias is not None and weight is not None and bias.any() else None
    return None


def beginning(graph: Graph, layer: FirstLayer) -> Graph:
    """Return what makes the first layer's output: the rest of a network takes nearly all of its time."""
    return prune(graph.evolve(nodes=graph.nodes[: graph.nodes.index(layer.node) + 1], outputs=(layer.tap,)))


def balance_db(layer: FirstLayer, executable: Executable, feeds: Sequence[dict[str, AnyArray]]) -> float:
    """Return how well biases and signals balance, in decibans below a perfect balance (at most 0).

    The logarithm of the median ratio is taken as normally distributed.
    """
    values = [np.asarray(executable.run(feed, [layer.tap])[layer.tap], np.float64) for feed in feeds]
    axis = 1
    channels = np.concatenate([np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1) for value in values], axis=1)
    spread = channels.std(axis=1)
    live = spread > 1e-9
    if not live.any():
        return -math.inf
    ratio = np.abs(layer.bias.reshape(-1)[live].astype(np.float64)) / spread[live]
    decades = float(np.median(np.log10(np.maximum(ratio, 1e-9))))
    return -10 * math.log10(math.e) * (decades / _SPREAD) ** 2 / 2


def order_of(layer: FirstLayer, image: ImageInput) -> Channels | None:
    """Return the order of colours that the first layer's weights hint at, or None.

    Networks weigh red more than blue, as the eye does: sensors and compression leave blue the noisiest. The energy of
    the weights of the first and of the third channel tells which is which.
    """
    weight = layer.weight.astype(np.float64)
    if weight.ndim != 4 or image.channels != 3 or weight.shape[1] % 3:
        return None
    energy = np.square(weight).sum(axis=(0, 2, 3)).reshape(-1, 3).sum(axis=0)
    if energy[0] == energy[2]:
        return None
    return Channels.RGB if energy[0] > energy[2] else Channels.BGR
