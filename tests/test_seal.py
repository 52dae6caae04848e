"""Checksums in documents: what is damaged is refused, what is edited by hand on purpose is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.seal import parse_toml, sealed, unsealed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text().filter(lambda name: name != "checksum"), VALUES, max_size=5)


@given(DOCUMENTS)
def test_a_document_comes_back_through_json(document: dict[str, object]) -> None:
    read = unsealed(json.loads(json.dumps(sealed(document))))
    assert json.dumps(read) == json.dumps(document)


def test_keys_that_are_numbers_are_no_damage() -> None:
    document = {"rows": {10: "a", 9: "b", 100: "c"}}
    unsealed(json.loads(json.dumps(sealed(document))))


@given(DOCUMENTS.filter(bool), st.data())
def test_a_changed_value_is_refused(document: dict[str, object], data: st.DataObject) -> None:
    whole = json.loads(json.dumps(sealed(document)))
    name = data.draw(st.sampled_from(sorted(document)))
    whole[name] = ["other", whole[name]]
    with pytest.raises(ValueError, match="does not have its checksum"):
        unsealed(whole)
    del whole["checksum"]
    assert unsealed(whole) == whole or whole != whole


def test_integers_of_toml_have_64_bits() -> None:
    assert parse_toml(f"a = [{2**63 - 1}, {-(2**63)}]") == {"a": [2**63 - 1, -(2**63)]}
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="64 bits"):
            parse_toml(f"[[a]]\nb = [[{value}]]")
