"""Levels of passes and passes that are left out: what is computed stays, unknown names are refused by known ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cli.main import main
from dovetail.errors import DovetailError
from dovetail.exporters import to_onnx
from dovetail.ir import Graph
from dovetail.passes import NORMAL_FORM, PassOptions, normalize
from dovetail.passes.options import HIGHEST_LEVEL, LEVELS, OF_TVM
from dovetail.testing.networks import Network
from dovetail.testing.running import random_feeds, relative_difference, run_graph
from dovetail.testing.strategies import float_graphs


def _network() -> Graph:
    """Return a network in which passes of all levels find something."""
    net = Network(3)
    tensor = net.op("Identity", net.input("x", 1, 3, 8, 8))
    padded = net.op("Pad", tensor, net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])), shape=(1, 3, 10, 10))
    tensor = net.op("Conv", padded, net.uniform(4, 3, 3, 3), shape=(1, 4, 8, 8))
    normal = [net.constant(np.linspace(0.5, 1.5, 4, dtype=np.float32)) for _ in range(4)]
    tensor = net.op("BatchNormalization", tensor, *normal)
    tensor = net.op("Add", tensor, net.constant(np.full((1, 4, 1, 1), 0.25, np.float32)))
    net.op("Sigmoid", tensor)
    return net.graph(net.op("Relu", tensor))


def test_a_level_has_every_pass_up_to_it() -> None:
    assert {step.name for step in NORMAL_FORM} == set(LEVELS)
    ops = {level: [node.op for node in normalize(_network(), PassOptions(level)).nodes] for level in range(4)}
    assert ops == {
        0: ["Identity", "Pad", "Conv", "BatchNormalization", "Add", "Sigmoid", "Relu"],
        1: ["Pad", "Conv", "BatchNormalization", "Add", "Relu"],
        2: ["Conv", "BatchNormalization", "Add", "Relu"],
        3: ["Conv", "Relu"],
    }
    assert normalize(_network(), PassOptions()) == normalize(_network())


@given(
    graph=float_graphs(),
    level=st.integers(0, HIGHEST_LEVEL),
    names=st.lists(st.sampled_from([*LEVELS, *OF_TVM]), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_left_out_the_network_computes_the_same(graph: Graph, level: int, names: list[str]) -> None:
    normal = normalize(graph, PassOptions(level, tuple(names)))
    feeds = random_feeds(graph)
    for before, after in zip(run_graph(graph, feeds), run_graph(normal, feeds), strict=True):
        assert relative_difference(before, after) <= 1e-4


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fold-affin", r"there is no pass 'fold-affin'\. Did you mean 'fold-affine'\? Known: remove-dead-code, "),
        ("FoldScaleAxes", r"Did you mean 'FoldScaleAxis'\?"),
        ("AlterOpLayout", r"TVM's pass 'AlterOpLayout' has no counterpart: layouts are chosen by compilers"),
    ],
)
def test_an_unknown_pass_is_refused_by_what_there_is(name: str, said: str) -> None:
    with pytest.raises(DovetailError, match=said):
        PassOptions(disabled_pass=(name,))


def test_a_command_takes_levels_and_names_and_a_plan_is_for_one_normal_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, plan = str(tmp_path / "m.onnx"), str(tmp_path / "plan.json")
    Path(model).write_bytes(to_onnx(_network()).SerializeToString())
    chosen = ["--disabled-pass", "FoldScaleAxis,fold-pad"]
    assert main(["plan", model, "--place", "cpu@fp32", "-o", plan, *chosen]) == 0
    capsys.readouterr()
    digest = normalize(_network(), PassOptions(disabled_pass=("FoldScaleAxis", "fold-pad"))).digest
    assert json.loads(Path(plan).read_text())["graph"] == digest
    compiling = ["compile", model, "--plan", plan, "-o", str(tmp_path / "bundle")]
    assert main([*compiling, *chosen]) == 0
    assert main([*compiling, "--replace"]) == 2
    assert "plan" in capsys.readouterr().err
    assert main(["inspect", model, "--opt-level", "4"]) == 2
    assert "--opt-level" in capsys.readouterr().err
