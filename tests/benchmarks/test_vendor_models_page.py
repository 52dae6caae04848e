"""The page of whole models says of every cell what was measured, and what was not run."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

from zoo.collection import NETWORKS  # noqa: E402
from zoo.inputs import ENTRIES  # noqa: E402
from zoo.vendor_models_page import Outcome, Row, as_page  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "vendor_models.md"
EQUAL = Row(
    *("small", "vsi:v853", "u8", Outcome.EQUAL),
    on_npu=9,
    on_cpu=2,
    samples=8,
    elements=80,
    operators=5,
    judged=4,
    equal_inside=4,
    unread=1,
    ways="tap",
    seconds=3.4,
)
DIFFERS = replace(EQUAL, model="odd", outcome=Outcome.DIFFERS, differing=3, largest=2, equal_inside=3, first="Add a")
REFUSED = Row("other", "vsi:v853", "u8", Outcome.REFUSED, on_cpu=7, reason="no | operator")


@pytest.mark.parametrize("row", [EQUAL, DIFFERS, REFUSED])
def test_a_line_of_the_log_gives_the_row_again(row: Row):
    assert Row.from_json(row.to_json()) == row


def test_cells_and_their_sums_are_on_the_page():
    before = replace(EQUAL, outcome=Outcome.LOWERED)
    page = as_page([before, EQUAL, DIFFERS, REFUSED], ["huge: v853 u8"], ["machine: x"], 24)
    assert "| small | v853 | u8 | 9 / 2 | 80 of 80 | 0 | 4 of 4, 1 not read | tap | - | 3 |" in page
    assert "| odd | v853 | u8 | 9 / 2 | 77 of 80 | 2 | 3 of 4, 1 not read | tap | Add a | 3 |" in page
    assert "| other | v853 | u8 | 0 / 7 | all on the CPU | - | - | - | no \\| operator | 0 |" in page
    assert "| v853 | u8 | 3 | 1 | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 157 of 160 | 7 of 8 |" in page
    assert "## Not run\n\n- huge: v853 u8" in page
    assert "- odd, vsi:v853, u8: not looked into yet." in page
    plain = as_page([EQUAL], [], [], 24)
    assert "## Not run" not in plain
    assert "Nothing differs." in plain


def test_the_collection_is_named_once_with_its_data():
    assert len(set(NETWORKS)) == len(NETWORKS)
    assert {Path(file).name for file in NETWORKS} <= ENTRIES.keys()


def test_the_page_here_has_every_network_or_says_that_it_was_not_run():
    text = PAGE.read_text(encoding="utf-8")
    for file in NETWORKS:
        name = re.escape(Path(file).stem)
        assert re.search(rf"^(\| {name} \||- {name}: )", text, re.M), name
