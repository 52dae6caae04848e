"""What is deprecated works, and says so where it was used."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from dovetail import deprecation
from dovetail.deprecation import DovetailDeprecation, deprecated, numbers_of, warn_deprecated


@deprecated("new_sum", gone="999.0.0")
def old_sum(one: int, *, other: int = 2) -> int:
    """Return a sum."""
    return one + other


def with_parameter(old: int | None = None) -> int:
    if old is not None:
        warn_deprecated("the parameter 'old'", "'new'", gone="999.0.0")
    return old or 0


def test_it_works_and_says_what_takes_its_place() -> None:
    with pytest.warns(
        DovetailDeprecation, match=r"old_sum is deprecated and goes in 999\.0\.0: use new_sum\."
    ) as heard:
        assert old_sum(1, other=4) == 5
    assert [item.filename for item in heard] == [str(Path(__file__))]
    assert old_sum.__doc__ == "Return a sum."


def test_a_parameter_is_told_where_it_is_given() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert with_parameter() == 0
        assert heard == []
        assert with_parameter(3) == 3
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "with_parameter(3)" in lines[heard[0].lineno - 1]


def test_what_was_to_be_gone_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "__version__", "999.0.0")
    with pytest.raises(RuntimeError, match="was to go in"):
        old_sum(1)


def test_versions_are_compared_by_number() -> None:
    assert numbers_of("0.10.0") > numbers_of("0.9.1")
    with pytest.raises(ValueError, match="invalid literal"):
        numbers_of("next")
