"""The page against the vendor's simulator has a named cause for every cell that differs."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

from zoo.vendor_page import CAUSES, Cell, UnexplainedError, as_markdown, cause  # noqa: E402

KNOWN = Cell("vsi:a733", "i16", "Slice", "Slice", engine="SP", npusim_max=9, reference_max=9)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "vendor.md"
ROW = re.compile(r"^\| \w+ \| [\w.]+ \| [\w, ]+ \| [1-9]\d* \| [\d.]+ \| (?P<cause>.+) \|$", re.M)


def test_a_known_difference_is_on_the_page_with_its_cause():
    assert "vendor defect: a slice with a negative step" in as_markdown([KNOWN])


@pytest.mark.parametrize(
    "cell",
    [
        Cell("vsi:a733", "i16", "Tanh", "Tanh", npusim_max=1),
        Cell("vsi:a311d", "i16", "Div", "Div", npusim_max=2),
        replace(KNOWN, target="vsi:v853"),
    ],
)
def test_a_difference_that_nobody_looked_into_fails_loudly(cell: Cell):
    with pytest.raises(UnexplainedError, match=f"{cell.target} i16 {cell.case}"):
        cause(cell)
    with pytest.raises(UnexplainedError):
        as_markdown([KNOWN, cell])


def test_no_cause_fits_every_operator():
    assert all(names and text.startswith(("measured", "vendor defect")) for names, _, _, text in CAUSES)


def test_the_page_names_the_causes_of_the_code():
    rows = list(ROW.finditer(PAGE.read_text(encoding="utf-8")))
    assert len(rows) > 20
    assert {row["cause"] for row in rows} == {text for *_, text in CAUSES}
