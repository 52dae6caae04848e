"""Logs of Paddle Lite runs in all the shapes that they come in."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.formats.paddle import Where, parse_log
from dovetail.formats.text import MAX_LINE_BYTES

HEAD = "subgraph operators: \n"
BODY = "feed:feed:x\nconv2d:x,w:c.out\nrelu:c.out:r.out\nrelu:r.out:s.out\nfetch:s.out:fetch\n"
NOISE = "[I  1/ 1 00:00:01.  7 ...lite/core/optimizer.h:202 Run] text\n"


def _types(text: str | bytes) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    return [op.op_type for op in parse_log(content).operations]


WHOLE = ["feed", "conv2d", "relu", "relu", "fetch"]


@pytest.mark.parametrize(
    "text",
    [
        HEAD + BODY + "\n",
        "subgraph operators:\n" + BODY + "\n",
        (HEAD + BODY + "\n").replace("\n", "\r\n"),
        "\ufeff" + HEAD + BODY + "\n",
        "\x1b[32m" + HEAD + BODY.replace("relu", "\x1b[1mrelu\x1b[0m") + "\n",
        "01-01 00:00:01.123  1234  1234 I stdout: " + HEAD + BODY + "\n",
        HEAD + BODY + "subgraph clusters: 1\n",
        "SUBGRAPH OPERATORS:\n" + BODY + "\nmore text\n",
    ],
)
def test_every_shape_gives_the_same_operators(text: str) -> None:
    log = parse_log(text.encode())
    assert [op.op_type for op in log.operations] == WHOLE
    assert log.operations[1].ins == ("x", "w")
    assert not log.paragraphs[0].truncated
    assert not log.diagnostics


@pytest.mark.parametrize(
    "noise",
    [
        NOISE,
        "[5  9/27 23:16:24.  3 ...driver.cc:12 Build] text\n",
        "[W  9/27 23:29: 1.831 ...driver.cc:12 Build] text\n",
        "I0924 10:50:12.715279 122828 optimizer.h:202] a:b:c\n",
        "D [setup_node:441]Setup node\n",
        "[INFO] fastdeploy/runtime.cc(1)::Init\ttext\n",
    ],
)
def test_noise_lines_are_skipped_and_counted(noise: str) -> None:
    lines = BODY.splitlines(keepends=True)
    log = parse_log((HEAD + lines[0] + noise + "".join(lines[1:]) + "\n").encode())
    assert [op.op_type for op in log.operations] == WHOLE
    assert log.paragraphs[0].noise == 1
    assert not log.diagnostics


def test_a_line_that_is_no_operator_is_reported_and_skipped() -> None:
    log = parse_log((HEAD + "what is this\nconv2d:a:b:c\n" + BODY + "\n").encode())
    assert [(item.code, item.line) for item in log.diagnostics] == [("LOG_BAD_LINE", 2), ("LOG_BAD_LINE", 3)]
    assert "ambiguous" in log.diagnostics[1].message
    assert [op.op_type for op in log.operations] == WHOLE


def test_two_paragraphs_the_last_counts() -> None:
    log = parse_log((HEAD + "feed:feed:x\nwhile:x:y\n\n" + HEAD + BODY + "\n").encode())
    assert [paragraph.index for paragraph in log.paragraphs] == [0, 1]
    assert [paragraph.line for paragraph in log.paragraphs] == [1, 5]
    assert [op.op_type for op in log.operations] == WHOLE
    assert [item.code for item in log.diagnostics] == ["LOG_PARAGRAPHS"]
    same = parse_log((HEAD + BODY + "\n" + HEAD + BODY + "\n").encode())
    assert not same.diagnostics


def test_a_log_that_ends_early_is_marked() -> None:
    assert parse_log((HEAD + BODY).encode()).paragraphs[0].truncated
    assert parse_log((HEAD + "conv2d:x:y\n\n").encode()).paragraphs[0].truncated


def test_inputs_and_outputs_may_be_empty() -> None:
    log = parse_log((HEAD + "fill_constant::k\nassert:k:\nbatch_norm:b,m,x:m,y\n\n").encode())
    assert [(op.ins, op.outs) for op in log.operations] == [((), ("k",)), (("k",), ()), (("b", "m", "x"), ("m", "y"))]


def test_other_bytes_do_no_harm() -> None:
    content = HEAD.encode() + b"relu:caf\xe9:\xff\xfe.out\nrelu:na\xc3\xafve:y\n\n"
    log = parse_log(content)
    assert [op.ins for op in log.operations] == [("caf\ufffd",), ("naïve",)]


def test_no_paragraph_names_the_likely_causes() -> None:
    log = parse_log(b"some other log\n")
    assert log.operations == ()
    assert log.diagnostics[0].code == "LOG_EMPTY"
    assert "2>&1" in str(log.diagnostics[0])


def _dot(labels: list[str]) -> str:
    boxes = "".join(
        f'   node_{i}[label="{label}" shape="box" style="filled" color="black" fillcolor="red"]\n'
        for i, label in enumerate(labels)
    )
    return "digraph G {\n" + boxes + '   node_99[label="x"]\n   node_99->node_1\n} // end G\n'


@pytest.mark.parametrize(
    "labels",
    [
        ["feed_0_op", "conv2d_0_op_subgraph_0", "relu_0_op_subgraph_0", "relu_1_op", "fetch_0_op"],
        ["feed0", "conv2d0_subgraph_0", "relu0_subgraph_0", "relu1", "fetch0"],
    ],
)
def test_the_placement_is_read_from_the_graph(labels: list[str]) -> None:
    log = parse_log(("subgraph clusters: 1\n" + _dot(labels) + HEAD + BODY + "\n").encode())
    paragraph = log.paragraphs[0]
    assert paragraph.clusters == 1
    assert [op.where for op in paragraph.operations] == [Where.CPU, Where.NPU, Where.NPU, Where.CPU, Where.CPU]
    assert [op.cluster for op in paragraph.operations] == [-1, 0, 0, -1, -1]


def test_a_type_that_ends_in_a_digit_is_not_mistaken_for_an_index() -> None:
    body = "conv:a:b\nconv2:b:c\nconv2:c:d\n"
    text = _dot(["conv0", "conv20_subgraph_0", "conv21_subgraph_1"]) + HEAD + body + "\n"
    assert [op.cluster for op in parse_log(text.encode()).operations] == [-1, 0, 1]


class _Long(io.RawIOBase):
    """A stream with one very long line and then a paragraph; it never holds the line."""

    def __init__(self, long_bytes: int) -> None:
        self.left = long_bytes
        self.tail = b"\n" + (HEAD + BODY + "\n").encode()
        self.largest = 0

    def read(self, size: int = -1) -> bytes:
        self.largest = max(self.largest, size)
        if self.left:
            count = min(size, self.left)
            self.left -= count
            return b"a" * count
        piece, self.tail = self.tail[:size], self.tail[size:]
        return piece


def test_a_line_of_a_gigabyte_costs_no_memory() -> None:
    stream = _Long(256 << 20)
    log = parse_log(stream)  # type: ignore[arg-type]
    assert [op.op_type for op in log.operations] == WHOLE
    assert [item.code for item in log.diagnostics] == ["LOG_LONG_LINE"]
    assert stream.largest <= 1 << 20


def test_a_long_operator_is_cut_and_said() -> None:
    long = "concat:" + ",".join("x" * 40 for _ in range(MAX_LINE_BYTES // 20)) + ":y\n"
    log = parse_log((HEAD + long + BODY + "\n").encode())
    assert "LOG_LONG_LINE" in {item.code for item in log.diagnostics}


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(content: bytes) -> None:
    parse_log(HEAD.encode() + content)
    parse_log(content)


@given(
    st.lists(
        st.tuples(
            st.text("abz_", min_size=1, max_size=8), st.lists(st.text("ab09_./", min_size=1, max_size=6), max_size=4)
        ),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_operators_survive_print_and_parse(ops: list[tuple[str, list[str]]]) -> None:
    text = HEAD + "".join(f"{kind}:{','.join(names)}:{kind}.out\n" for kind, names in ops) + "\n"
    found = parse_log(text.encode()).operations
    assert [(op.op_type, list(op.ins)) for op in found] == ops


def test_names_with_colons_are_divided_where_only_one_way_is_left() -> None:
    text = """subgraph operators:
