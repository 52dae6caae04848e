"""What is written as TOML is read back as it was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.data import (
    Anchor,
    Channels,
    Interpolation,
    Layout,
    Preprocess,
    PreprocessStep,
    StepKind,
    load_preprocess,
    preprocess_to_toml,
)

REALS = st.floats(-1e4, 1e4, allow_nan=False).filter(lambda value: abs(value) > 1e-6)


@st.composite
def steps(draw):
    kind = draw(st.sampled_from(StepKind))
    height = draw(st.integers(1, 999))
    width = height if kind is StepKind.RESIZE_SHORT else draw(st.integers(1, 999))
    own = None if kind is StepKind.CENTRE_CROP else draw(st.sampled_from([None, *Interpolation]))
    if kind is StepKind.LETTERBOX:
        return PreprocessStep(kind, height, width, draw(st.integers(0, 255)), draw(st.sampled_from(Anchor)), own)
    return PreprocessStep(kind, height, width, interpolation=own)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(steps(), max_size=3),
    st.sampled_from(Channels),
    st.sampled_from([None, *Layout]),
    st.lists(REALS, min_size=3, max_size=3),
    st.booleans(),
    st.sampled_from(Interpolation),
)
def test_round_trip(tmp_path_factory, listed, channels, layout, reals, single, interpolation):
    count = 1 if single or channels is Channels.GREY else 3
    values = tuple(reals[:count])
    preprocess = Preprocess(tuple(listed), channels, layout, values, values, interpolation)
    path = tmp_path_factory.mktemp("toml") / "p.toml"
    path.write_text(preprocess_to_toml(preprocess, ["proposed: 0.9", "of 24 pictures"]))
    assert load_preprocess(path) == preprocess
