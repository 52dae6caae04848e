"""Pages as one HTML file."""

from __future__ import annotations

from base64 import b64decode
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from dovetail.report import Facts, Page, Picture, Pictures, Prose, Table, Tone, page_html, page_text
from dovetail.report.html import fragment_html
from dovetail.report.page import flexible, right

VOID = {"meta", "img"}


class Reader(HTMLParser):
    """Check that every element is closed, and keep texts and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.pictures: list[bytes] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        assert not {"href", "onload", "onerror"} & values.keys()
        if "src" in values:
            head, _, data = str(values["src"]).partition(",")
            assert head == "data:image/png;base64"
            self.pictures.append(b64decode(data))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def read(page: Page) -> Reader:
    """Return what a reader of the page sees."""
    reader = Reader()
    reader.feed(page_html(page))
    reader.close()
    assert reader.open == []
    return reader


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=6, max_size=6))
def test_whatever_the_names_are_they_are_text(names: list[str]) -> None:
    page = Page(
        names[0],
        (
            Table(names[1], (flexible("name"), right("figure")), ((names[2], "1"),), names[3]),
            Facts("", (("pair", names[4]),)),
            Prose("Why", (names[5],)),
        ),
        "PASS",
        Tone.GOOD,
    )
    found = read(page)
    assert set(names) <= set(found.texts)
    assert not {"script", "iframe"} & found.names


def test_pictures_are_inside_and_text_leaves_them_out() -> None:
    picture = Picture("a <b>.jpg: loss 0.1", b"\x89PNG any bytes")
    page = Page("page", (Pictures("What is seen", (picture,), "note"), Prose("", ("end",))))
    found = read(page)
    assert found.pictures == [picture.png]
    assert {picture.caption, "What is seen", "note"} <= set(found.texts)
    assert page_text(page) == "page\n\nend\n"


def test_a_part_of_another_page_is_whole_in_itself() -> None:
    page = Page("Title", (Facts("", (("a", "<b>"),)), Table("T", (right("n"),), (("1",),))), "Verdict", Tone.GOOD)
    reader = Reader()
    reader.feed(fragment_html(page))
    reader.close()
    assert reader.open == []
    assert not {"html", "head", "body", "script", "style"} & reader.names
    assert {"Title", "Verdict", "<b>", "1"} <= set(reader.texts)
