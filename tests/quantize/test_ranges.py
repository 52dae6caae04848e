"""Ranges as files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import QuantizeError
from dovetail.quantize import Range, Ranges, load_ranges
from dovetail.quantize.ranges import ranges_from_json
from dovetail.seal import sealed, unsealed

_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_RANGES = st.tuples(_NUMBERS, _NUMBERS).map(lambda pair: Range(min(pair), max(pair)))
GOOD = Ranges("g", "minmax", 3, {"x": Range(-1.0, 2.0)})


@given(st.dictionaries(st.text(max_size=5), _RANGES, max_size=4), st.integers(0, 9))
def test_json_brings_ranges_back(tensors: dict[str, Range], samples: int) -> None:
    ranges = Ranges("g", "kl", samples, tensors)
    again = ranges_from_json(ranges.to_json())
    assert again == ranges
    assert again.digest == ranges.digest


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_damaged_ranges_are_ranges_or_a_quantise_error(at: int, put: bytes) -> None:
    raw = GOOD.to_json().encode()
    with suppress(QuantizeError):
        ranges_from_json((raw[:at] + put + raw[at + len(put) :]).decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "tensors",
    [
        {"x": [1.0, 0.0]},
        {"x": [0.0]},
        {"x": [0.0, 1.0, 2.0]},
        {"x": ["0", "1"]},
        {"x": [float("nan"), 1.0]},
        {"x": [0.0, float("inf")]},
        {"x": [0, 10**400]},
        {"x": [False, True]},
        {"x": [False, 1.0]},
        {"x": [0.0, True]},
        {"x": ["0", 1.0]},
        {"x": [0.0, "1"]},
        {"x": [float("-inf"), 0.0]},
        {"x": [0.0, float("nan")]},
        {"x": None},
        {"x": "ab"},
        [],
        None,
    ],
)
def test_what_is_no_range_is_refused(tensors: object) -> None:
    document = {**unsealed(json.loads(GOOD.to_json())), "tensors": tensors}
    with pytest.raises(QuantizeError, match=r"^r\.json: malformed"):
        ranges_from_json(json.dumps(document), "r.json")


def test_the_form_of_a_file() -> None:
    ranges = Ranges("gräph", "minmax", 3, {"y": Range(0.0, 0.0), "ä": Range(-1.0, 2.5)})
    document = {
        "schema": 1,
        "kind": "dovetail-ranges",
        "graph": "gräph",
        "method": "minmax",
        "samples": 3,
        "tensors": {"y": [0.0, 0.0], "ä": [-1.0, 2.5]},
    }
    assert ranges.to_json() == json.dumps(sealed(document), indent=1, ensure_ascii=False) + "\n"
    other = Ranges("gräph", "minmax", 3, dict(reversed(list(ranges.tensors.items()))))
    assert (other.to_json(), other.digest) == (ranges.to_json(), ranges.digest)
    assert Ranges("gräph", "minmax", 4, ranges.tensors).digest != ranges.digest


@pytest.mark.parametrize(
    "change", [{"schema": 0}, {"schema": 2}, {"kind": "dovetail-plan"}, {"kind": "dovetail-report"}]
)
def test_another_schema_or_kind(change: dict[str, object]) -> None:
    document = {**unsealed(json.loads(GOOD.to_json())), **change}
    with pytest.raises(QuantizeError, match=r"^r\.json: not Dovetail ranges of schema 1"):
        ranges_from_json(json.dumps(document), "r.json")


def test_deep_nesting() -> None:
    with pytest.raises(QuantizeError, match="malformed"):
        ranges_from_json("[" * 100_000)


@pytest.mark.parametrize("field", ["schema", "kind", "graph", "method", "samples", "tensors"])
def test_a_field_that_is_missing(field: str) -> None:
    document = unsealed(json.loads(GOOD.to_json()))
    del document[field]
    with pytest.raises(QuantizeError, match="malformed"):
        ranges_from_json(json.dumps(document))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match="cannot be read"):
        load_ranges(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(QuantizeError, match="cannot be read: not text, so no file of ranges"):
        load_ranges(tmp_path / "binary.json")


def test_a_tensor_without_a_range_says_what_to_do() -> None:
    assert GOOD.of("x") == Range(-1.0, 2.0)
    with pytest.raises(QuantizeError, match="tensor 'y' has no range") as caught:
        GOOD.of("y")
    assert "cpu@fp32" in str(caught.value)
