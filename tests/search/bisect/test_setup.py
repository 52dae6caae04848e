"""What the names of lines say before anything was measured."""

from __future__ import annotations

import pytest

from dovetail.ir import DType, TensorType
from dovetail.plan import parse_placement
from dovetail.search.bisect.setup import BisectRequest, make_setup, setup_of_lines
from dovetail.testing.networks import Network

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
