"""The front of latency and score against its definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dovetail.search import Status, Trial, pareto_front
from dovetail.search.front import knee_trial

_POINTS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=15)


def _trials(points: list[tuple[int, int, bool]]) -> tuple[list[Trial], dict[str, float]]:
    trials = [
        Trial(str(index), (), Status.PASS if passed else Status.FAIL, score / 9, 1.0, 10, 10)
        for index, (_, score, passed) in enumerate(points)
    ]
    return trials, {str(index): float(latency) for index, (latency, _, _) in enumerate(points)}


@given(_POINTS, st.integers(0, 14))
def test_exactly_what_nothing_beats_is_left_and_the_chosen_one(points: list[tuple[int, int, bool]], pick: int) -> None:
    trials, latencies = _trials(points)
    chosen = str(pick % len(points))
    front = pareto_front(trials, latencies, chosen)
    corners = [(point.latency_ns, point.score) for point in front if not point.chosen]
    everything = {(float(latency), score / 9) for latency, score, _ in points}

    def beaten(latency: float, score: float) -> bool:
        return any(
            other <= latency and better >= score and (other, better) != (latency, score) for other, better in everything
        )

    assert all(not beaten(*corner) for corner in corners)
    assert {(point.latency_ns, point.score) for point in front} >= {item for item in everything if not beaten(*item)}
    assert [point.chosen for point in front].count(True) == 1
    assert [point.latency_ns for point in front] == sorted(point.latency_ns for point in front)
    assert [point.knee for point in front].count(True) <= 1


def test_the_knee_is_where_more_latency_stops_paying() -> None:
    trials, latencies = _trials([(1, 0, False), (2, 8, True), (9, 9, True)])
    front = pareto_front(trials, latencies, "2")
    assert [point.knee for point in front] == [False, True, False]


def test_raced_and_unpriced_plans_do_not_count() -> None:
    whole = Trial("a", (), Status.PASS, 0.5, 1.0, 10, 10)
    raced = Trial("b", (), Status.FAIL, 0.9, 1.0, 4, 10)
    broken = Trial("c", (), Status.CANNOT_TEST, 0.9, 1.0, 10, 10)
    front = pareto_front([whole, raced, broken], {"a": 1.0, "b": 1.0, "c": 1.0}, "a")
    assert [point.score for point in front] == [0.5]
    assert pareto_front([whole], {}, "a") == ()


def test_the_knee_is_furthest_above_the_line_between_the_ends() -> None:
    """Between (2, 0) and (12, 1) the line rises by 0.1 a step: (4, 0.5) is 0.3 above it and (9, 0.9) 0.2."""
    trials, latencies = _trials([(2, 0, True), (4, 4, True), (9, 8, True), (12, 9, True)])
    front = pareto_front(trials, latencies, "3")
    assert [point.knee for point in front] == [False, True, False, False]
    # (2, 0), (7, 6), (8, 8), (12, 9): 0.67 - 0.5, 0.89 - 0.6.
    trials, latencies = _trials([(2, 0, True), (7, 6, True), (8, 8, True), (12, 9, True)])
    assert [point.knee for point in pareto_front(trials, latencies, "3")] == [False, False, True, False]


def test_the_knee_of_a_search_counts_what_was_rejected_early_and_stays_within_a_latency() -> None:
    low = Trial("low", (), Status.FAIL, 0.2, 1.0, 4, 10)
    knee = Trial("knee", (), Status.FAIL, 0.75, 0.8, 4, 10)
    dear = Trial("dear", (), Status.PASS, 0.89, 0.9, 10, 10)
    dearest = Trial("dearest", (), Status.PASS, 0.9, 0.9, 10, 10)
    broken = Trial("broken", (), Status.CANNOT_TEST, 1.0, 0.8, 10, 10)
    latencies = {"low": 1.0, "knee": 2.0, "dear": 8.0, "dearest": 9.0, "broken": 1.5}
    trials = [dearest, broken, low, dear, knee]
    assert knee_trial(trials, latencies, 9.0) is knee
    assert knee_trial(trials, latencies, 8.0) is knee
    assert knee_trial(trials, latencies, 7.9) is None
