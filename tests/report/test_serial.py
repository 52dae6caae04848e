"""Plain data for JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from dovetail.plan import parse_placement
from dovetail.report import json_text, plain_data


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    place: object
    colour: Colour


def test_records_become_plain_data() -> None:
    value = {"a": (Inner(parse_placement("cpu@fp32"), Colour.RED),), "b": Path("x/y"), "c": None, "d": True}
    assert plain_data(value) == {
        "a": [{"place": "cpu@fp32", "colour": "red"}],
        "b": "x/y",
        "c": None,
        "d": True,
    }


def test_numbers_that_json_lacks_are_null() -> None:
    text = json_text({"nan": float("nan"), "inf": [float("inf"), -float("inf"), 1.5]})
    assert json.loads(text, parse_constant=pytest.fail) == {"nan": None, "inf": [None, None, 1.5]}


def test_unknown_values_are_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        plain_data(object())
