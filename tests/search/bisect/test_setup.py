"""What the names of lines say before anything was measured."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.data import Sample
from dovetail.ir import DType, TensorType
from dovetail.plan import parse_placement
from dovetail.quantize import calibrate
from dovetail.search.bisect.setup import BisectRequest, make_setup, setup_of_lines
from dovetail.search.policy import PriorPolicy
from dovetail.search.prior import rank_units
from dovetail.search.space import make_space
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

_REQUEST = BisectRequest("candidate.txt", "lines", parse_placement("vsi:v853@i8pc"), (parse_placement("cpu@fp32"),))


@pytest.mark.parametrize(
    ("suspect", "plain", "harmless"),
    [
        ("/model.22/Concat_3", "/model.22/cv2/Conv", "/model.22/act/Relu"),
        ("head/concat", "head/box", "head/reshape"),
        ("LayerNormalization_1", "MatMul_12", "MaxPool_7"),
        ("b1/dw", "b1/project", "b1/dw_relu"),
    ],
)
def test_names_that_say_an_operator_weigh_as_it_does(suspect: str, plain: str, harmless: str) -> None:
    first, second, third = setup_of_lines([suspect, plain, harmless], _REQUEST).weights
    assert first > second > third > 0


def test_weights_of_a_calibrated_model_are_squares_of_its_prior() -> None:
    """A unit with twice the noise is four times as likely, and none is impossible."""
    net = Network()
    quiet = net.op("Tanh", net.input("x", 1, 3))
    graph = net.graph(net.op("Exp", net.op("Tanh", quiet)))
    calibration = calibrate(graph, HeldSamples([Sample("0", {"x": np.ones((1, 3), np.float32)})]))
    setup = make_setup(graph, _REQUEST, calibration)
    scores = {
        item.unit: item.score
        for item in rank_units(make_space(graph, _REQUEST.low, _REQUEST.ladder), calibration, PriorPolicy())
    }
    first, second = (dict(zip(setup.lines, setup.weights, strict=True))[name] for name in ("n2", "n0"))
    assert first - second == pytest.approx(scores["n2"] ** 2 - scores["n0"] ** 2)
    assert min(setup.weights) > 0


@pytest.mark.parametrize(("operator", "times"), [("Div", 3.0), ("Exp", 4.0), ("Softmax", 2.0), ("Relu", 1.0)])
def test_without_noise_an_operator_weighs_so_many_times_a_plain_one(operator: str, times: float) -> None:
    net = Network()
    net.types[net.input("tokens", 1, 4)] = TensorType(DType.I64, (1, 4))
    rows = net.op("Gather", net.uniform(8, 6), "tokens", shape=(1, 4, 6))
    plain = net.op("Tanh", rows)
    graph = net.graph(net.op(operator, *[plain] * (2 if operator == "Div" else 1)))
    setup = make_setup(graph, _REQUEST)
    weights = dict(zip(setup.lines, setup.weights, strict=True))
    assert weights["n2"] / weights["n1"] == pytest.approx(1.5 * times)


def test_where_no_noise_can_be_fed_operators_and_their_order_weigh() -> None:
    """Token numbers are no noise."""
    net = Network()
    net.types[net.input("tokens", 1, 4)] = TensorType(DType.I64, (1, 4))
    rows = net.op("Gather", net.uniform(8, 6), "tokens", shape=(1, 4, 6))
    first = net.op("Tanh", rows)
    second = net.op("Tanh", first)
    graph = net.graph(net.op("Div", second, net.op("Tanh", second)))
    setup = make_setup(graph, _REQUEST)
    weights = dict(zip(setup.lines, setup.weights, strict=True))
    assert list(setup.weights) == sorted(setup.weights)
    assert weights["n1"] < weights["n2"] < weights["n3"] < weights["n4"]
    assert weights["n4"] > 2 * weights["n3"]
