"""What a command says is kept, up to a length, with the reason why a candidate cannot be tested."""

from __future__ import annotations

import math

import pytest

from dovetail.errors import SearchError
from dovetail.search.bisect import CommandOracle, MetricRule
from dovetail.search.trial import Status

RULE = MetricRule(pattern=r"mAP=([0-9.]+)", at_least=0.5)


def _shell(script: str) -> list[str]:
    return ["sh", "-c", script]


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("echo first; printf '%0200d\\n  \\n' 7", "0" * 160),
        ("echo first; echo ' last '; echo", "last"),
        ("true", ""),
    ],
)
def test_the_last_line_is_noted_up_to_a_length(script: str, note: str) -> None:
    verdict = CommandOracle(_shell(script)).ask()
    assert (verdict.status, verdict.note) == (Status.PASS, note)


@pytest.mark.parametrize(("more", "figure"), [(1 << 20, None), ((1 << 20) - len("mAP=0.9\n"), 0.9)])
def test_a_figure_is_looked_for_in_the_last_mebibyte(more: int, figure: float | None) -> None:
    script = f"echo mAP=0.9; head -c {more} /dev/zero | tr '\\0' x"
    assert CommandOracle(_shell(script), RULE).ask().metric == figure


@pytest.mark.parametrize(
    ("script", "timeout_s", "note"),
    [
        ("echo no; exit 125", None, "says that it cannot be tested: no"),
        ("echo no; exit 128", None, "was ended by a signal or by code 128: no"),
        ("echo no; kill -9 $$", None, "was ended by a signal or by code -9: no"),
        ("sleep 60", 0.01, "took longer than 0.01 s"),
    ],
)
def test_why_a_candidate_cannot_be_tested_is_noted(script: str, timeout_s: float | None, note: str) -> None:
    verdict = CommandOracle(_shell(script), timeout_s=timeout_s).ask()
    assert (verdict.status, verdict.metric, verdict.note) == (Status.CANNOT_TEST, None, note)


def test_a_rule_notes_why_there_is_no_figure() -> None:
    assert CommandOracle(_shell("echo mAP=0.9; exit 3"), RULE).ask().note == "exit code 3: mAP=0.9"
    assert CommandOracle(_shell("echo none"), RULE).ask().note == "no figure in the output: none"


def test_a_command_is_told_what_the_environment_holds_and_more() -> None:
    verdict = CommandOracle(_shell('echo "$PLACE ${PATH:+there}"'), environment={"PLACE": "here"}).ask()
    assert verdict.note == "here there"


@pytest.mark.parametrize("bound", [math.nan, math.inf, -math.inf])
def test_a_rule_is_bounded_by_a_number(bound: float) -> None:
    for rule in (MetricRule(pattern="(x)", at_least=bound), MetricRule(pattern="(x)", at_most=bound)):
        with pytest.raises(SearchError, match="bounds no figure"):
            rule.check()
