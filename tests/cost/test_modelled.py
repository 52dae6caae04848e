"""The vendor's performance model: a figure from a board, the ranks of precisions, and what it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import needs
import pytest

from dovetail.backend.modelled import BoardSettings
from dovetail.backend.registry import find_target
from dovetail.backend.target import Engine
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.cost import ModelledPartition, ModelRequest, model_plan, model_tables
from dovetail.errors import CompileError, CostError
from dovetail.ir import DType, Graph, Node, TensorType, as_constant
from dovetail.passes import normalize
from dovetail.plan import Placement, Plan, Recipe, make_plan, parse_placement
from dovetail.plan.repairs import RepairRecord
from dovetail.repair import SplitRanges
from dovetail.testing.networks import Network
from zoo.mobilenet import mobilenet_v1

MEASURED_MS = 6.42
"""MobileNetV1 1.0 at 224, uint8, on the A311D of a Khadas VIM3 (VeriSilicon/TIM-VX issue 121)."""


@pytest.fixture(autouse=True)
def _sdk() -> None:
    needs.verisilicon()


def plan_at(graph: Graph, place: str) -> Plan:
    placement = parse_placement(place)
    targets = {name: find_target(name) for name in (placement.target, "cpu")}
    return make_plan(graph, Recipe(placement, (parse_placement("cpu@fp32"),)), targets)


def modelled(graph: Graph, place: str, board: BoardSettings | None = None) -> ModelledPartition:
    boards = {} if board is None else {place.partition("@")[0]: board}
    (part,) = model_plan(graph, plan_at(graph, place), ModelRequest(boards))
    return part


def convolution(inputs: int, outputs: int, kernel: int, size: int) -> Graph:
    """Return one convolution with padding and ReLU."""
    import numpy as np

    shapes = {
        "x": (1, inputs, size, size),
        "w": (outputs, inputs, kernel, kernel),
        "y": (1, outputs, size, size),
        "z": (1, outputs, size, size),
    }
    weight = np.random.default_rng(0).standard_normal(shapes["w"]).astype(np.float32)
    nodes = (
        Node("c", "Conv", ("x", "w"), ("y",), {"pads": (kernel // 2,) * 4, "kernel_shape": (kernel, kernel)}),
        Node("r", "Relu", ("y",), ("z",)),
    )
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    return Graph("g", nodes, ("x",), ("z",), types, {"w": as_constant(weight, np.float32)})


@pytest.mark.sdk
@pytest.mark.slow
def test_mobilenet_on_the_a311d_is_what_users_measured() -> None:
    graph = normalize(mobilenet_v1())
    part = modelled(graph, "vsi:a311d@u8")
    assert part.clock_mhz == 1000
    assert "1000 MHz" in part.source
    assert abs(part.latency_ns / 1e6 / MEASURED_MS - 1) < 0.10
    assert {row.node for row in part.rows} >= {node.name for node in graph.nodes}
    slower = modelled(graph, "vsi:a311d@u8", BoardSettings(clock_mhz=800))
    assert slower.latency_ns == pytest.approx(part.latency_ns * 1.25)
    wider = modelled(graph, "vsi:a311d@u8", BoardSettings(ddr_bytes_per_cycle=8))
    assert wider.latency_ns < 0.8 * part.latency_ns


@pytest.mark.sdk
@pytest.mark.slow
@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp", "vsi:v853"])
def test_precisions_rank_as_the_hardware_does(target: str) -> None:
    wide = convolution(64, 128, 3, 28)
    byte, word, channel = (modelled(wide, f"{target}@{name}").latency_ns for name in ("u8", "i16", "i8pc"))
    # Products of 16 bits take four passes of the array; beside them the traffic doubles.
    assert 2.0 <= word / byte <= 5.0
    on_array = target == "vsi:v853"  # older arrays have one scale a tensor: the shaders take such convolutions
    assert (channel / byte < 1.5) is on_array
    assert (channel > word) is not on_array


@pytest.mark.sdk
def test_tables_price_units_and_shaders_are_stated() -> None:
    graph = convolution(8, 8, 3, 8)
    place = Placement("vsi:a311d", plan_at(graph, "vsi:a311d@i8pc").default.precision)
    part = modelled(graph, str(place))
    row = next(row for row in part.rows if row.node == "c")
    assert (row.engine, row.stated) == (Engine.SH, True)
    assert row.cycles == 8 * 8 * 3 * 3 * 8 * 8 / 8
    (table,) = model_tables([part])
    figure = table.latency(graph, graph.nodes, "vsi:a311d", place.precision)
    assert figure is not None
    assert figure.latency_ns == pytest.approx(part.latency_ns)
    assert "NN_EXT_SHOW_PERF" in figure.source


def test_a_target_without_a_model_is_named() -> None:
    graph = convolution(4, 4, 1, 4)
    with pytest.raises(CostError, match="no vendor's performance model is here for cpu"):
        model_plan(graph, plan_at(graph, "cpu@fp32"))


@pytest.mark.sdk
def test_a_partition_that_takes_too_long_is_an_error() -> None:
    net = Network()
    graph = net.graph(net.conv(net.input("x", 1, 16, 32, 32), 16, 3))
    with pytest.raises(CompileError, match="took longer than"):
        model_plan(graph, Plan(graph.digest, parse_placement("vsi:v853@u8")), ModelRequest(seconds=1e-3))


@pytest.mark.sdk
def test_boards_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dovetail.cli.main import main
    from dovetail.ir import save_graph

    model = tmp_path / "m.dvg"
    save_graph(convolution(8, 16, 3, 16), model)
    names = [item.name for item in VSI_PROFILES if item.name in ("vsi:a311d", "vsi:imx8mp", "vsi:v853")]
    call: Callable[..., int] = main
    arguments = ["cost", str(model), "--target", ",".join(names), "--precision", "u8", "--vendor"]
    assert call([*arguments, "--board", "vsi:a311d:clock_mhz=500", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    clocks = {item["target"]: item["clock_mhz"] for item in answer["modelled"]}
    assert clocks == {**dict.fromkeys(names, 1000.0), "vsi:a311d": 500.0}
    priced = {unit["placement"]: unit for unit in answer["units"]}
    assert all(priced[f"{name}@u8"]["quality"] == "modelled" for name in names)
    assert call([*arguments, "--board", "clock_mhz=fast"]) == 2


@pytest.mark.parametrize("kind", ["window", "depthwise"])
@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp"])
def test_a_split_node_takes_less_than_16_bits_and_its_parts_are_joined_for_nothing(kind: str, target: str) -> None:
    net = Network()
    start = net.op("Relu", net.conv(net.input("x", 1, 16, 28, 28), 64, 3))
    group = 64 if kind == "depthwise" else 1
    weight = net.uniform(64, 64 // group, 3, 3)
    made = net.op("Relu", net.op("Conv", start, weight, net.uniform(64), group=group, pads=(1, 1, 1, 1)))
    graph = net.graph(net.op("Relu", net.conv(made, 64)))
    split = SplitRanges().apply(graph, RepairRecord("split-ranges", {"t2": (0, 1) * 32}))
    byte, word = modelled(graph, f"{target}@u8"), modelled(graph, f"{target}@i16")
    parts = modelled(split, f"{target}@u8")
    moved = {row.node for row in parts.rows if row.op in ("Concat", "Split")}
    assert len(moved) == 1 + (kind == "depthwise")
    assert sum(row.cycles for row in parts.rows if row.node in moved) == 0
    words = {row.node: row.latency_ns for row in word.rows}
    assert byte.latency_ns < parts.latency_ns < byte.latency_ns + words["n2"] - _latency_ns(byte, "n2")


def _latency_ns(part: ModelledPartition, node: str) -> float:
    return next(row.latency_ns for row in part.rows if row.node == node)
