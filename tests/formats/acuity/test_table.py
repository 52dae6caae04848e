"""`.quantize` files that Acuity 6 wrote, there and back, and the plans in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dovetail.errors import FormatError, InexpressiblePlan
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.formats.acuity import read_network, read_table, write_table
from dovetail.plan import Override, Plan, parse_placement
from dovetail.plan.plan import plan_from_json

from .network_graph import GOLDEN, ymini_graph

BASE = parse_placement("vsi:v853@i8pc")


FORMAT = find_format("acuity-quantize")
NET = (GOLDEN / "ymini.json").read_bytes()
SAMPLES = sorted(GOLDEN.glob("*.quantize"))
TAIL = ["hs", "xy0", "wh0", "cl0", "xy1", "xy2", "xy3", "xy4", "wh1", "wh2", "wh3", "cat1", "output"]


def _plan(names: list[str], place: str, base: str = "vsi:v853@i8pc") -> Plan:
    away = Override(parse_placement(place), "a test")
    return Plan(ymini_graph().digest, parse_placement(base), dict.fromkeys(names, away))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_what_acuity_wrote_is_written_the_same(path: Path) -> None:
    content = path.read_bytes()
    assert write_table(read_table(content, path.name)).encode() == content


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_json_is_the_same_table(path: Path) -> None:
    table = read_table(path.read_bytes(), path.name)
    document = yaml.safe_load(path.read_bytes())
    back = read_table(json.dumps(document).encode(), path.name)
    assert replace(back, lines={}) == replace(table, lines={})


def test_the_hybrid_list_of_the_guide_is_made_from_a_plan() -> None:
    """The list that a person wrote for the sample, constants and outputs too, by name and word."""
    graph = ymini_graph()
    plan = _plan(TAIL, "vsi:v853@i16")
    previous = (GOLDEN / "i8pcq.quantize").read_bytes()
    written = FORMAT.write(WriteRequest(plan, graph, listing=NET, previous=previous)).content
    wanted = read_table((GOLDEN / "hyb_in.quantize").read_bytes(), "hyb_in")
    found = read_table(written, "written")
    assert found.words == wanted.words
    assert found.parameters == read_table(previous, "previous").parameters
    back = FORMAT.read(written, ReadRequest(graph, plan.default, listing=NET))
    assert {node.name: back.placement(node.name) for node in graph.nodes} == {
        node.name: plan.placement(node.name) for node in graph.nodes
    }


def test_a_fused_layer_stands_for_all_its_nodes() -> None:
    graph = ymini_graph()
    binding = read_network(NET, "ymini.json").bind(graph)
    assert set(binding.nodes_of["c4.sg_26_c4.silu_24"]) == {"c4.sg", "c4.silu"}
    assert binding.nodes_of["c4.y_25"] == ("c4.y",)
    assert binding.covered == {node.name for node in graph.nodes}
    with pytest.raises(InexpressiblePlan) as caught:
        FORMAT.write(WriteRequest(_plan(["c4.sg"], "vsi:v853@i16"), graph, listing=NET))
    assert set(caught.value.nodes) == {"c4.sg", "c4.silu"}
    nearest = plan_from_json(caught.value.nearest)
    assert str(nearest.placement("c4.silu")) == "vsi:v853@i16"


def test_the_cpu_has_no_word() -> None:
    with pytest.raises(InexpressiblePlan) as caught:
        FORMAT.write(WriteRequest(_plan(["hs"], "cpu@fp32"), ymini_graph(), listing=NET))
    assert str(plan_from_json(caught.value.nearest).placement("hs")) == "vsi:v853@fp32"


def _lint(text: str, listing: bytes | None = NET) -> list[tuple[str, int]]:
    found = FORMAT.lint(text.encode(), ReadRequest(ymini_graph(), BASE, listing=listing))
    return [(item.code, item.line) for item in found]


HEAD = "version: 2\nquantize_parameters: {}\n"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (HEAD + "customized_quantize_layers:\n  hs_10: dynamic_fixed_point-i16\n", []),
        (HEAD + "customized_quantize_layers:\n  hs_10: dynamic_fixed_point-16\n", []),
        (HEAD + "customized_quantize_layers:\n  hs_10: int16\n", [("BARE_WORD", 4)]),
        (HEAD + "customized_quantize_layers:\n  hs_11: float16\n", [("UNKNOWN_LAYER", 4)]),
        (HEAD + "customized_quantize_layers:\nhs_10: dynamic_fixed_point-i16\n", [("UNINDENTED", 4)]),
        ("customized_quantize_layers: {}\nquantize_parameters:\n  'hs_10': {}\n", [("KEY", 3)]),
        ("quantize_parameters:\n  '@hs_10:out0': {scale: abc}\n", [("NUMBER", 2)]),
        ("quantize_parameters:\n  '@hs_10:out0': {scale: .nan}\n", [("NUMBER", 2)]),
        ("other: 1\n", [("SHAPE", 0)]),
        ("a:\n\t- b\n", [("YAML", 2)]),
    ],
)
def test_what_acuity_takes_without_a_word_is_said(text: str, codes: list[tuple[str, int]]) -> None:
    assert _lint(text) == codes


def test_the_fix_of_a_bare_word_and_the_nearest_layers_are_named() -> None:
    with pytest.raises(FormatError, match="Write dynamic_fixed_point-i16"):
        FORMAT.read(
            (HEAD + "customized_quantize_layers:\n  hs_10: int16\n").encode(),
            ReadRequest(ymini_graph(), BASE, listing=NET),
        )
    with pytest.raises(FormatError, match="'hs_10'"):
        FORMAT.read(
            (HEAD + "customized_quantize_layers:\n  hs_1: float16\n").encode(),
            ReadRequest(ymini_graph(), BASE, listing=NET),
        )


def test_an_unindented_block_is_rewritten_indented() -> None:
    text = HEAD + "customized_quantize_layers:\nhs_10: dynamic_fixed_point-i16\n"
    assert "layers:\n  hs_10: dynamic_fixed_point-i16\n" in write_table(read_table(text.encode(), "f"))


def test_unknown_keys_are_kept() -> None:
    text = (
        HEAD
        + "customized_quantize_layers: {}\nstable_quantize_tensors: {}\nquantize_aware_train: true\nnew_key:\n  a: 1\n"
    )
    assert write_table(read_table(text.encode(), "f")) == text


def test_json_with_converters_is_read_too() -> None:
    """The network that Acuity writes after --hybrid has layers without parameters."""
    network = read_network((GOLDEN / "hyb.quantize.json").read_bytes(), "hyb.quantize.json")
    converter = "hs_10_pre_asymmetric_affinei8_to_dynamic_fixed_pointi16_42"
    assert network.layers[converter].inputs == ("ht_15",)
    assert network.bind(ymini_graph()).covered == {node.name for node in ymini_graph().nodes}


def test_the_formulas_give_acuitys_own_parameters() -> None:
    """Ranges that Acuity measured give the scales, zero points and fraction bits that it computed."""
    from dovetail.ir.precision import Precision
    from dovetail.quantize.parameters import choose_quantization
    from dovetail.quantize.ranges import Range

    checked = 0
    for name, precision in (("u8", Precision.U8), ("hyb", Precision.I16), ("i8pcq", Precision.I8)):
        table = read_table((GOLDEN / f"{name}.quantize").read_bytes(), name)
        for item in table.parameters.values():
            if item.qtype != precision.activation.dtype.value or item.max_value is None or item.min_value is None:
                continue
            if item.quantizer == "perchannel_symmetric_affine":
                continue
            quant = choose_quantization(Range(item.min_value, item.max_value), precision.activation)
            if item.fl is not None:
                assert quant.scale[0] == 2.0**-item.fl
            else:
                assert quant.scale[0] == pytest.approx(item.scale, rel=1e-6)
                assert quant.zero_point[0] == item.zero_point
            checked += 1
    assert checked > 60


def test_numbers_keep_their_value() -> None:
    table = read_table((GOLDEN / "qdq16.quantize").read_bytes(), "qdq16")
    assert table.parameters["@sg_3:out0"].scale == 2.0**-15
    assert table.rest == {"stable_quantize_tensors": {}, "quantize_aware_train": True}
