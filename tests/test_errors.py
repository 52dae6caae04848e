"""The promises of the exception tree."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import (
    CompileError,
    DovetailError,
    FormatError,
    PassError,
    UnsupportedPlacement,
    suggestion,
)


@given(st.text(max_size=30), st.one_of(st.none(), st.text(max_size=30)))
def test_an_error_is_one_line_and_survives_a_trip_to_another_process(text: str, hint: str | None) -> None:
    errors: list[DovetailError] = [
        DovetailError(text, hint=hint),
        PassError(text, pass_name="fold", hint=hint),
        UnsupportedPlacement(text, "cpu", "i16", text, hint=hint),
        CompileError(text, partition=3, log_path="log", hint=hint),
        FormatError(text, path=text, line=4, code="E1", hint=hint),
    ]
    for error in errors:
        assert len(str(error).splitlines()) <= 1
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("meant", "near"), [("acuity", "acuity-quantize"), ("acuty", "acuity-quantize"), ("tflit", "tflite"), ("x", None)]
)
def test_a_suggestion_knows_beginnings_and_first_words(meant: str, near: str | None) -> None:
    hint = suggestion(meant, ("acuity-quantize", "ai-edge-quantizer", "tflite"))
    assert hint.endswith("Known: acuity-quantize, ai-edge-quantizer, tflite.")
    assert hint.startswith("Known" if near is None else f"Did you mean '{near}'? ")
