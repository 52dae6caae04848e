"""Every word of the text form, and what is said of text that is none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dovetail.errors import GraphError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, parse_graph, print_graph
from dovetail.ir.parse import parse_type, read_inline
from dovetail.ir.text import inline_constant, print_type

HEAD = 'graph "g" opset 21\ninput "x": f32[2]\n'
TAIL = 'output "x"\nend\n'


def _node(line: str) -> Node:
    (node,) = parse_graph(f'{HEAD}{line}\noutput "y"\nend\n').nodes
    return node


def test_a_graph_line_by_line() -> None:
    text = "\n".join(
        [
            "# a comment",
            "",
            'graph "main" opset 21',
            'capture "c": f32[1]',
            'input "x": f32["N", 3, ?]',
            'constant "k": i64[2] = [1, -2]',
            '  "n" = my.own::Op_2("x", "", "k") -> ("", "y": f32[*], ) {"a": 1, "b": [1, 2]} origin ["p", "q"]',
            'output "y"',
            'origin "y": "source/y"',
            "end",
        ]
    )
    graph = parse_graph(text)
    assert (graph.name, graph.inputs, graph.outputs, graph.captures) == ("main", ("x",), ("y",), ("c",))
    assert graph.types["x"] == TensorType(DType.F32, ("N", 3, None))
    assert graph.types["y"] == TensorType(DType.F32, None)
    assert graph.constants["k"].tolist() == [1, -2]
    assert dict(graph.origins) == {"y": "source/y"}
    attributes = {"a": 1, "b": (1, 2)}
    assert graph.nodes == (Node("n", "Op_2", ("x", "", "k"), ("", "y"), attributes, "my.own", ("p", "q")),)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("42", r"line 3: \[A-Za-z_\]\[A-Za-z0-9_\]\* is expected at column 1: '42'"),
        ('outptu "x"', "line 3: unknown word 'outptu'"),
        ('graph "h" opset 20', "line 3: only opset 21 is known here"),
        ('graph "h" 21', "line 3: 'opset' is expected at column 11"),
        ("output 3", "line 3: a quoted name is expected"),
        ('input "y" f32[2]', "line 3: ':' is expected at column 11"),
        ('input "y": f33[2]', "line 3: 'f33' is not a valid DType"),
        ('input "y": f32 2', r"line 3: '\[' is expected at column 16"),
        ('input "y": f32[*, 2]', r"line 3: '\]' is expected"),
        ('input "y": f32[true]', "line 3: True is not a dimension"),
        ('input "y": f32[1.5]', "line 3: 1.5 is not a dimension"),
        ('constant "k": f32["n"] = [1]', "line 3: a constant needs a static shape"),
        ('constant "k": f32[1] [1]', "line 3: '=' is expected"),
        ('constant "k": f32[2] = [1]', r"line 3: 1 values for a shape of \[2\]"),
        ('constant "k": i8[1] = [300]', "line 3: a value does not fit int8"),
        ('constant "k": f32[1] = base64 "A"', "line 3: bad base64"),
        ('constant "k": f32[1] = base64 "AAAA AAA"', "line 3: bad base64"),
        ('origin "x" "y"', "line 3: ':' is expected"),
        ('"n" Relu("x") -> ("y": f32[2])', "line 3: '=' is expected"),
        ('"n" = Relu "x" -> ("y": f32[2])', r"line 3: '\(' is expected"),
        ('"n" = Relu("x") ("y": f32[2])', "line 3: '->' is expected"),
        ('"n" = Relu("x") -> "y"', r"line 3: '\(' is expected"),
        ('"n" = Relu(3) -> ("y": f32[2])', "line 3: a quoted name is expected"),
        ('"n" = Relu("x") -> ("y": f32[2]) {"a": null}', "line 3: an attribute has an unknown form"),
        ('"n" = Relu("x") -> ("y": f32[2]) {"a": {"b": 1}}', "line 3: an attribute has an unknown form"),
        ('"n" = Relu("x") -> ("y": f32[2]) {"a": {"$array": "<U1[1] = [1]"}}', "elements of type <U1"),
        ('"n" = Relu("x") -> ("y": f32[2]) {"a": {"$array": "|O[1] = [1]"}}', "elements of type object"),
        ('"n" = Relu("x") -> ("y": f32[2]) {"a": {"$array": "<04[1] = [1]"}}', "elements of type <04"),
        ('"n" = Relu("x") -> ("y": f32[2]) origin "n"', "line 3: "),
        ('"n" = Relu("x") -> ("y": f32[2] q(scale=1, zero=[0]))', "line 3: scale and zero are lists"),
        ('"n" = Relu("x") -> ("y": f32[2] q(scale=[1], zero=0))', "line 3: scale and zero are lists"),
        ('"n" = Relu("x") -> ("y": f32[2] q(zero=[0], scale=[1]))', "line 3: 'scale=' is expected"),
        ('"n" = Relu("x") -> ("y": f32[2] q(axis=0 scale=[1], zero=[0]))', "line 3: ',' is expected"),
        ('"n" = Relu("x") -> ("y": f32[2] q(axis="0", scale=[1], zero=[0]))', "line 3: "),
    ],
)
def test_a_wrong_line_is_named(line: str, says: str) -> None:
    with pytest.raises(GraphError, match=says) as caught:
        parse_graph(f"{HEAD}{line}\n{TAIL}")
    assert line[:20] in str(caught.value)


def test_a_long_line_is_shown_by_its_beginning() -> None:
    with pytest.raises(GraphError) as caught:
        parse_graph("word " + "x" * 500)
    assert str(caught.value) == f"text form, line 1: unknown word 'word': {'word ' + 'x' * 75!r}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no line 'end'; the text is cut short"),
        (HEAD, "no line 'end'"),
        ("end\n", "no line 'graph'"),
    ],
)
def test_text_that_is_cut(text: str, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        parse_graph(text)


def _nested(depth: int) -> Graph:
    kind = TensorType(DType.F32, (1,))
    body = Graph("b", (Node("i", "Abs", ("t",), ("r",)),), (), ("r",), {"t": kind, "r": kind}, captures=("t",))
    for level in range(depth - 1):
        node = Node(f"if{level}", "If", ("t",), ("r",), {"then_branch": body})
        body = Graph("b", (node,), (), ("r",), {"t": kind, "r": kind}, captures=("t",))
    return Graph("g", (Node("n", "If", ("t",), ("r",), {"then_branch": body}),), ("t",), ("r",), {"t": kind, "r": kind})


def test_bodies_nest_eight_deep_and_no_deeper() -> None:
    assert parse_graph(print_graph(_nested(8))) == _nested(8)
    with pytest.raises(GraphError, match="bodies are nested more than 8 deep"):
        parse_graph(print_graph(_nested(9)))


@pytest.mark.parametrize(
    "text",
    [
        "f32[]",
        "bf16[*]",
        'i8["N", ?, 3]',
        "u8[2, 3] q(scale=[0.5], zero=[3])",
        'i8["N", 2] q(axis=1, scale=[0.5, 0.25], zero=[0, -1])',
        "i8[2] q(axis=0, scale=[0.5, 0.25], zero=[0, -1])",
    ],
)
def test_a_type_is_printed_as_it_is_read(text: str) -> None:
    assert print_type(parse_type(text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("f32", "type 'f32': "),
        ("f32[1] q", "type 'f32\\[1\\] q': 'q' is left over"),
        ("f32[1]" + "z" * 200, f"{'z' * 20}' is left over"),
        ("f32[-1]", "a dimension of -1"),
        ("i8[1] q(scale=[0], zero=[0])", "not a positive number"),
    ],
)
def test_what_is_no_type(text: str, says: str) -> None:
    with pytest.raises(GraphError, match=says) as caught:
        parse_type(text)
    assert len(str(caught.value)) < 250


def test_a_quantised_type_is_read_by_its_fields() -> None:
    kind = parse_type(" i8 [ 2 , 3 ]  q(axis=1, scale=[1, 0.5, 0.25], zero=[0, 1, 2]) ")
    assert kind == TensorType(DType.I8, (2, 3), Quantization((1.0, 0.5, 0.25), (0, 1, 2), 1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.arange(16, dtype=np.int64), json.dumps(list(range(16)))),
        (np.array(5, np.uint8), "5"),
        (np.array([0.5, -1.5], np.float16), "[0.5, -1.5]"),
        (np.array([True, False]), "[true, false]"),
        (np.array([2**64 - 1], np.uint64), "[18446744073709551615]"),
        (np.arange(17, dtype=np.uint8), 'base64 "AAECAwQFBgcICQoLDA0ODxA="'),
        (np.array([[1, 2]], np.uint8), 'base64 "AQI="'),
        (np.array([[1]], ">i2"), 'base64 "AQA="'),
    ],
)
def test_short_lists_are_readable_and_the_rest_is_base64(value: np.ndarray, text: str) -> None:
    assert inline_constant(value) == text
    again = read_inline(text, value.dtype.newbyteorder("="), value.shape)
    np.testing.assert_array_equal(again, value)
    assert (again.dtype, again.shape) == (value.dtype.newbyteorder("="), value.shape)


def test_nodes_print_what_differs_from_the_plain_form() -> None:
    assert _node('"n" = Relu("x") -> ("y": f32[2])').origin == ("n",)
    for line in (
        '"n" = Relu("x") -> ("y": f32[2])',
        '"n" = dovetail::Requantize("x", "") -> ("", "y": f32[2]) {"a": 1, "b": [0.5]} origin ["p"]',
    ):
        graph = parse_graph(f'{HEAD}{line}\noutput "y"\nend\n')
        assert print_graph(graph) == f'{HEAD}{line}\noutput "y"\nend\n'


@pytest.mark.parametrize(
    "text",
    ["f33[1" + ", 1" * 50 + "]", "f32[1" + ", 1" * 50 + "] and more", "f32[4294967296" + ", 1" * 50 + "]"],
    ids=["malformed", "left over", "too large"],
)
def test_of_a_long_type_that_is_refused_the_first_80_characters_are_quoted(text: str) -> None:
    with pytest.raises(GraphError) as caught:
        parse_type(text)
    assert str(caught.value).startswith(f"type '{text[:80]}'")
