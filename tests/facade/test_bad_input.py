"""Bad input through the library's front door: always the right DovetailError, in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.backend.target import Target
from dovetail.data import InputSpec
from dovetail.errors import (
    BundleError,
    DataError,
    DeviceError,
    DeviceNotFound,
    DovetailError,
    PlanError,
    QuantizeError,
    SearchError,
)
from dovetail.ir import AnyArray, Graph
from dovetail.search import parse_goal
from dovetail.testing.networks import Network

SPEC = InputSpec("x", np.dtype(np.float32), (1, 2, 4, 4))


def _graph(weight: float = 0.5, op: str = "Sigmoid") -> Graph:
    net = Network()
    made = net.op("Conv", net.input("x", 1, 2, 4, 4), net.constant(np.full((2, 2, 1, 1), weight, np.float32), "w"))
    return net.graph(net.op(op, made))


def _arrays(value: float = 1.0, count: int = 3) -> list[AnyArray]:
    return [np.full((1, 2, 4, 4), value, np.float32) for _ in range(count)]


def _plan(graph: Graph, place: str = "vsi:v853@i8") -> dovetail.Plan:
    return dovetail.Plan(graph.digest, dovetail.parse_placement(place))


def _flow(graph: Graph, data: list[AnyArray], place: str = "vsi:v853@i8") -> dovetail.Bundle:
    """Go the whole way from data to a compiled model."""
    calibration = dovetail.calibrate(graph, dovetail.open_samples(data, [SPEC]))
    plan = dovetail.make_plan(graph, dovetail.Recipe(dovetail.parse_placement(place)), _targets())
    quantized = dovetail.quantize(graph, plan, calibration.ranges)
    return dovetail.compile_model(dovetail.partition(quantized))


def _targets() -> dict[str, Target]:
    return {target.name: target for target in dovetail.known_targets()}


def test_the_way_that_works() -> None:
    graph = _graph()
    with dovetail.open_session(_flow(graph, _arrays())) as session:
        (value,) = session.run({"x": _arrays()[0]}).outputs.values()
    np.testing.assert_allclose(value, 1 / (1 + np.exp(-1.0)), atol=0.01)


@pytest.mark.parametrize("place", ["vsi:v853@u8", "vsi:v853@i8pc", "vsi:v853@i16", "vsi:a311d@i8dfp", "vsi:v853@fp16"])
def test_a_model_of_constant_tensors_works(place: str) -> None:
    for weight, value in ((0.0, 1.0), (0.5, 0.0), (0.0, 0.0), (1.0, -3.0)):
        graph = _graph(weight)
        with dovetail.open_session(_flow(graph, _arrays(value), place)) as session:
            (found,) = session.run({"x": _arrays(value)[0]}).outputs.values()
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-2 * weight * value)), atol=0.02)


Case = tuple[str, type[DovetailError], str, Callable[[Path], object]]

_CASES: tuple[Case, ...] = (
    ("NaN in data", DataError, "sample '000001'", lambda _: _flow(_graph(), [*_arrays(), *_arrays(np.nan)][2:])),
    ("infinity in data", DataError, "NaN or infinite", lambda _: _flow(_graph(), _arrays(np.inf))),
    ("overflow in the model", DataError, "tensor 't0'", lambda _: _flow(_graph(3e38), _arrays(3.0))),
    ("NaN in a weight", DataError, "tensor 't0'", lambda _: _flow(_graph(np.nan), _arrays())),
    ("no data", DataError, "empty", lambda _: _flow(_graph(), [])),
    ("wrong shape", DataError, "'x'", lambda _: _flow(_graph(), [np.zeros((1, 3, 4, 4), np.float32)])),
    ("wrong rank", DataError, "'x'", lambda _: _flow(_graph(), [np.zeros((5,), np.float32)])),
    ("text as data", DataError, "'x'", lambda _: _flow(_graph(), [np.array(["a"])])),
    ("objects as data", DataError, "'x'", lambda _: _flow(_graph(), [np.array([None])])),
    ("no such data", DataError, "no such file", lambda path: dovetail.open_samples(str(path / "none"), [SPEC])),
    ("unknown target", PlanError, "target 'vsi:v1' is unknown", lambda _: _flow(_graph(), _arrays(), "vsi:v1@i8")),
    ("unknown target by name", DeviceNotFound, "'vsi:v1'", lambda _: dovetail.find_target("vsi:v1")),
    ("unknown precision", PlanError, "precision 'i7'", lambda _: dovetail.parse_placement("cpu@i7")),
    ("refused precision", PlanError, "w8a16", lambda _: _flow(_graph(), _arrays(), "vsi:v853@w8a16")),
    ("refused operator", PlanError, "Einsum", lambda _: _flow(_einsum(), _arrays())),
    ("no ranges", QuantizeError, "tensor 'x' needs a range", lambda _: _unranged()),
    ("another model's plan", PlanError, "made for graph", lambda _: _mixed_up()),
    ("no bundle", BundleError, "no such bundle", lambda path: dovetail.load_bundle(path / "none")),
    ("a goal that is none", SearchError, "'much'", lambda _: parse_goal("much")),
    ("no recipe", PlanError, "cannot be read", lambda path: dovetail.load_recipe(path / "none.toml")),
    ("wrong input", DeviceError, "input 'x'", lambda _: _run(np.zeros((1, 2, 4, 5), np.float32))),
    ("NaN at run time is data", DovetailError, "", lambda _: _refuse_nothing()),
)


def _einsum() -> Graph:
    net = Network()
    return net.graph(net.op("Einsum", net.input("x", 1, 2, 4, 4), equation="abcd->abcd"))


def _unranged() -> object:
    graph = _graph()
    return dovetail.quantize(graph, _plan(graph), dovetail.Ranges(graph.digest, "none", 0, {}))


def _mixed_up() -> object:
    graph, other = _graph(), _graph(0.25)
    ranges = dovetail.calibrate(graph, dovetail.open_samples(_arrays(), [SPEC])).ranges
    return dovetail.quantize(graph, _plan(other), ranges)


def _run(value: AnyArray) -> object:
    with dovetail.open_session(_flow(_graph(), _arrays())) as session:
        return session.run({"x": value})


def _refuse_nothing() -> object:
    """Run on NaN: integers cannot hold it, so the result is some number and no crash."""
    _run(np.full((1, 2, 4, 4), np.nan, np.float32))
    raise DovetailError("done")


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case[0])
def test_bad_input(case: Case, tmp_path: Path) -> None:
    _, kind, says, act = case
    with pytest.raises(kind) as caught:
        act(tmp_path)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert message.rstrip().endswith((".", "?", ")", "'", "done")), message
