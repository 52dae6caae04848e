"""A small detector with one planted culprit, and samples of it, for tests of calibration and search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.backends.reference import run_graph
from dovetail.data import Sample
from dovetail.ir import Graph
from dovetail.testing.networks import Network


class HeldSamples:
    """Samples in memory; `name` makes the digest another one."""

    def __init__(self, samples: Sequence[Sample], name: str = "0") -> None:
        self._samples = samples
        self.count: int | None = len(samples)
        self.digest = f"{name * 32}{len(samples):032d}"

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def subset(self, indices: Sequence[int]) -> HeldSamples:
        """Return some of the samples."""
        return HeldSamples([self._samples[index] for index in indices])


def planted_detector(layers: int = 2) -> Graph:
    """Return a head that joins boxes up to 640 with scores in [0, 1] behind a harmless trunk: the Concat breaks."""
    net = Network(3)
    trunk = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 4, 3))
    for _ in range(layers - 1):
        trunk = net.op("Relu", net.conv(trunk, 4))
    boxes = net.op("Mul", net.op("Sigmoid", net.conv(trunk, 2)), net.constant(640.0))
    scores = net.op("Sigmoid", net.conv(trunk, 2))
    return net.graph(net.op("Concat", boxes, scores, shape=(1, 4, 4, 4), axis=1))


def labelled_samples(graph: Graph, count: int, name: str = "0") -> HeldSamples:
    """Return samples for an input `[1, 2, 4, 4]` called x, labelled `truth` with the one output in float."""
    rng = np.random.default_rng(1)
    (output,) = graph.outputs
    samples: list[Sample] = []
    for index in range(count):
        inputs = {"x": rng.normal(size=(1, 2, 4, 4)).astype(np.float32)}
        samples.append(Sample(f"s{index}", inputs, {"truth": run_graph(graph, inputs)[output][0]}))
    return HeldSamples(samples, name)
