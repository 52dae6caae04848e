"""What a notebook shows of values: HTML in which nothing of a name is markup."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

from dovetail.compare import compare_outputs
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.markup import table_html
from dovetail.plan import Override, Plan, parse_placement

HOSTILE = "<script>alert(1)</script>"


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_graph() -> Graph:
    kind = TensorType(DType.F32, (1, 4))
    node = Node(HOSTILE, "Relu", ("x",), ("y",))
    return Graph(HOSTILE, (node,), ("x",), ("y",), {"x": kind, "y": kind})


def test_a_graph_shows_its_operators_and_ends() -> None:
    page = Tags(hostile_graph()._repr_html_())
    assert "script" not in page.names
    for what in (HOSTILE, "Relu", "x f32[1, 4]"):
        assert what in page.text


def test_a_plan_shows_what_is_raised_and_why() -> None:
    graph = hostile_graph()
    raised = Override(parse_placement("vsi:v853@i16"), "<b>range</b>")
    page = Tags(Plan(graph.digest, parse_placement("vsi:v853@i8pc"), {HOSTILE: raised})._repr_html_())
    assert {"script", "b"} & page.names == {"b"}
    for what in (HOSTILE, "vsi:v853@i16", "<b>range</b>", "vsi:v853@i8pc"):
        assert what in page.text


def test_a_comparison_shows_its_verdict() -> None:
    golden = {HOSTILE: np.arange(8.0).reshape(2, 4)}
    page = Tags(compare_outputs(golden, {HOSTILE: golden[HOSTILE] + 5})._repr_html_())
    assert "script" not in page.names
    assert "FAIL" in page.text
    assert HOSTILE in page.text


def test_long_tables_say_how_long_they_are() -> None:
    page = Tags(table_html(("n",), [(str(index),) for index in range(100)]))
    assert "60 of 100 rows" in page.text
    assert "99" not in page.text
