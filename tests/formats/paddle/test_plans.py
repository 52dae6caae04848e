"""Plans as subgraph.txt and the mixed-precision file: three ways to run an operator, two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.errors import FormatError, InexpressiblePlan
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.formats.paddle import LintContext, LoggedOperation, PaddleDevice, lint, load_rules, parse_log
from dovetail.formats.paddle.formats import bind_log, dialect_of
from dovetail.formats.paddle.policy import policy_of
from dovetail.formats.paddle.rules import Dialect
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Placement, parse_placement
from dovetail.plan.plan import plan_from_json

from ..conftest import make_plan, placements

LOG = b"""subgraph operators:\x20
feed:feed:images
conv2d:images,w0:stem.tmp
batch_norm:b,m,s,v,stem.tmp:m,stem_out,sm,sv,v
relu:stem_out:relu_out
conv2d:relu_out,w1:head/conv:0
sigmoid:head_conv:scores
elementwise_mul:head_conv,two:boxes
concat:boxes,scores:cat
reshape2:cat:output
fetch:output:fetch

""".replace(b"head/conv:0", b"head_conv")
BASE = "vsi:a311d@u8"
SUBGRAPH, MIXED = find_format("paddle-subgraph"), find_format("paddle-mixed")


@pytest.fixture
def paddle_graph(graph: Graph) -> Graph:
    """The network with a tensor name that Paddle can print."""
    return graph.evolve(origins={"head/conv:0": "head_conv"})


def _read(content: bytes, graph: Graph, **beside: bytes) -> dict[str, Placement]:
    request = ReadRequest(graph, parse_placement(BASE), listing=LOG, beside=beside)
    return placements(graph, SUBGRAPH.read(content, request))


def test_three_ways_go_into_two_files_and_back(paddle_graph: Graph) -> None:
    plan = make_plan(paddle_graph, BASE, sig="cpu@fp32", join="vsi:a311d@fp32", flat="cpu@fp32")
    written = SUBGRAPH.write(WriteRequest(plan, paddle_graph, LOG))
    assert written.text == "sigmoid:head_conv:scores\nreshape2:cat:output\n"
    assert written.beside == {"mixed": b"concat:boxes,scores:cat\n"}
    assert _read(written.content, paddle_graph, **written.beside) == placements(paddle_graph, plan)
    assert lint(written.content, LintContext(operations=parse_log(LOG).operations))


def test_a_plan_without_exceptions_is_one_empty_line(paddle_graph: Graph) -> None:
    written = SUBGRAPH.write(WriteRequest(make_plan(paddle_graph, BASE), paddle_graph, LOG))
    assert (written.text, written.beside) == ("\n", {})


def test_an_operator_of_both_files_is_on_the_cpu(paddle_graph: Graph) -> None:
    rule = b"sigmoid:head_conv:scores\n"
    assert str(_read(rule, paddle_graph, mixed=rule)["sig"]) == "cpu@fp32"
    operations = parse_log(LOG).operations
    rules = load_rules("sigmoid\n")
    assert policy_of(operations, rules, rules).counts() == {
        PaddleDevice.NPU_INT8: 9,
        PaddleDevice.NPU_FP32: 0,
        PaddleDevice.CPU: 1,
    }


def test_a_folded_normalisation_goes_with_its_convolution(paddle_graph: Graph) -> None:
    plan = make_plan(paddle_graph, BASE, stem="cpu@fp32", act="cpu@fp32")
    text = SUBGRAPH.write(WriteRequest(plan, paddle_graph, LOG)).text
    assert [line.split(":")[0] for line in text.splitlines()] == ["conv2d", "batch_norm", "relu"]
    found = lint(text.encode(), LintContext(operations=parse_log(LOG).operations))
    assert "W05" not in {item.code for item in found}
    assert str(_read(b"batch_norm::stem_out\n", paddle_graph)["stem"]) == "cpu@fp32"


def test_the_mixed_file_has_no_cpu_and_names_the_nearest(paddle_graph: Graph) -> None:
    plan = make_plan(paddle_graph, BASE, sig="cpu@fp32")
    with pytest.raises(InexpressiblePlan) as caught:
        MIXED.write(WriteRequest(plan, paddle_graph, LOG))
    assert caught.value.nodes == ("sig",)
    nearest = plan_from_json(caught.value.nearest)
    assert str(nearest.placement("sig")) == "vsi:a311d@fp32"
    assert MIXED.write(WriteRequest(nearest, paddle_graph, LOG)).text == "sigmoid:head_conv:scores\n"


def test_sixteen_bits_are_nothing_that_tim_vx_has(paddle_graph: Graph) -> None:
    with pytest.raises(InexpressiblePlan, match="vsi:a311d@i16"):
        SUBGRAPH.write(WriteRequest(make_plan(paddle_graph, BASE, sig="vsi:a311d@i16"), paddle_graph, LOG))


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"sigmoid:nothing:scores\n", "E06"),
        (b"", "E08"),
        (b"\xff\n", "NOT_TEXT"),
        (b"sigmoid:head_conv:scores\r\n", "E06"),
    ],
)
def test_a_dead_rule_is_an_error_though_paddle_lite_is_silent(content: bytes, code: str, paddle_graph: Graph) -> None:
    with pytest.raises(FormatError) as caught:
        _read(content, paddle_graph)
    assert caught.value.code == code


def test_a_log_is_needed(paddle_graph: Graph) -> None:
    with pytest.raises(FormatError, match="2>&1"):
        SUBGRAPH.write(WriteRequest(make_plan(paddle_graph, BASE), paddle_graph))


@pytest.mark.parametrize(
    ("version", "dialect"),
    [
        ("", Dialect.V212),
        ("v2.12", Dialect.V212),
        ("2.13.0", Dialect.V212),
        ("v2.11", Dialect.V210),
        ("2.8", Dialect.V210),
        ("pipe", Dialect.PIPE),
    ],
)
def test_versions(version: str, dialect: Dialect) -> None:
    assert dialect_of(version) is dialect
    with pytest.raises(FormatError, match="VERSION"):
        dialect_of("latest")


def _program(path: Path) -> list[LoggedOperation]:
    """Read the operators of a Paddle program: a protobuf of blocks, operators, and named lists of tensors."""
    found = []
    for block in _fields(path.read_bytes(), 1):
        for op in _fields(block, 4):
            kind = next(_fields(op, 3)).decode()
            ins = [name.decode() for var in _fields(op, 1) for name in _fields(var, 2)]
            outs = [name.decode() for var in _fields(op, 2) for name in _fields(var, 2)]
            found.append(LoggedOperation(kind, tuple(dict.fromkeys(ins)), tuple(outs)))
    return found


def _fields(data: bytes, wanted: int):
    """Yield the length-delimited fields of one number of a protobuf message."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == 2:
            size = varint()
            if key >> 3 == wanted:
                yield data[position : position + size]
            position += size
        elif key & 7 == 0:
            varint()
        else:
            position += 4 if key & 7 == 5 else 8


