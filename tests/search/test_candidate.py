"""A candidate says what is known of it, in words that are true."""

from __future__ import annotations

import pytest

from dovetail.search.acceptance import ask_holdout

from .stages import LOW, WIDE, Setting, open_stages
from .test_culprits import chain

_SETTING = Setting(chain(3), lambda plan, indices: 0.05 if plan.placement("n1") == LOW else 0.0)


def test_what_the_hold_out_says_is_its_summary() -> None:
    context, ledger = open_stages(_SETTING)
    candidate = context.candidate(context.raised(["n1"], top=False))
    assert candidate.summary == "not asked of the hold-out"
    assert not candidate.accepted
    assert candidate.holdout_gain == float("-inf")
    judged = ask_holdout(context, ledger, candidate)
    assert judged.summary == "hold-out loss 0 within 0.1"
    assert judged.accepted
    assert judged.holdout_gain == 0.0
    low = ask_holdout(context, ledger, context.candidate({}))
    assert low.holdout_gain == pytest.approx(-0.05)


def test_a_unit_breaks_only_where_that_was_tested() -> None:
    context, _ = open_stages(_SETTING)
    assert context.raised(["n1"], top=False)["n1"].reason.startswith(f"breaks at {LOW}: ")
    untested = context.raised(["n1"], top=False, tested=False)["n1"]
    assert untested.reason.startswith("raised with others, not tested alone: ")
    assert untested.placement == WIDE
