"""What a request leaves open is decided: the repairs that a choice allows."""

from __future__ import annotations

import pytest

from dovetail.errors import SearchError
from dovetail.fit.chain import _repairs
from dovetail.fit.policy import choose_repairs
from dovetail.fit.request import FitRequest
from dovetail.plan import Recipe, parse_placement
from dovetail.repair import CHOICES, REPAIRS


@pytest.mark.parametrize("word", list(CHOICES))
def test_a_word_allows_its_kinds_in_the_order_of_use(word: str) -> None:
    assert choose_repairs(word) == CHOICES[word]


@pytest.mark.parametrize("kind", list(REPAIRS))
def test_a_kind_is_allowed_alone_or_left_out(kind: str) -> None:
    assert choose_repairs(kind) == (kind,)
    assert choose_repairs(f"all, -{kind}") == tuple(item for item in CHOICES["all"] if item != kind)


def test_later_words_win() -> None:
    assert choose_repairs("split-ranges,dead-channels") == ("dead-channels", "split-ranges")
    assert choose_repairs("exact,-split-ranges,split-ranges") == CHOICES["exact"]
    assert choose_repairs("none,equalise") == ("equalise",)


@pytest.mark.parametrize(
    ("choice", "words"),
    [("", "''"), ("everything", "'everything'"), ("all,-data", "'-data'"), ("equalize", "'equalize'"), ("all,", "''")],
)
def test_what_is_no_choice_is_refused(choice: str, words: str) -> None:
    with pytest.raises(SearchError, match=f"{words} is no choice of repairs"):
        choose_repairs(choice)


def test_a_misspelt_kind_is_named() -> None:
    with pytest.raises(SearchError) as failure:
        choose_repairs("all,-bias-corection")
    assert "bias-correction" in str(failure.value.hint)


@pytest.mark.parametrize(
    ("asked", "said", "kinds"),
    [
        ("all", "none", ()),
        ("all", "equalise", ("equalise",)),
        ("all", "", CHOICES["all"]),
        ("exact", "none", CHOICES["exact"]),
        ("none", "equalise", ()),
    ],
)
def test_a_recipe_says_what_may_be_healed_where_the_request_does_not(
    asked: str, said: str, kinds: tuple[str, ...]
) -> None:
    recipe = Recipe(parse_placement("vsi:v853@i8pc"), repair=said)
    assert _repairs(FitRequest("net.onnx", "photos", repairs=asked), recipe) == kinds


def test_a_word_that_a_recipe_has_wrong_is_said_of_the_recipe() -> None:
    recipe = Recipe(parse_placement("vsi:v853@i8pc"), repair="equalize")
    with pytest.raises(SearchError, match=r"mine\.toml: 'repair': 'equalize' is no choice") as caught:
        _repairs(FitRequest("net.onnx", "photos", recipe="mine.toml"), recipe)
    assert caught.value.option == "recipe"
