"""The prior: the share of each channel's power that is noise of rounding, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.data import Sample
from dovetail.ir import AnyArray
from dovetail.plan import Placement, parse_placement
from dovetail.quantize import calibrate
from dovetail.search.policy import PriorPolicy
from dovetail.search.prior import UnitPrior, rank_units
from dovetail.search.space import make_space
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

U8, FP16, WIDE = (parse_placement(text) for text in ("vsi:v853@u8", "vsi:v853@fp16", "vsi:v853@i16"))


def _ranked(net: Network, output: str, low: Placement, **inputs: AnyArray) -> dict[str, UnitPrior]:
    graph = net.graph(output)
    calibration = calibrate(graph, HeldSamples([Sample("0", inputs)]))
    return {item.unit: item for item in rank_units(make_space(graph, low, (WIDE,)), calibration, PriorPolicy())}


def _noise(step: float, mean_square: float) -> float:
    """Return the share of noise: rounding to a step has a variance of a twelfth of its square."""
    return step**2 / 12 / (step**2 / 12 + mean_square)


def test_a_tensor_scores_its_worst_channel_and_the_mean_of_all() -> None:
    net = Network()
    values = np.zeros((1, 3, 2, 2), np.float32)
    values[0, 0], values[0, 1] = 255.0, 0.1
    prior = _ranked(net, net.op("Transpose", net.input("x", 1, 3, 2, 2), perm=(0, 1, 3, 2)), U8, x=values)["n0"]
    shares = [_noise(1.0, 255.0**2), _noise(1.0, 0.01), 0.0]
    assert prior.score == pytest.approx(max(shares) + sum(shares) / 3)
    assert prior.reason == "tensor 'x' spans [0, 255], step 1, but index 1 of axis 1 has an RMS of 0.1"


def test_units_are_ranked_worst_first_and_ties_as_in_the_graph() -> None:
    """The bisection takes the order as it is: the other way round it begins with what does most harm."""
    net = Network()
    last = net.input("x", 1, 3)
    for operator in ("Tanh", "Exp", "Tanh", "Div", "Exp"):
        last = net.op(operator, *[last] * (2 if operator == "Div" else 1))
    ranked = _ranked(net, last, FP16, x=np.ones((1, 3), np.float32))
    assert [(unit, item.score) for unit, item in ranked.items()] == [
        *(("n1", 0.5), ("n4", 0.5), ("n3", 0.3), ("n0", 0.0), ("n2", 0.0))
    ]


def test_what_is_not_rounded_to_integers_has_nothing_against_it() -> None:
    net = Network()
    prior = _ranked(net, net.op("Tanh", net.input("x", 1, 3)), FP16, x=np.ones((1, 3), np.float32))["n0"]
    assert (prior.score, prior.reason) == (0.0, "tensor 'x' is not quantised")


def test_a_tensor_without_a_live_channel_scores_nothing() -> None:
    net = Network()
    zeros = np.zeros((1, 3), np.float32)
    prior = _ranked(net, net.op("Tanh", net.input("x", 1, 3)), U8, x=zeros)["n0"]
    assert prior.score == 0.0
    assert prior.reason.startswith("tensor 'x' keeps its channels apart (step ")


@pytest.mark.parametrize(("operator", "extra"), [("Exp", 0.5), ("Tanh", 0.0)])
def test_operators_that_are_known_to_suffer_score_more(operator: str, extra: float) -> None:
    net = Network()
    prior = _ranked(net, net.op(operator, net.input("x", 1, 3)), FP16, x=np.ones((1, 3), np.float32))["n0"]
    assert prior.score == extra


@pytest.mark.parametrize(("narrow", "joined"), [(40.0, False), (39.0, True), (0.0, False)])
def test_a_concat_of_ranges_more_than_sixteen_times_apart_is_lost(narrow: float, joined: bool) -> None:
    net = Network()
    output = net.op("Concat", net.input("x", 1, 2), net.input("y", 1, 2), shape=(1, 4), axis=1)
    values = {"x": np.full((1, 2), -640.0, np.float32), "y": np.full((1, 2), narrow, np.float32)}
    prior = _ranked(net, output, U8, **values)["n0"]
    if joined:
        assert prior.score == pytest.approx(2.0 - narrow / 640.0)
        assert prior.reason.endswith("joins 'x' (up to 640) with 'y' (up to 39): one scale for ranges 16 times apart")
    else:
        assert prior.score < 0.1


def test_weights_score_their_worst_output_channel_and_the_mean_of_all() -> None:
    net = Network()
    weight = net.constant(np.array([[2.55, 2.55], [0.01, 0.01]], np.float32), "w")
    # Lifts what the second channel computes to what the first does.
    bias = net.constant(np.array([0.0, 5.0], np.float32), "b")
    output = net.op("Gemm", net.input("x", 1, 2), weight, bias, shape=(1, 2), transB=1)
    prior = _ranked(net, output, U8, x=np.ones((1, 2), np.float32))["n0"]
    shares = [_noise(0.01, 2.55**2), _noise(0.01, 0.01**2)]
    assert prior.score == pytest.approx(max(shares) + sum(shares) / 2)
    assert prior.reason.endswith("output channel 1 is far below the largest")
