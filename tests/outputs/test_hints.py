"""What a person says of the outputs: a line or a TOML file, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import DataError
from dovetail.outputs.hints import Hints, hints_line, parse_hints, read_hints
from dovetail.outputs.view import HeadView, Kind, OutputRole, OutputsView

NAMES = st.lists(st.text("abcxyz_0123[]:/.-", min_size=1, max_size=8), min_size=1, max_size=6, unique=True)


@given(NAMES, st.sampled_from([kind for kind in Kind if kind not in (Kind.UNKNOWN, Kind.STATE)]), st.data())
def test_the_line_that_is_shown_says_what_is_seen(names: list[str], kind: Kind, data: st.DataObject) -> None:
    roles = {name: data.draw(st.sampled_from(OutputRole)) for name in names}
    hints = read_hints(hints_line(OutputsView((HeadView(kind, "", roles, None, 0.5, ()),), {})))
    assert hints.kind is kind
    assert {name: hints.role_of(name) for name in names} == roles
    hints.check(names)


@pytest.mark.parametrize("name", ["a,b", "a=b"])
def test_no_line_is_shown_that_could_not_be_read(name: str) -> None:
    head = HeadView(Kind.CLASSIFICATION, "", {name: OutputRole.SCORES}, None, 0.5, ())
    assert hints_line(OutputsView((head,), {})) == ""


def test_a_file_says_the_same_as_a_line(tmp_path: Path) -> None:
    path = tmp_path / "outputs.toml"
    text = '[outputs]\nkind = "detection"\nboxes = ["bbox_8", "bbox_16"]\nscores = "cls_*"\nthreshold = 0.4\n'
    path.write_text(text)
    line = "boxes=bbox_8,boxes=bbox_16,scores=cls_*,kind=detection,threshold=0.4"
    assert read_hints(str(path)) == parse_hints(line)
    assert parse_hints(line).threshold == 0.4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "nonsense: cannot be read .* Write a line such as 'boxes="),
        ("boxes=a,scores", "'scores' is not role=name"),
        ("boxes=", "'boxes=' is not role=name"),
        ("box=a", "there is no role 'box'. Did you mean 'boxes'"),
        ("kind=detector", "kind = 'detector' is not one of .*detection"),
        ("kind=detection,kind=detection", "is not one of"),
        ("threshold=high", "threshold = 'high' is not one number between 0 and 1"),
        ("threshold=1.5", "threshold = '1.5' is not one number between 0 and 1"),
        ("threshold=nan", "threshold = 'nan' is not one number"),
        ("threshold=0.2,threshold=0.3", "threshold = '0.2, 0.3' is not one number"),
    ],
)
def test_what_cannot_be_understood_says_why(line: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_hints(line)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"no table \[outputs\]"),
        (b"outputs = 3", r"no table \[outputs\]"),
        (b"[outputs]\nboxes = 3", "not a name or a list of names"),
        (b"[outputs]\nthreshold = true", "threshold = 'True' is not one number"),
        (b"[outputs", "not a TOML file"),
        (b"[outputs]\nkind = 1" + b"0" * 5000, "not a TOML file"),
        (b"[outputs]\nkind = [0x" + b"f" * 5000 + b"]", "integer of more than 64 bits"),
        (b"\xff\xfe", "not a TOML file"),
        (b'[outputs]\nkind = "detection"\n#' + b"x" * (1 << 20), "larger than 1048576 bytes"),
    ],
)
def test_damaged_files(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "outputs.toml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_hints(str(path))


def test_a_pattern_that_fits_nothing_is_named() -> None:
    with pytest.raises(DataError, match=r"scores = 'cls_\?' fits no output; there are a, b"):
        Hints(None, {OutputRole.SCORES: ("cls_?",)}).check(["a", "b"])


def test_what_is_seen_is_said_of_points_before_bare_values() -> None:
    points = HeadView(Kind.KEYPOINTS, "", {"marks": OutputRole.POINTS}, None, 0.55, ())
    values = HeadView(Kind.REGRESSION, "", {"flag": OutputRole.VALUES}, None, 0.85, ())
    assert hints_line(OutputsView((values, points), {})) == "points=marks,values=flag"
    assert hints_line(OutputsView((values,), {})) == "values=flag,kind=regression"
