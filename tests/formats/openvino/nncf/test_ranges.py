"""Ranges and steps are those that NNCF computes."""

from __future__ import annotations

import numpy as np
import pytest
from nncf.common.quantization.structs import QuantizationScheme, QuantizerConfig, QuantizerGroup
from nncf.common.tensor_statistics.statistics import MinMaxTensorStatistic
from nncf.quantization.fake_quantize import calculate_quantizer_parameters
from nncf.tensor import Tensor

from dovetail.formats.openvino.nncf.ranges import byte_range, rounded_weight
from dovetail.ir import AnyArray
from dovetail.ir.roles import weight_layout
from dovetail.testing.networks import Network

_BOUNDS = [(-1.0, 2.0), (0.5, 3.0), (-3.0, -0.5), (0.0, 0.0), (-1e-5, 1e-5), (-1e-3, 7.0), (-7.0, 1e-3), (0.1, 0.1)]


def _theirs(low: AnyArray, high: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the bounds that NNCF gives activations with a range for each channel."""
    config = QuantizerConfig(mode=QuantizationScheme.ASYMMETRIC, per_channel=True)
    seen = MinMaxTensorStatistic(min_values=Tensor(low), max_values=Tensor(high))
    made = calculate_quantizer_parameters(seen, config, QuantizerGroup.ACTIVATIONS)
    return made.input_low.data, made.input_high.data


@pytest.mark.slow
def test_ranges_are_those_of_nncf() -> None:
    rng = np.random.default_rng(0)
    drawn = np.sort(rng.normal(0.5, 3.0, (200, 2)), axis=1)
    low, high = np.concatenate([np.array(_BOUNDS), drawn]).astype(np.float32).T
    found = byte_range(low, high)
    theirs = _theirs(low, high)
    np.testing.assert_allclose(found.low, theirs[0], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found.high, theirs[1], rtol=1e-5, atol=1e-9)


def test_a_range_holds_what_it_is_for_and_zero_on_a_step() -> None:
    # Where a bound is within half a step of 0, NNCF leaves it where it is.
    low, high = np.array([item for item in _BOUNDS if 1e-3 not in map(abs, item)], np.float32).T
    found = byte_range(low, high)
    assert (found.low <= np.minimum(low, 0)).all()
    assert (found.high >= np.maximum(high, 0)).all()
    steps = found.low / found.step
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)


def _rounded(weight: AnyArray) -> AnyArray:
    net = Network(0)
    kernel = net.constant(weight.astype(np.float32))
    graph = net.graph(net.op("Conv", net.input("x", 1, weight.shape[1], 4, 4), kernel))
    (node,) = graph.nodes
    layout = weight_layout(graph, node)
    assert layout is not None
    return rounded_weight(graph, node, layout)


def test_weights_have_a_step_for_each_channel() -> None:
    weight = np.random.default_rng(0).normal(size=(3, 4, 1, 1)) * np.array([1.0, 5.0, 0.2]).reshape(3, 1, 1, 1)
    step = np.abs(weight).max(axis=(1, 2, 3), keepdims=True) / 127
    np.testing.assert_allclose(_rounded(weight), np.rint(weight / step) * step, rtol=1e-5)


def test_channels_of_small_weights_have_the_step_of_a_hundredth_of_the_largest() -> None:
    weight = np.array([127.0, 0.004, 0.006, -0.016]).reshape(4, 1, 1, 1)
    np.testing.assert_allclose(_rounded(weight).ravel(), [127.0, 0.0, 0.01, -0.02], rtol=1e-5)
