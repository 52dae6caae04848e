"""A candidate says what is known of it, in words that are true."""

from __future__ import annotations

from .stages import LOW, WIDE, Setting, open_stages
from .test_culprits import chain

_SETTING = Setting(chain(3), lambda plan, indices: 0.05 if plan.placement("n1") == LOW else 0.0)


def test_a_unit_breaks_only_where_that_was_tested() -> None:
    context, _ = open_stages(_SETTING)
    assert context.raised(["n1"], top=False)["n1"].reason.startswith(f"breaks at {LOW}: ")
    untested = context.raised(["n1"], top=False, tested=False)["n1"]
    assert untested.reason.startswith("raised with others, not tested alone: ")
    assert untested.placement == WIDE
