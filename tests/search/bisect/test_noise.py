"""Noise instead of samples: the same on every machine and for every version, and none where a network takes none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail.ir import DType, Graph, TensorType
from dovetail.search.bisect.noise import _Noise, calibrate_on_noise
from dovetail.testing.networks import Network


def _graph(*shape: int | str, dtype: DType = DType.F32) -> Graph:
    net = Network()
    name = net.input("x", *shape)
    net.types[name] = TensorType(dtype, shape)
    return net.graph(net.op("Identity", name))


@pytest.mark.parametrize("shape", [(1, 3, 16, 20), (2, 12), (5,), ()])
def test_every_other_sample_is_of_blocks_of_eight(shape: tuple[int, ...]) -> None:
    fine, coarse = (sample.inputs["x"] for sample in _Noise(_graph(*shape), (6, 7)))
    assert fine.dtype == coarse.dtype == np.float32
    np.testing.assert_array_equal(fine, np.random.RandomState(6).uniform(0.0, 1.0, shape).astype(np.float32))
    few = tuple(math.ceil(size / 8) if axis >= len(shape) - 2 else size for axis, size in enumerate(shape))
    blocks = np.random.RandomState(7).uniform(0.0, 1.0, few).astype(np.float32)
    for at in np.ndindex(shape):
        block = tuple(place // 8 if axis >= len(shape) - 2 else place for axis, place in enumerate(at))
        assert coarse[at] == blocks[block]


def test_samples_are_numbered_and_an_open_batch_is_one() -> None:
    noise = _Noise(_graph("N", 4), range(5))
    assert (noise.count, noise.subset([1, 4]).count) == (5, 2)
    assert [sample.id for sample in noise.subset([1, 4])] == ["noise 1", "noise 4"]
    assert {sample.inputs["x"].shape for sample in noise} == {(1, 4)}


def test_a_network_is_fed_sixteen_samples() -> None:
    calibration = calibrate_on_noise(_graph(1, 3, 9, 9))
    assert calibration is not None
    assert calibration.ranges.samples == 16
    limits = calibration.ranges.tensors["x"]
    assert 0.0 <= limits.low < 0.01
    assert 0.99 < limits.high <= 1.0


@pytest.mark.parametrize(
    "graph",
    [_graph(1, "H", 4), _graph(1, 4, dtype=DType.I64), _graph(1, (1 << 24) + 1)],
    ids=["an open size", "whole numbers", "too much of it"],
)
def test_what_cannot_be_noise_gives_none(graph: Graph) -> None:
    assert calibrate_on_noise(graph) is None
