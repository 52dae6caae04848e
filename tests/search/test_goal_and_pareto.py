"""Goals and the trade-off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import SearchError
from dovetail.search import Goal, Status, Trial, parse_goal
from dovetail.search.front import pareto_points


@pytest.mark.parametrize(
    ("text", "drop", "relative"),
    [("0.01", 0.01, False), ("1%", 0.01, True), (" 2.5 % ", 0.025, True), ("0", 0.0, False), ("1e-3", 0.001, False)],
)
def test_goals(text: str, drop: float, relative: bool) -> None:
    goal = parse_goal(text)
    assert goal.max_drop == pytest.approx(drop)
    assert goal.relative is relative


@pytest.mark.parametrize("text", ["", "%", "one", "-1", "-1%", "nan", "inf", "nan%", "1%%", "1 2", "0x1"])
def test_what_is_no_goal(text: str) -> None:
    with pytest.raises(SearchError, match="is not an allowed drop"):
        parse_goal(text)


def test_allowances() -> None:
    assert Goal(0.01).allowance(0.8) == 0.01
    assert Goal(0.01, relative=True).allowance(0.8) == pytest.approx(0.008)
    # A metric where lower is better is negated inside; the allowance stays a loss.
    assert Goal(0.01, relative=True).allowance(-0.8) == pytest.approx(0.008)
    assert "0.01 x float" in str(Goal(0.01, True))
    assert "at least 0.5" in str(Goal(0.01, min_score=0.5))


def _trial(digest: str, raised: int, score: float, status: Status = Status.PASS, samples: int = 10) -> Trial:
    return Trial(digest, tuple(f"u{index}" for index in range(raised)), status, score, 1.0, samples, 10)


_TRIALS = st.lists(
    st.tuples(st.integers(0, 5), st.floats(0, 1), st.sampled_from(Status), st.sampled_from([4, 10])), max_size=20
)


@given(_TRIALS, st.integers(0, 19))
def test_the_front_is_what_brute_force_says(rows: list[tuple[int, float, Status, int]], pick: int) -> None:
    trials = [_trial(f"p{index}", *row) for index, row in enumerate(rows)]
    usable = [trial for trial in trials if trial.complete and trial.status is not Status.CANNOT_TEST]
    chosen = usable[pick % len(usable)].plan_digest if usable else "none"
    points = pareto_points(trials, chosen)
    beaten = {
        trial.plan_digest
        for trial in usable
        for other in usable
        if len(other.raised) <= len(trial.raised)
        and other.score >= trial.score
        and (len(other.raised), -other.score) != (len(trial.raised), -trial.score)
    }
    expected = {(len(t.raised), t.score) for t in usable if t.plan_digest not in beaten or t.plan_digest == chosen}
    assert {(len(point.raised), point.score) for point in points} == expected
    assert sum(point.chosen for point in points) == bool(usable)
    assert [len(point.raised) for point in points] == sorted(len(point.raised) for point in points)
