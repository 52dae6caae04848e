"""Boxes that are decoded to a picture of another size than the model's input are compared as boxes."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.compare.decisions import metric_for, see_outputs
from dovetail.ir import Graph
from dovetail.outputs.layouts import Coding, DenseLayout
from dovetail.testing.networks import Network

_CELLS, _STRIDE = 8, 8


def _detector(canvas: float) -> Graph:
    """Return a detector on a grid of 8x8 cells, for pictures of 64x64, whose boxes are those of a canvas.

    Every pixel of its second channel says where an object is; it is found by the mean of its cell.
    """
    net = Network(3)
    x = net.input("images", 1, 3, _CELLS * _STRIDE, _CELLS * _STRIDE)
    cells = net.op("AveragePool", x, shape=(1, 3, 8, 8), kernel_shape=(_STRIDE, _STRIDE), strides=(_STRIDE, _STRIDE))
    rng = np.random.default_rng(1)
    boxes = net.op("Conv", cells, net.constant(np.zeros((4, 3, 1, 1), np.float32)), shape=(1, 4, 8, 8))
    at = (np.arange(_CELLS) + 0.5) * canvas / _CELLS
    grid = np.stack([*np.meshgrid(at, at), *np.full((2, _CELLS, _CELLS), canvas * 0.4)])[None]
    placed = net.op("Add", boxes, net.constant((grid + rng.uniform(0, canvas / 50, grid.shape)).astype(np.float32)))
    gains = np.zeros((3, 3, 1, 1), np.float32)
    gains[:, 1] = 12.0
    bias = net.constant(np.array([-6.0, -6.0, -7.0], np.float32))
    scores = net.op("Sigmoid", net.op("Conv", cells, net.constant(gains), bias, shape=(1, 3, 8, 8)))
    joined = net.op("Concat", placed, scores, shape=(1, 7, 8, 8), axis=1)
    flat = net.op("Reshape", joined, net.constant(np.array([1, 7, 64])), shape=(1, 7, 64))
    return net.graph(net.op("Transpose", flat, shape=(1, 64, 7), perm=(0, 2, 1)))


@pytest.mark.parametrize("canvas", [64.0, 600.0, 5000.0])
def test_a_comparison_sees_boxes_that_are_cut_off(canvas: float) -> None:
    graph = _detector(canvas)
    rng = np.random.default_rng(0)
    feeds = []
    for _ in range(6):
        picture = rng.uniform(0, 0.1, (1, 3, 64, 64)).astype(np.float32)
        row, column = rng.integers(2, 7, 2) * _STRIDE
        picture[:, 1, row : row + _STRIDE, column : column + _STRIDE] = 1.0
        feeds.append({"images": picture})
    seen = see_outputs(graph, feeds, None)
    (head,) = seen.view.decisions
    assert isinstance(head.layout, DenseLayout)
    assert head.layout.coding is Coding.CENTRE
    metric = metric_for(seen.view, seen.golden)
    (name,) = seen.golden
    cut = {name: np.minimum(seen.golden[name], canvas * 0.05)}
    assert metric.per_sample(dict(seen.golden), seen.golden).mean() > 0.5
    assert metric.per_sample(cut, seen.golden).mean() < 0.2
