"""Plans as values and as files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import PlanError
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Placement, Plan
from dovetail.plan.plan import load_plan, plan_from_json
from dovetail.seal import unsealed
from dovetail.testing.networks import Network

CPU = Placement("cpu", Precision.FP32)
NPU = Placement("vsi:v853", Precision.I8PC)

_PLACEMENTS = st.builds(
    Placement, st.text(min_size=1, max_size=6).map(str.strip).filter(bool), st.sampled_from(Precision)
)
_OVERRIDES = st.dictionaries(st.text(max_size=6), st.builds(Override, _PLACEMENTS, st.text(max_size=10)), max_size=4)
_PLANS = st.builds(Plan, st.text(max_size=8), _PLACEMENTS, _OVERRIDES)


@given(_PLANS)
def test_json_brings_a_plan_back(plan: Plan) -> None:
    again = plan_from_json(plan.to_json())
    assert again == plan
    assert again.digest == plan.digest


@given(_PLANS, st.text(max_size=6))
def test_reasons_do_not_count_in_the_digest_but_placements_do(plan: Plan, reason: str) -> None:
    reworded = {node: Override(item.placement, reason) for node, item in plan.overrides.items()}
    assert Plan(plan.graph_digest, plan.default, reworded).digest == plan.digest
    for node, item in plan.overrides.items():
        moved = Override(CPU if item.placement != CPU else NPU, item.reason)
        assert Plan(plan.graph_digest, plan.default, {**plan.overrides, node: moved}).digest != plan.digest
    assert Plan(plan.graph_digest + "x", plan.default, plan.overrides).digest != plan.digest


def test_equal_placements_have_equal_digests() -> None:
    one = Plan("g", NPU, {"a": Override(CPU, ""), "b": Override(CPU, "")})
    other = Plan("g", NPU, {"b": Override(CPU, ""), "a": Override(CPU, "")})
    assert one.digest == other.digest
    assert Plan("g", NPU, {"a": Override(NPU, "stays")}).digest == Plan("g", NPU).digest


def test_names_cannot_be_made_to_collide() -> None:
    place = Override(CPU, "")
    sneaky = Plan("g", NPU, {f"a\0{CPU}\nb": place})
    assert sneaky.digest != Plan("g", NPU, {"a": place, "b": place}).digest


_JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["cpu@fp32", "x", "dovetail-plan"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["schema", "kind", "graph", "default", "overrides", "place", "reason"]), inner, max_size=5
        ),
    ),
    max_leaves=10,
)


@given(_JSON)
def test_any_json_is_a_plan_or_a_plan_error(document: object) -> None:
    _only_plan_errors(json.dumps(document))


@given(st.sampled_from(["graph", "default", "overrides", "schema", "kind"]), _JSON)
def test_a_plan_with_one_field_replaced_is_a_plan_or_a_plan_error(field: str, value: object) -> None:
    document = unsealed(json.loads(Plan("g", NPU, {"a": Override(CPU, "why")}).to_json()))
    document[field] = value
    _only_plan_errors(json.dumps(document))


@given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_a_plan_with_bytes_replaced_is_a_plan_or_a_plan_error(at: int, put: bytes) -> None:
    raw = Plan("g", NPU, {"a": Override(CPU, "why")}).to_json().encode()
    _only_plan_errors((raw[:at] + put + raw[at + len(put) :]).decode("utf-8", "replace"))


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "1" * 10_000, "null", '{"kind": "dovetail-plan"}', "NaN"])
def test_malformed_text(text: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_from_json(text, "p.json")
    assert str(caught.value).startswith("p.json: ")
    assert len(str(caught.value)) < 300


def _only_plan_errors(text: str) -> None:
    with suppress(PlanError):
        plan_from_json(text)


def test_fields_of_the_wrong_type_are_refused() -> None:
    good = unsealed(json.loads(Plan("g", NPU, {"a": Override(CPU, "why")}).to_json()))
    wrong = [
        {**good, "graph": 7},
        {**good, "schema": True},
        {**good, "overrides": [["a", {}]]},
        {**good, "overrides": {"a": {"place": "cpu@fp32", "reason": 3}}},
        {**good, "overrides": {"a": {"place": ["cpu@fp32"], "reason": ""}}},
    ]
    for document in wrong:
        with pytest.raises(PlanError):
            plan_from_json(json.dumps(document))


def test_a_file_has_a_line_for_each_entry_so_that_two_can_be_compared() -> None:
    plan = Plan("abc", NPU, {"größe": Override(CPU, "breaks")})
    lines = plan.to_json().splitlines()
    assert lines.pop(-2).startswith(' "checksum": "')
    assert lines == [
        "{",
        ' "schema": 1,',
        ' "kind": "dovetail-plan",',
        ' "graph": "abc",',
        ' "default": "vsi:v853@i8pc",',
        ' "overrides": {',
        '  "größe": {',
        '   "place": "cpu@fp32",',
        '   "reason": "breaks"',
        "  }",
        " },",
        "}",
    ]


def test_files(tmp_path: Path) -> None:
    plan = Plan("g", NPU, {"a": Override(CPU, "größer")})
    plan.save(tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == plan
    with pytest.raises(PlanError, match="cannot be read"):
        load_plan(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'{"kind": "\xe9"}')
    with pytest.raises(PlanError, match="cannot be read: not text, so no plan"):
        load_plan(tmp_path / "latin.json")


def test_a_plan_is_refused_for_another_graph() -> None:
    net = Network()
    net.op("Relu", net.input("x", 1, 4))
    graph = net.graph("t0")
    Plan(graph.digest, NPU).check(graph)
    with pytest.raises(PlanError, match="made for graph"):
        Plan("0" * 64, NPU).check(graph)
    with pytest.raises(PlanError, match="'ghost'"):
        Plan(graph.digest, NPU, {"ghost": Override(CPU, "")}).check(graph)


def test_placements_reasons_and_targets() -> None:
    plan = Plan("g", NPU, {"a": Override(CPU, "hostile"), "b": Override(Placement("vsi:v853", Precision.I16), "wide")})
    assert (plan.placement("a"), plan.placement("z")) == (CPU, NPU)
    assert (plan.reason("a"), plan.reason("z")) == ("hostile", "default")
    assert plan.targets == ("vsi:v853", "cpu")
