"""The VeriSilicon profiles say what the vendor's simulator was measured to do."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from dovetail.backend.arithmetic import Carrier, Rounding, Tie, ZeroPointOrder
from dovetail.backend.target import Engine, TargetVerdict
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.parts import named
from dovetail.backends.verisilicon.parts.figures import figures_from_json, figures_to_json, printed_figures
from dovetail.backends.verisilicon.parts.measured import measured_parts, parts_from_json, parts_to_json
from dovetail.backends.verisilicon.parts.named import PARTS, VSI_PROFILES, NamedPart, vsi_profile
from dovetail.errors import DovetailError
from dovetail.fit.advice import _lender
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision

BY_NAME = {profile.name: profile for profile in VSI_PROFILES}
P = Precision


def conv(rank: int = 4, constant: bool = True, batch: int | str = "N") -> Graph:
    weight = np.zeros((4, 3) + (3,) * (rank - 2), np.float32)
    types = {
        "x": TensorType(DType.F32, (batch, 3) + (8,) * (rank - 2)),
        "w": TensorType(DType.F32, weight.shape),
        "y": TensorType(DType.F32, (batch, 4) + (6,) * (rank - 2)),
    }
    node = Node("conv", "Conv", ("x", "w"), ("y",))
    if constant:
        return Graph("g", (node,), ("x",), ("y",), types, {"w": weight})
    return Graph("g", (node,), ("x", "w"), ("y",), types)


def verdict(graph: Graph, target: str, precision: Precision) -> TargetVerdict:
    return BY_NAME[target].verdict(graph, graph.nodes[0], precision)


def matmul(constant: bool) -> Graph:
    types = {name: TensorType(DType.F32, (4, 4)) for name in ("x", "w", "y")}
    node = Node("product", "MatMul", ("x", "w"), ("y",))
    if constant:
        return Graph("g", (node,), ("x",), ("y",), types, {"w": np.zeros((4, 4), np.float32)})
    return Graph("g", (node,), ("x", "w"), ("y",), types)


@pytest.mark.parametrize(
    ("target", "precision", "engine"),
    [
        ("vsi:a311d", P.U8, Engine.NN),
        ("vsi:a311d", P.I8PC, Engine.SH),
        ("vsi:imx8mp", P.I8PC, Engine.SH),
        ("vsi:v853", P.I8PC, Engine.NN),
        ("vsi:a311d", P.I16, Engine.NN),
        ("vsi:v853", P.FP16, Engine.SH),
    ],
)
def test_convolutions_run_where_they_were_seen_to(target: str, precision: Precision, engine: Engine) -> None:
    assert verdict(conv(), target, precision).engine is engine


@pytest.mark.parametrize(
    ("target", "constant", "engine"),
    [
        ("vsi:a311d", True, Engine.NN),
        ("vsi:a311d", False, Engine.SH),
        ("vsi:imx8mp", False, Engine.SH),
        ("vsi:v853", False, Engine.NN),
    ],
)
def test_a_product_of_two_activations_runs_on_the_shaders_of_old_parts(
    target: str, constant: bool, engine: Engine
) -> None:
    assert verdict(matmul(constant), target, P.U8).engine is engine


@pytest.mark.parametrize(
    ("graph", "precision", "reason"),
    [
        (conv(), P.W8A16, "16-bit activations with 8-bit weights"),
        (conv(5), P.U8, "3 spatial axes (1 and 2 are possible)"),
        (conv(constant=False), P.U8, "not a constant"),
    ],
)
def test_refusals_say_why(graph: Graph, precision: Precision, reason: str) -> None:
    for target in BY_NAME:
        found = verdict(graph, target, precision)
        assert not found.supported
        assert reason in found.reason


@pytest.mark.parametrize("op", ["LSTM", "If", "Loop", "Shape", "NonMaxSuppression", "NonZero"])
def test_what_no_npu_runs_has_a_reason_of_its_own(op: str) -> None:
    kind = TensorType(DType.F32, (1, 2))
    graph = Graph("g", (Node("n", op, ("x",), ("y",)),), ("x",), ("y",), {"x": kind, "y": kind})
    found = verdict(graph, "vsi:v853", P.U8)
    assert not found.supported
    assert "has no operator" not in found.reason


def test_a_bandwidth_beyond_any_float_is_damage() -> None:
    name, part = next(iter(measured_parts().items()))
    document = json.loads(parts_to_json({name: part}))
    document["parts"][name]["figures"]["ddr_bytes_per_cycle"] = 10**350
    with pytest.raises(DovetailError, match="the table of parts is damaged"):
        parts_from_json(json.dumps(document).encode(), "parts.json")


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_revision_of_a_chip_tells_its_generation(part: NamedPart) -> None:
    """Of the simulator's names only figures are known: they tell what was found operator by operator."""
    assert part.sdk_name in printed_figures()
    assert printed_figures()[part.sdk_name] == measured_parts()[part.sdk_name].figures
    assert named._generation(part.sdk_name) is part.generation


def test_a_part_without_a_name_has_its_own_figures_and_prices_of_its_generation() -> None:
    wide = vsi_profile("vsi:VIP9000NANOOI_PID0X10000031", ["VIP9000NANOOI_PID0X10000031"])
    assert wide is not None
    assert wide.hardware is not None
    assert (wide.generation, wide.hardware.nn_cores) == (Generation.STREAM, 32)
    assert wide.hardware.prices is not None
    assert wide.hardware.prices.other == "vsi:a733"
    assert _lender(wide) == "vsi:a733"
    assert _lender(BY_NAME["vsi:a733"]) == ""
    bytes_alone = BY_NAME["vsi:s905d3"].hardware
    assert bytes_alone is not None
    assert bytes_alone.prices is not None
    assert {precision for _, precision in bytes_alone.prices.forms} == {P.U8, P.I8}
    for name in ("vsi:a311d", "vsi:t527"):
        own = BY_NAME[name].hardware
        assert own is not None
        assert own.prices is not None
        assert own.prices.other == ""