@pytest.mark.models
def test_a_real_paddle_program_binds_to_its_onnx_export(models: Path) -> None:
    """PP-OCRv3: the names are those of the shipped .pdmodel; folded normalisations and split hard swishes find home."""
    source = load_model(models / "ppocrv3_det" / "model.onnx")
    graph = normalize(source)
    operations = _program(models / "ppocrv3_det" / "model.pdmodel")
    log = "subgraph operators: \n" + "".join(f"{op.text}\n" for op in operations) + "\n"
    listing = log.encode()
    parsed = parse_log(listing).operations
    assert len(parsed) == len(operations) > 200
    binding = bind_log(graph, parsed)
    uncovered = {node.name for node in graph.nodes} - binding.covered
    assert not uncovered
    swish = next(i for i, op in enumerate(parsed) if op.op_type == "hard_swish")
    assert [graph.node(name).op for name in binding.nodes_of[str(swish)]] == ["HardSwish"]
    split = bind_log(source, parsed).nodes_of[str(swish)]
    assert [source.node(name).op for name in split] == ["Add", "Clip", "Mul", "Div"]
    conv = next(node for node in graph.nodes if node.op == "Conv")
    items = [item for item, nodes in binding.nodes_of.items() if conv.name in nodes]
    assert {parsed[int(item)].op_type for item in items} >= {"conv2d", "batch_norm"}
    away = dict.fromkeys(binding.nodes_of[str(swish)], "cpu@fp32")
    plan = make_plan(graph, BASE, **away)
    written = SUBGRAPH.write(WriteRequest(plan, graph, listing))
    assert written.text == parsed[swish].text + "\n"
    back = SUBGRAPH.read(written.content, ReadRequest(graph, plan.default, listing=listing))
    assert placements(graph, back) == placements(graph, plan)
