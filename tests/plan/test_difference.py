"""What differs between two plans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir.precision import Precision
from dovetail.plan import Override, Placement, Plan
from dovetail.plan.difference import compare_plans
from dovetail.plan.repairs import RepairRecord

NPU = Placement("vsi:v853", Precision.I8PC)
WIDE = Placement("vsi:v853", Precision.I16)
CPU = Placement("cpu", Precision.FP32)

_OVERRIDES = st.dictionaries(
    st.sampled_from("abcdef"), st.builds(Override, st.sampled_from([NPU, WIDE, CPU]), st.text(max_size=4)), max_size=6
)
_REPAIRS = st.lists(
    st.builds(
        RepairRecord,
        st.sampled_from(["split", "scale"]),
        st.dictionaries(st.sampled_from("xyz"), st.tuples(st.integers(0, 3)), max_size=3),
    ),
    max_size=2,
    unique_by=lambda item: item.kind,
).map(tuple)
_PLANS = st.builds(Plan, st.sampled_from(["g", "h"]), st.sampled_from([NPU, CPU]), _OVERRIDES, _REPAIRS)


@given(_PLANS, _PLANS)
def test_the_difference_turns_one_plan_into_the_other(first: Plan, second: Plan) -> None:
    difference = compare_plans(first, second, {})
    moved = {node: item.after for item in difference.moved for node in item.nodes}
    for node in "abcdef":
        here = node in first.overrides or node in second.overrides
        expected = moved.get(node, first.placement(node)) if here else difference.defaults[1]
        assert second.placement(node) == expected
    repairs = {(item.kind, item.tensor): item.after for item in difference.repairs}
    for record in second.repairs:
        for tensor, numbers in record.channels.items():
            known = {(item.kind, name): value for item in first.repairs for name, value in item.channels.items()}
            assert repairs.get((record.kind, tensor), known.get((record.kind, tensor))) == numbers


@given(_PLANS)
def test_a_plan_does_not_differ_from_itself(plan: Plan) -> None:
    assert compare_plans(plan, plan, {}).is_empty


@given(_PLANS, _PLANS)
def test_other_digests_differ_and_there_and_back_swap(first: Plan, second: Plan) -> None:
    there, back = compare_plans(first, second, {}), compare_plans(second, first, {})
    assert {(item.before, item.after, item.nodes[0]) for item in there.moved} == {
        (item.after, item.before, item.nodes[0]) for item in back.moved
    }
    same_words = first.default == second.default or not there.is_empty
    assert same_words
    if there.is_empty and [item.kind for item in first.repairs] == [item.kind for item in second.repairs]:
        stated = [item for item in (*first.repairs, *second.repairs) if not item.channels]
        assert first.digest == second.digest or stated


def test_nodes_of_a_unit_are_one_row() -> None:
    first = Plan("g", NPU)
    second = Plan("g", NPU, {"conv": Override(WIDE, "breaks"), "relu": Override(WIDE, "breaks")})
    (row,) = compare_plans(first, second, {"conv": "conv", "relu": "conv"}).moved
    assert (row.unit, row.nodes, row.before, row.after, row.reason) == ("conv", ("conv", "relu"), NPU, WIDE, "breaks")