def test_what_nobody_knows_of_is_told_by_its_name() -> None:
    names = {"VIP9000X_PID0X1": Generation.VIP9000, "VIP8000X_PID0X1": Generation.VIP8000, "VIPX_PID0X1": Generation.V7}
    assert {name: named._generation(name) for name in names} == names


@pytest.mark.parametrize(
    "damage",
    [
        lambda row: row.pop(),
        lambda row: row.__setitem__(1, -1),
        lambda row: row.__setitem__(1, 0),
        lambda row: row.__setitem__(-1, 0.0),
        lambda row: row.__setitem__(-1, 10**350),
        lambda row: row.__setitem__(0, "0x9000:0xwhat"),
        lambda row: row.__setitem__(2, "many"),
    ],
)
def test_figures_are_read_back_and_damage_is_told(damage: Callable[[list[object]], object]) -> None:
    text = figures_to_json(printed_figures(), "6.57.1")
    assert figures_from_json(text, "figures.json") == printed_figures()
    document = json.loads(text)
    damage(next(iter(document["parts"].values())))
    with pytest.raises(DovetailError, match="the table of figures is damaged"):
        figures_from_json(json.dumps(document).encode(), "figures.json")


def test_rounding_follows_the_measured_matrix() -> None:
    v7, vip8000, vip9000 = (BY_NAME[name].arithmetic for name in ("vsi:a311d", "vsi:imx8mp", "vsi:v853"))
    assert (v7.multiplier_bits, vip8000.multiplier_bits, vip9000.multiplier_bits) == (16, 24, 24)
    generations = [BY_NAME[name].generation for name in ("vsi:a311d", "vsi:imx8mp", "vsi:v853")]
    assert generations == [Generation.V7, Generation.VIP8000, Generation.VIP9000]
    for arithmetic in (v7, vip8000, vip9000):
        assert arithmetic.rounding("Add", DType.U8) == Rounding(Tie.EVEN, ZeroPointOrder.BEFORE)
        assert arithmetic.rounding("Mul", DType.U8) == Rounding(Tie.EVEN, ZeroPointOrder.BEFORE, Carrier.SINGLE)
        assert arithmetic.rounding("Conv", DType.U8) == Rounding(Tie.EVEN, ZeroPointOrder.AFTER, Carrier.EXACT)
    assert BY_NAME["vsi:a733"].arithmetic.rounding("Add", DType.U8).zero_point is ZeroPointOrder.AFTER


@pytest.mark.parametrize("name", BY_NAME)
def test_rules_name_real_operators(name: str) -> None:
    named = {op for rule in BY_NAME[name].rules for op in rule.ops} | set(BY_NAME[name].refusals)
    assert [op for op in sorted(named - {"Requantize"}) if not onnx.defs.has(op)] == []
    assert len(named) > 90


def test_precisions_are_ordered_by_cost() -> None:
    assert BY_NAME["vsi:v853"].precisions.index(P.I8PC) < BY_NAME["vsi:v853"].precisions.index(P.I16)
    assert BY_NAME["vsi:a311d"].precisions.index(P.I16) < BY_NAME["vsi:a311d"].precisions.index(P.I8PC)


def test_figures_are_those_of_the_parts() -> None:
    facts = BY_NAME["vsi:a311d"].hardware
    assert facts is not None
    assert (facts.nn_cores, facts.macs_per_cycle, facts.sram_bytes) == (8, 1536, 540672)
    assert facts.source


def operands(op: str, count: int, **attributes: float | int) -> Graph:
    types = {name: TensorType(DType.F32, (2, 4)) for name in ("a", "b", "c", "y")}
    if op == "ReduceL2":
        types["y"] = TensorType(DType.F32, (1, 1))
    inputs = tuple("abc"[:count])
    return Graph("g", (Node("node", op, inputs, ("y",), attributes),), inputs, ("y",), types)


@pytest.mark.parametrize("target", BY_NAME)
@pytest.mark.parametrize("precision", [P.U8, P.I8, P.I8PC, P.I8DFP, P.I16, P.FP16])
@pytest.mark.parametrize(
    ("op", "count"), [("Mean", 2), ("ReduceL2", 1), ("Shrink", 1), ("ThresholdedRelu", 1), ("Trilu", 1)]
)
def test_what_is_made_of_other_operators_is_supported(op: str, count: int, precision: Precision, target: str) -> None:
    coarse = precision is P.I16 if target == "vsi:t527" else precision is not P.FP16
    far_off = op == "ReduceL2" and target in ("vsi:t527", "vsi:a733") and coarse
    assert verdict(operands(op, count), target, precision).supported is not far_off


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (operands("Mean", 3), "3 operands (two are possible)"),
        (operands("Shrink", 1, bias=0.5), "bias=0.5 (0 is possible)"),
        (operands("Trilu", 2), "input 1 ('b') is not a constant"),
    ],
)
def test_forms_that_the_lowering_lacks_are_refused_beforehand(graph: Graph, reason: str) -> None:
    assert verdict(graph, "vsi:v853", P.U8).reason == reason
