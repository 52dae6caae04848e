"""Pages as text: every line fits, names and sentences are shown whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dovetail.report import Facts, Page, Prose, Table, page_text, printable, shorten
from dovetail.report.figures import bytes_text, count_text, number_text, time_text
from dovetail.report.page import flexible, left, listed, right, wrapped
from dovetail.report.text import column_widths

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)


@given(names, st.integers(1, 60))
def test_shortened_names_fit_and_keep_both_ends(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cell_len(short) <= width
    if short != text:
        head, sign, tail = short.partition("…")
        assert sign
        assert text.startswith(head)
        assert text.endswith(tail)
    else:
        assert cell_len(text) <= width


def test_shortening_takes_the_middle() -> None:
    assert shorten("backbone/block1/conv", 11) == "backb…/conv"
    assert shorten("conv", 4) == "conv"
    assert shorten("conv", 1) == "…"


@given(st.lists(st.tuples(names, names, names), min_size=1, max_size=5), st.sampled_from([60, 100]))
def test_tables_fit_whatever_the_names(rows: list[tuple[str, str, str]], width: int) -> None:
    table = Table("t", (flexible("name"), right("figure"), flexible("remark")), tuple(rows))
    lines = page_text(Page("page", (table,)), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    # Title, empty line, heading, header, rule, and at least one line a row.
    assert len(lines) >= 5 + len(rows)


@given(st.lists(st.from_regex(r"[a-z/]{1,250}", fullmatch=True), min_size=1, max_size=3), st.sampled_from([60, 100]))
def test_names_are_never_elided(units: list[str], width: int) -> None:
    table = Table("", (flexible("name"), right("figure")), tuple((name, "12345678") for name in units))
    lines = page_text(Page("page", (table,)), width).splitlines()[4:]
    assert "".join(line.removesuffix("12345678").strip() for line in lines) == "".join(units)


@given(st.lists(st.from_regex(r"[a-z]{1,30}", fullmatch=True), min_size=1, max_size=60), st.sampled_from([60, 100]))
def test_sentences_are_shown_whole(words: list[str], width: int) -> None:
    table = Table("t", (left("device"), wrapped("why")), (("gpu", " ".join(words)),))
    lines = page_text(Page("page", (table,)), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert " ".join(lines[5:]).split() == ["gpu", *words]


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=8))
def test_columns_give_way_only_when_they_must(columns: list[tuple[int, bool]]) -> None:
    natural, flags = [size for size, _ in columns], [flag for _, flag in columns]
    widths = column_widths(natural, flags, 100)
    assert all(width <= size for width, size in zip(widths, natural, strict=True))
    gaps = 2 * (len(natural) - 1)
    if sum(natural) + gaps <= 100:
        assert widths == natural
    else:
        assert sum(widths) + gaps <= 100 or all(width <= 12 for width in widths)


@given(names)
def test_no_text_breaks_a_line_or_drives_the_terminal(text: str) -> None:
    assert printable(text).isprintable()
    page = Page(text, (Facts("", ((text, text),)), Prose("", (text,))), verdict=text)
    assert all(line.isprintable() for line in page_text(page).split("\n"))


def test_only_flexible_columns_give_way_while_they_can() -> None:
    columns = (flexible("name"), *(right(f"figure {index}") for index in range(5)))
    row = ("block/" * 40, *("0.123456",) * 5)
    lines = page_text(Page("p", (Table("", columns, (row,)),))).splitlines()
    rule = next(index for index, line in enumerate(lines) if line.startswith("─"))
    assert lines[rule + 1].endswith("  ".join(["0.123456".rjust(8)] * 5))
    assert cell_len(lines[rule + 1]) == cell_len(lines[rule]) == 100


def test_rich_markup_in_names_is_text() -> None:
    text = page_text(Page("[bold]t[/bold]", (Table("", (left("[red]"),), (("[/]",),)),)))
    assert text.split() == ["[bold]t[/bold]", "[red]", "─" * 5, "[/]"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (bytes_text(0), "0 B"),
        (bytes_text(1023), "1023 B"),
        (bytes_text(1536), "1.5 KiB"),
        (bytes_text(3 << 30), "3.0 GiB"),
        (bytes_text(None), "?"),
        (count_text(999), "999"),
        (count_text(2_500_000), "2.5 M"),
        (count_text(None), "?"),
        (time_text(999), "999 ns"),
        (time_text(1.5e6), "1.50 ms"),
        (time_text(2e9), "2.00 s"),
        (number_text(0.123456), "0.1235"),
        (number_text(float("nan")), "nan"),
        (number_text(None), "-"),
    ],
)
def test_figures(found: str, expected: str) -> None:
    assert found == expected


def test_a_page_on_the_screen_says_how_much_is_left_out_and_where() -> None:
    rows = tuple((f"unit{index}",) for index in range(9))
    page = Page("p", (Table("t", (left("u"),), rows, "Note."), Prose("why", tuple("abcd")), Facts("f", (("x", "y"),))))
    short = page.shortened(7, 3, "report.txt")
    table, prose, facts = short.blocks
    assert isinstance(table, Table)
    assert isinstance(prose, Prose)
    assert table.rows == rows[:7]
    assert table.note == "... and 2 more, in report.txt. Note."
    assert prose.lines == ("a", "b", "c", "... and 1 more, in report.txt.")
    assert facts == page.blocks[2]
    assert page.shortened(9, 4, "report.txt") == page


def test_long_lists_of_names_on_the_screen_are_their_first_ones() -> None:
    names = [f"unit{index}" for index in range(20)]
    rows = ((", ".join(names), "a, b"), (", ".join(names[:9]), ", ".join(names)))
    (table,) = Page("p", (Table("t", (listed("units"), left("u")), rows),)).shortened(9, 4, "report.txt").blocks
    assert isinstance(table, Table)
    assert table.rows == ((f"{', '.join(names[:8])} ... and 12 more", "a, b"), rows[1])
