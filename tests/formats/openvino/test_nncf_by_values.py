"""What the judge of NNCF says of every node is what the numbers say that the nodes read."""

from __future__ import annotations

from collections.abc import Callable

import draws
import nncf
import numpy as np
import openvino
import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from dovetail.errors import PlanError, SearchError
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import ConsumerRequest, Obeyed, noise_inputs
from dovetail.formats.openvino import nncf_consumer
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan
from dovetail.testing.networks import Network

from ..test_demands import drawn, sourced, space_for
from .by_values import Judge, verdicts

SEED = draws.seed_of(__name__)
"""Other networks in every run; a failure prints it."""
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


def _found(graph: Graph, plan: Plan, written: Plan) -> tuple[dict[str, bool], dict[str, bool | None]]:
    """Return what the judge says of every node and what values say, for a file with another plan in it."""
    kept: list[openvino.Model] = []

    def quantize(model: openvino.Model, *args: object, **options: object) -> openvino.Model:
        kept.append(model.clone())
        kept.append(original(model, *args, **options))
        return kept[-1]

    original = nncf.quantize
    feeds = noise_inputs(graph, 2)
    made = find_format("nncf").write(WriteRequest(written, graph))
    with pytest.MonkeyPatch.context() as patch:
        # The quantiser runs as it is; its argument and its answer are looked at.
        patch.setattr(nncf, "quantize", quantize)
        reading = nncf_consumer.NNCF.read(ConsumerRequest(graph, plan, made, samples=feeds))
    judge = Judge(kept[0], kept[-1], feeds[0])
    told = {item.node: item.obeyed is Obeyed.HONOURED for item in reading.nodes}
    return told, dict(verdicts(graph, plan, judge))


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["its own file", "another file"])
@seed(SEED)
@settings(max_examples=12, deadline=None, database=None)
@given(number=st.integers(0, 2**31), draw=st.integers(0, 2**16))
def test_the_judge_says_what_values_say(same: bool, number: int, draw: int) -> None:
    note(f"seed {SEED}")
    graph = network(number)
    try:
        space = space_for("nncf", graph)
    except (PlanError, SearchError):
        # Nothing in it is ever rounded.
        return
    plan = drawn(space, draw)
    told, values = _found(graph, plan, plan if same else drawn(space, draw + 1))
    known = {name: value for name, value in values.items() if value is not None and name in told}
    assert {name: told[name] for name in known} == known
    if same:
        assert False not in told.values()


@pytest.mark.slow
def test_a_float_convolution_with_a_bias_is_left_alone() -> None:
    """OpenVINO finds the shape of a bias from the convolution, so that two operators read what it makes."""
    net = Network(3)
    graph = sourced(net.graph(net.conv(net.op("Relu", net.conv(net.input("x", 1, 4, 24, 24), 6, 3)), 5, 3)))
    space = space_for("nncf", graph)
    low, names = space.plan({}), [node.name for node in graph.nodes if node.op == "Conv"]
    raised = space.plan({unit: Override(ladder[0], "a test") for unit, ladder in space.ladders.items()})
    told, values = _found(graph, raised, raised)
    assert [(told[name], values[name]) for name in names] == [(True, True)] * 2
    told, values = _found(graph, raised, low)
    assert [(told[name], values[name]) for name in names] == [(False, False)] * 2
