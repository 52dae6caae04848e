"""Formats that are lists: golden files there and back, errors that name the place, plans that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import DovetailError, FormatError, InexpressiblePlan
from dovetail.formats import ReadRequest, WriteRequest, find_format, format_names, known_formats, spell
from dovetail.ir import Graph
from dovetail.plan import parse_placement
from dovetail.plan.plan import plan_from_json

from .conftest import GOLDEN, make_graph, make_plan, placements

BASE = parse_placement("vsi:v853@i8pc")


@dataclass(frozen=True)
class Case:
    """A golden file and the plan that it says."""

    format: str
    file: str
    default: str
    head: str
    sig: str
    exception: str


CASES = [
    Case("nncf", "nncf.json", "vsi:v853@i8pc", "cpu@fp32", "cpu@fp32", "cpu@fp32"),
    Case("executorch", "executorch.json", "vsi:v853@i8pc", "cpu@fp32", "cpu@fp32", "cpu@fp32"),
    Case("tflite", "tflite.json", "vsi:v853@i8pc", "cpu@fp32", "cpu@fp32", "cpu@fp32"),
    Case("rknn", "rknn.quantization.cfg", "vsi:v853@i8pc", "vsi:v853@fp16", "vsi:v853@fp16", "cpu@fp32"),
    Case("tpu-mlir", "tpu-mlir.qtable", "vsi:v853@i8pc", "vsi:v853@fp32", "vsi:v853@bf16", "cpu@fp32"),
    Case("aimet", "aimet.encodings", "vsi:v853@i8pc", "vsi:v853@w8a16", "vsi:v853@fp16", "vsi:v853@fp32"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.format)
def test_a_golden_file_goes_there_and_back(case: Case, graph: Graph) -> None:
    content = (GOLDEN / case.file).read_bytes()
    form = find_format(case.format)
    request = ReadRequest(graph, parse_placement(case.default), parse_placement(case.exception), path=case.file)
    plan = form.read(content, request)
    assert placements(graph, plan) == placements(
        graph, make_plan(graph, case.default, head_conv=case.head, sig=case.sig)
    )
    assert form.lint(content, request) == ()
    previous = content if case.format == "rknn" else None
    assert form.write(WriteRequest(plan, graph, previous=previous)).content == content


def _raised(work: Callable[[], object]) -> DovetailError | None:
    try:
        work()
    except DovetailError as error:
        return error
    return None


LISTS = ["nncf", "executorch", "tflite", "ai-edge-quantizer", "rknn", "tpu-mlir", "aimet"]
_TARGETS = ["vsi:v853@i8pc", "vsi:v853@i16", "vsi:v853@w8a16", "vsi:v853@fp16", "vsi:v853@fp32", "cpu@fp32", "cpu@i8pc"]


@pytest.mark.parametrize("name", LISTS)
@given(places=st.lists(st.sampled_from(_TARGETS), min_size=7, max_size=7))
@settings(max_examples=40, deadline=None)
def test_the_nearest_plan_can_be_said_and_keeps_precision(name: str, places: list[str]) -> None:
    graph = make_graph()
    names = [node.name for node in graph.nodes]
    plan = make_plan(graph, "vsi:v853@i8pc", **dict(zip([n.replace("/", "_") for n in names], places, strict=True)))
    form = find_format(name)
    error = _raised(lambda: form.write(WriteRequest(plan, graph)))
    if isinstance(error, InexpressiblePlan):
        assert set(error.nodes) <= set(names)
        nearest = plan_from_json(error.nearest)
        # The nearest plan is one that can be said, and taking it is the end of the matter.
        words = (*form.vocabulary.base, *form.vocabulary.exceptions)
        most = max(precision.bits for word in words for precision in word.precisions)
        for node in names:
            assert nearest.placement(node).precision.bits >= min(plan.placement(node).precision.bits, most)
        plan = nearest
    written = form.write(WriteRequest(plan, graph))
    base = spell(plan, graph, form.bind(graph), form.vocabulary).base  # type: ignore[attr-defined]
    exceptions = {plan.placement(node) for node in names} - {base}
    for exception in exceptions or {parse_placement("cpu@fp32")}:
        back = form.read(written.content, ReadRequest(graph, base, exception))
        for node in names:
            if plan.placement(node) in (exception, base):
                assert back.placement(node) == plan.placement(node)


def test_an_inexpressible_plan_names_the_nodes_and_what_to_do(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="vsi:v853@i16")
    with pytest.raises(InexpressiblePlan, match=r"'sig' \(vsi:v853@i16\).*nearest plan") as caught:
        find_format("nncf").write(WriteRequest(plan, graph))
    assert caught.value.nodes == ("sig",)
    assert plan_from_json(caught.value.nearest).placement("sig").precision.value in ("fp16", "fp32")


def test_one_word_cannot_stand_for_two_placements(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", join="cpu@fp32", flat="vsi:v853@fp32")
    with pytest.raises(InexpressiblePlan) as caught:
        find_format("nncf").write(WriteRequest(plan, graph))
    assert caught.value.nodes == ("flat",)
    assert str(plan_from_json(caught.value.nearest).placement("flat")) == "cpu@fp32"


def test_folded_nodes_are_listed_too(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", stem="cpu@fp32", sig="cpu@fp32")
    text = find_format("nncf").write(WriteRequest(plan, graph)).text
    assert '"stem_bn"' in text
    assert '"stem"' in text


@pytest.mark.parametrize("name", format_names())
@given(content=st.binary(max_size=120))
@settings(max_examples=30, deadline=None)
def test_bad_bytes_are_reported_and_never_crash(name: str, content: bytes) -> None:
    graph = make_graph()
    form = find_format(name)
    form.lint(content, ReadRequest(graph, BASE))
    error = _raised(lambda: form.read(content, ReadRequest(graph, BASE)))
    assert error is None or "\n" not in str(error)


@pytest.mark.parametrize("name", format_names())
@pytest.mark.parametrize("content", [b"\0", b"\xff\xfe{\0}\0", b"[" * 100_000, b"a: &x [*x]\n", b"{" * 5000, b"1e999"])
def test_hostile_files_are_refused(name: str, content: bytes) -> None:
    graph = make_graph()
    form = find_format(name)
    with pytest.raises(DovetailError):
        form.read(content, ReadRequest(graph, BASE))
    assert form.lint(content, ReadRequest(graph, BASE))


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("nncf", b'{"names": ["sigg"]}', "UNKNOWN_NAME"),
        ("nncf", b'{"patterns": ["(a+)+"]}', "PATTERN"),
        ("nncf", b'{"patterns": ["("]}', "PATTERN"),
        ("nncf", b'{"types": ["Conv"]}', "UNREAD"),
        ("tflite", b'{"denylisted_nodes": 3}', "SHAPE"),
        ("rknn", b"custom_quantize_layers:\n  scores: int7\n", "UNKNOWN_WORD"),
        ("rknn", b"custom_quantize_layers:\n  scores: float16\n  scores: float16\n", "DUPLICATE"),
        ("tpu-mlir", b"scores_Sigmoid\n", "SHAPE"),
        ("tpu-mlir", b"scores_Sigmoid F64\n", "UNKNOWN_WORD"),
        ("aimet", b'{"activation_encodings": {"scores": []}}', "SHAPE"),
        ("aimet", b'{"activation_encodings": {"scores": [{"bitwidth": 4}]}}', "UNKNOWN_WORD"),
        ("ai-edge-quantizer", b'[{"regex": ".*", "operation": "CONV_2D"}]', "UNREAD"),
    ],
)
def test_what_is_wrong_is_named(name: str, content: bytes, code: str, graph: Graph) -> None:
    with pytest.raises(FormatError) as caught:
        find_format(name).read(content, ReadRequest(graph, BASE))
    assert caught.value.code == code
    assert [item.code for item in find_format(name).lint(content, ReadRequest(graph, BASE))] == [code]


def test_an_unknown_name_gets_the_nearest(graph: Graph) -> None:
    with pytest.raises(FormatError, match="'scores'"):
        find_format("tflite").read(b'{"denylisted_nodes": ["scoress"]}', ReadRequest(graph, BASE))


def test_patterns_are_read(graph: Graph) -> None:
    plan = find_format("nncf").read(b'{"patterns": ["head/.*", "s.g"]}', ReadRequest(graph, BASE))
    assert set(plan.overrides) == {"head/conv", "sig"}


def test_an_unknown_format_gets_the_nearest() -> None:
    with pytest.raises(DovetailError, match="Did you mean 'nncf'"):
        find_format("nncff")


def test_every_format_says_what_it_can_express() -> None:
    for form in known_formats():
        assert form.name in format_names()
        assert "*" in form.pattern
        assert form.granularity
        assert "all nodes" in form.vocabulary.describe()
        assert form.title
