"""A run's draws: the same for the same seed, whatever else was loaded, and others for another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import draws
import pytest

_TESTS = Path(__file__).parents[1]
_DRAW = """
import conftest
{before}
from hypothesis import given, settings, strategies as st

found = []

@settings(max_examples=60, database=None)
@given(st.integers(), st.text(), st.floats())
def draw(whole, word, real):
    found.append((whole, word, real))

draw()
print(found)
"""


def _drawn(seed: str, before: str = "") -> str:
    where = os.pathsep.join([str(_TESTS), str(_TESTS / "support"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", _DRAW.format(before=before)],
        env={**os.environ, "PYTHONPATH": where, draws.VARIABLE: seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("where", ["", "true"])
def test_a_run_draws_what_its_seed_says(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI is a word that Hypothesis looks at."""
    monkeypatch.setenv("CI", where)
    first = _drawn("one")
    assert _drawn("one", "import dovetail.search, dovetail.serve") == first
    assert _drawn("two") != first


def test_a_use_draws_other_numbers_than_the_next() -> None:
    assert draws.seed_of("here") == draws.seed_of("here") != draws.seed_of("there")
