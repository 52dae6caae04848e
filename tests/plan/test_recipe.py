"""Recipes: what a person writes, and every way to write it wrongly."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import PlanError
from dovetail.ir import Node
from dovetail.ir.precision import Precision
from dovetail.plan import Placement, Rule, load_recipe, parse_placement
from dovetail.plan.recipe import read_recipe

GOOD = """
default = "vsi:v853@i8pc"
fallback = ["vsi:v853@i16", "cpu@fp32"]

[[rule]]
node = "head/*"
op = "Concat"
place = "vsi:v853@i16"
reason = "boxes and scores share one tensor"

[[rule]]
op = "Softmax"
place = "cpu@fp32"
"""


def _written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_recipe(tmp_path: Path) -> None:
    recipe = load_recipe(_written(tmp_path, GOOD))
    assert str(recipe.default) == "vsi:v853@i8pc"
    assert [str(place) for place in recipe.fallback] == ["vsi:v853@i16", "cpu@fp32"]
    i16 = Placement("vsi:v853", Precision.I16)
    assert recipe.rules[0] == Rule(i16, "head/*", "Concat", "boxes and scores share one tensor")
    assert (recipe.rules[1].node, recipe.rules[1].op) == ("*", "Softmax")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no 'default'"),
        ("default = ", "not TOML"),
        ("default = 1" + "0" * 5000, "not TOML"),
        ("default = 0x" + "f" * 5000, "integer of more than 64 bits"),
        ("default = " + "[" * 5000, "not TOML"),
        ('default = "vsi:v853"', "not a placement"),
        ('default = "@i8"', "not a placement"),
        ("default = 8", "'default'"),
        ('default = ["cpu@fp32"]', "'default'"),
        ('default = "vsi:v853@i8cp"', "Did you mean 'i8pc'"),
        ('defualt = "cpu@fp32"', "Did you mean 'default'"),
        ('default = "cpu@fp32"\nfallback = "cpu@fp32"', "'fallback'"),
        ('default = "cpu@fp32"\nfallback = ["cpu@fp23"]', "fp23"),
        ('default = "cpu@fp32"\nfallback = [3]', "'fallback'"),
        ('default = "cpu@fp32"\nrule = 3', "'rule'"),
        ('default = "cpu@fp32"\nrule = ["x"]', "rule 1"),
        ('default = "cpu@fp32"\n[[rule]]\nplace = "cpu@fp32"', "rule 1"),
        ('default = "cpu@fp32"\n[[rule]]\nnode = "a"', "rule 1"),
        ('default = "cpu@fp32"\n[[rule]]\nnode = "a"\nplace = "cpu@fp3"', "rule 1"),
        ('default = "cpu@fp32"\n[[rule]]\nnode = "a"\nplace = 3', "rule 1"),
        ('default = "cpu@fp32"\n[[rule]]\nnode = ["a"]\nplace = "cpu@fp32"', "'node'"),
        ('default = "cpu@fp32"\n[[rule]]\nop = 5\nplace = "cpu@fp32"', "'op'"),
        ('default = "cpu@fp32"\n[[rule]]\nop = "Add"\nplace = "cpu@fp32"\nreason = 5', "'reason'"),
        ('default = "cpu@fp32"\n[[rule]]\nop = "Add"\nplace = "cpu@fp32"\n[[rule]]\nnoed = "b"', "rule 2"),
    ],
)
def test_a_bad_recipe_says_in_one_line_where_it_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    path = _written(tmp_path, text)
    with pytest.raises(PlanError) as caught:
        load_recipe(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert says in message


def test_what_stands_for_a_text_is_shown_by_its_beginning() -> None:
    with pytest.raises(PlanError, match=r"'default': a text is expected, not '\[1(, 1){12}, '\."):
        read_recipe({"default": [1] * 500})


def test_a_recipe_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(PlanError, match="cannot be read"):
            load_recipe(path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="cannot be read: not text, so no recipe"):
        load_recipe(binary)


def test_a_huge_recipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as stream:
        stream.truncate(5 << 20)
    with pytest.raises(PlanError, match="larger than"):
        load_recipe(path)


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("cpu@fp32")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["default", "fallback", "rule", "node", "op", "place"]), inner, max_size=4),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["default", "fallback", "rule", "other"]), _VALUES))
def test_any_document_is_a_recipe_or_a_plan_error(document: dict[str, object]) -> None:
    with suppress(PlanError):
        read_recipe(document)


@given(st.text(max_size=20))
def test_any_text_is_a_placement_or_a_plan_error(text: str) -> None:
    with suppress(PlanError):
        placement = parse_placement(text)
        assert parse_placement(str(placement)) == placement


@settings(max_examples=30)
@given(st.sampled_from(list(Precision)), st.sampled_from(["cpu", "vsi:v853", "board@home:1"]))
def test_placements_are_read_as_they_are_printed(precision: Precision, target: str) -> None:
    assert parse_placement(f" {target}@{precision.value} ") == Placement(target, precision)


def test_rules_match_names_of_the_source_file() -> None:
    node = Node("n0", "Relu", ("x",), ("y",), origin=("head/conv", "head/relu"))
    place = parse_placement("cpu@fp32")
    assert Rule(place, "head/*").matches(node)
    assert Rule(place, "n0").matches(node)
    assert Rule(place, "head/relu", "Relu").matches(node)
    assert not Rule(place, "head/relu", "Conv").matches(node)
    assert not Rule(place, "HEAD/*").matches(node)
    assert not Rule(place, "head").matches(node)
