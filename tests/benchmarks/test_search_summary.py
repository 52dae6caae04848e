"""What the page of searches says in the end follows from its figures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

from zoo.search_summary import summary  # noqa: E402

CPU = "cpu@fp32"


@dataclass(frozen=True)
class Row:
    tool: str
    latency_ms: float | None
    holds: bool
    lost: float | None = 0.0
    wall_s: float = 10.0
    bound_ms: float | None = None


def rows(peer_ms: float, peer_holds: bool, *, ours_holds: bool = True) -> list[Any]:
    return [
        Row(f"dovetail, up to {CPU}", 2.0, ours_holds, wall_s=4.0),
        Row("NNCF accuracy control", peer_ms, peer_holds, 0.0 if peer_holds else 0.5, wall_s=16.0),
        Row("ORT exclude, ddmin", 5.0, holds=True),
    ]


@pytest.mark.parametrize(
    ("found", "says", "count"),
    [
        (rows(1.0, peer_holds=False), "no peer's plan that meets the goal on the target is cheaper", "In 1 of 1 tasks"),
        (rows(3.0, peer_holds=True), "no peer's plan that meets the goal on the target is cheaper", "In 1 of 1 tasks"),
        (rows(1.0, peer_holds=True), "NNCF accuracy control's 1.000 ms (ours takes 2.000 ms)", "not so in: digits"),
        (rows(9.0, peer_holds=False, ours_holds=False), "ORT exclude, ddmin's 5.000 ms", "In 0 of 1 tasks"),
    ],
)
def test_a_cheaper_plan_counts_only_where_it_meets_the_goal(found: list[Any], says: str, count: str) -> None:
    costs, times, total = summary({"digits": found}, CPU)
    assert says in costs
    assert count in total
    assert "0.25 of NNCF's wall time up to cpu@fp32" in times


def test_what_misses_the_goal_is_named_and_what_is_missing_is_said() -> None:
    costs, _, _ = summary({"digits": rows(1.0, peer_holds=False)}, CPU)
    assert "cheaper, but beyond the goal on the target: NNCF accuracy control with 1.000 ms loses 0.500" in costs
    no_price: list[Any] = [Row("floor: float", None, holds=False)]
    costs, times, total = summary({"a": no_price}, CPU)
    assert "no plan with a price" in costs
    assert "NNCF has no time here" in times
    assert "In 0 of 0 tasks" in total