feed:feed:image:0
conv2d:image:0,w:0,b:conv/out:0
batch_norm:conv/out:0,m:norm:0,m
scale:a:b:c
elementwise_add:norm:0,conv/out:0:sum:1
fetch:sum:1:fetch

"""
    log = parse_log(text.encode())
    assert [(op.op_type, op.ins, op.outs) for op in log.operations] == [
        ("feed", ("feed",), ("image:0",)),
        ("conv2d", ("image:0", "w:0", "b"), ("conv/out:0",)),
        ("batch_norm", ("conv/out:0", "m"), ("norm:0", "m")),
        ("elementwise_add", ("norm:0", "conv/out:0"), ("sum:1",)),
        ("fetch", ("sum:1",), ("fetch",)),
    ]
    assert [(item.code, item.line) for item in log.diagnostics] == [("LOG_BAD_LINE", 5)]


def test_a_scale_that_is_missing_is_told_with_the_operator() -> None:
    text = """subgraph operators:
feed:feed:x
conv2d:x,w:conv2d_113.tmp_0
relu:conv2d_113.tmp_0:y
fetch:y:fetch

"""
    said = "Missing the quant params 'Output0_scale' for the output 'conv2d_113.tmp_0'"
    text += f"[F  1/ 1 15:22:58.287 ...conv2d.cc:39 ConvertConv2D] {said}\n"
    (found,) = parse_log(text.encode()).diagnostics
    assert (found.code, found.line) == ("LOG_SCALE", 7)
    assert "Output0_scale" in found.message
    assert "'conv2d:x,w:conv2d_113.tmp_0' into subgraph.txt" in str(found.hint)
