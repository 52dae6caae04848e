"""The page of random cases: shares with their exact intervals, and every case that was wrong."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from zoo.wild_page import Row, as_markdown, cause, share


def row(index: int, outcome: str = "equal", kind: str = "operator", largest: int = 0) -> Row:
    ops = ("Relu",) if kind == "operator" else ("Conv", "Mul")
    reason = "" if largest or outcome in ("equal", "refused") else "it | died"
    return Row(kind, "vsi:v853", 7, index, "u8", ops, outcome, len(ops), 100, largest and 3, largest, reason, 0.5)


def test_a_share_counts_what_was_accepted_with_its_interval() -> None:
    rows = [*(row(index) for index in range(9)), row(9, "differs", largest=1), row(10, "refused")]
    assert share(rows) == "9 of 10, 90.0% (55.5% to 99.7%)"
    assert share([row(0, "refused")]) == "-"


def test_a_row_is_read_as_it_was_written() -> None:
    assert Row.from_json(row(3, "differs", largest=2).to_json()) == row(3, "differs", largest=2)


def test_every_wrong_case_is_on_the_page_with_its_smallest_form() -> None:
    rows = [row(0), row(1, "differs", "graph", 5), row(2, "vendor refuses", "graph"), row(3, "refused")]
    page = as_markdown({"first look": rows}, {"graph-v853-7-1": ["Mul"]})
    assert "## first look" in page
    assert "Seeds: 7. 4 cases drawn, 1 refused beforehand." in page
    assert f"| graph-v853-7-1 | u8 | 2 | 3 of 100 by up to 5 | Mul | {cause(['Mul'], 'u8', 'vsi:v853')} |" in page
    assert "| graph-v853-7-2 | u8 | 2 | vendor refuses: it / died | - | not known |" in page
    assert "operator-v853-7-0" not in page


def test_runs_whose_logs_are_gone_stay_on_the_page() -> None:
    before = as_markdown({"first": [row(0)], "second": [row(1)]}, {})
    after = as_markdown({"third": [row(2, "differs", largest=1)], "first": [row(3), row(4)]}, {}, before)
    assert [line for line in after.splitlines() if line.startswith("## ")] == ["## first", "## second", "## third"]
    assert after.count("operators | 1 of 1") == 1
    assert after.count("operators | 2 of 2") == 1
    assert as_markdown({}, {}, after) == after
