"""Read the log of a Paddle Lite run: the paragraphs `subgraph operators:` and the placement beside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import BinaryIO

from dovetail.formats.format import Diagnostic, Severity
from dovetail.formats.text import TextLine, bounded_lines

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
_NOISE = re.compile(
    r"\[[A-Z0-9]+ +\d{1,2}/ *\d{1,2} +\d{1,2}: *\d{1,2}: *\d{1,2}\. *\d{1,3} "
    r"|[IWEF]\d{4} \d\d:"
    r"|[DEWI] \[\w+:\d+\]"
    r"|\[(?:INFO|WARNING|ERROR)\]"
)
_NOISE_STARTS = frozenset("[IWEFD")
_OP_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r'\[label="([^"]*)" shape="box"')
_CLUSTER = re.compile(r"(.*)_subgraph_(\d{1,9})")
_CLUSTERS = re.compile(r"subgraph clusters: *(\d{1,9})")
_HEADER = "subgraph operators:"
_MOST_DIAGNOSTICS = 200
_MOST_PARTS = 200
"""Beyond it a line is not divided: it takes quadratic time."""
_ENDS = ("feed", "fetch")
_SCALE = re.compile(r"Missing the quant params '(\w{1,80})' for the (?:input|output) '([^']{1,400})'")
"""What Paddle Lite says before it aborts."""


class Where(Enum):
    """Where the run put an operator."""

    NPU = "npu"
    CPU = "cpu"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LoggedOperation:
    """One operator of a log; `cluster` counts the NPU subgraphs and is -1 elsewhere."""

    op_type: str
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    where: Where = Where.UNKNOWN
    cluster: int = -1
    line: int = 0

    @property
    def text(self) -> str:
        """Return the operator as the log prints it."""
        return f"{self.op_type}:{','.join(self.ins)}:{','.join(self.outs)}"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One list of operators: a block of a program, printed by one predictor.

    `clusters` is the count of NPU subgraphs, -1 where the log lacks it. `truncated`: the log ended before the
    paragraph did, or it has no `fetch`.
    """

    index: int
    line: int
    clusters: int
    operations: tuple[LoggedOperation, ...]
    noise: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Log:
    """The paragraphs of a log and what was wrong in it."""

    paragraphs: tuple[Paragraph, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def operations(self) -> tuple[LoggedOperation, ...]:
        """Return the operators of the last paragraph; none when the log has no paragraph."""
        return self.paragraphs[-1].operations if self.paragraphs else ()


@dataclass(slots=True)
class _Draft:
    line: int
    clusters: int
    labels: dict[str, str]
    operations: list[LoggedOperation] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """Tensors that were made so far: they tell where names with ':' end."""
    noise: int = 0


_Split = tuple[str, str]
"""Inputs and outputs, as the log has them."""


def _splits(fields: Sequence[str], made: set[str]) -> Iterator[_Split]:
    """Yield where a line whose names hold ':' can be divided: no name is a number first, none is made twice.

    What is fed and what is fetched has one name on one side.
    """
    kind, rest = fields[0], fields[1:]
    if len(rest) > _MOST_PARTS:
        return
    if kind in _ENDS:
        yield (rest[0], ":".join(rest[1:])) if kind == "feed" else (":".join(rest[:-1]), rest[-1])
        return
    for cut in range(1, len(rest)):
        ins, outs = ":".join(rest[:cut]), ":".join(rest[cut:])
        names, results = ins.split(","), outs.split(",")
        if any(name.split(":")[0].isdigit() for name in (*names, *results)):
            continue
        if all(name not in made or name in names for name in results):
            yield ins, outs


class _Reader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.paragraphs: list[Paragraph] = []
        self.diagnostics: list[Diagnostic] = []
        self.draft: _Draft | None = None
        self.clusters = -1
        self.labels: dict[str, str] = {}
        self.in_graph = False
        self.types: set[str] = set()
        self.scales: list[tuple[int, str, str]] = []
        """Lines, scales that are missing, and the tensors."""

    def complain(self, code: str, line: int, message: str, hint: str | None = None) -> None:
        if len(self.diagnostics) < _MOST_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic(code, Severity.WARNING, self.path, line, message, hint))

    def take(self, line: TextLine) -> None:
        text = line.text.rstrip()
        if line.number == 1:
            text = text.removeprefix("\ufeff")
        if "\x1b" in text:
            text = _ANSI.sub("", text).rstrip()
        if line.cut:
            self.complain("LOG_LONG_LINE", line.number, "the line is too long for a log; its end was not read.")
        if "Missing the quant params" in text and (scale := _SCALE.search(text)):
            self.scales.append((line.number, scale[1], scale[2]))
        if self.in_graph:
            self.graph_line(text)
        elif text.endswith(":") and text.lower().endswith(_HEADER):
            self.close(ended=True)
            self.draft = _Draft(line.number, self.clusters, self.labels)
            self.clusters, self.labels = -1, {}
        elif "subgraph clusters:" in text or text.endswith("digraph G {"):
            self.close(ended=True)
            self.before(text)
        elif self.draft is not None:
            self.body_line(self.draft, line.number, text)

    def before(self, text: str) -> None:
        found = _CLUSTERS.search(text)
        if found:
            self.clusters, self.labels = int(found[1]), {}
        else:
            self.in_graph = True

    def graph_line(self, text: str) -> None:
        if text.endswith("} // end G") or text.lower().endswith(_HEADER):
            self.in_graph = False
            if text.lower().endswith(_HEADER):
                self.take(TextLine(0, text, cut=False, ended=True))
            return
        match = _LABEL.search(text)
        if match:
            cluster = _CLUSTER.fullmatch(match[1])
            self.labels[cluster[1] if cluster else match[1]] = cluster[2] if cluster else ""

    def body_line(self, draft: _Draft, number: int, text: str) -> None:
        if not text:
            self.close(ended=True)
        elif text[0] in _NOISE_STARTS and _NOISE.match(text):
            draft.noise += 1
        else:
            fields = text.split(":")
            found: list[_Split] = []
            if len(fields) >= 3 and self.is_type(fields[0]):
                found = [(fields[1], fields[2])] if len(fields) == 3 else list(_splits(fields, draft.made))
            if len(found) == 1:
                names, made = (tuple(part.split(",")) if part else () for part in found[0])
                draft.operations.append(LoggedOperation(fields[0], names, made, line=number))
                draft.made.update(made)
            else:
                draft.noise += 1
                many = len(fields) > 3 and _OP_TYPE.fullmatch(fields[0]) is not None
                why = "names with ':' make it ambiguous" if many else "it is no TYPE:INPUTS:OUTPUTS"
                self.complain("LOG_BAD_LINE", number, f"'{text[:80]}' is not an operator: {why}.")

    def is_type(self, name: str) -> bool:
        """Tell whether a name can be that of an operator type; most lines have one of few."""
        if name in self.types:
            return True
        if _OP_TYPE.fullmatch(name) is None:
            return False
        self.types.add(name)
        return True

    def close(self, *, ended: bool) -> None:
        draft, self.draft = self.draft, None
        if draft is None:
            return
        operations = _place(draft)
        truncated = not ended or not any(op.op_type == "fetch" for op in operations)
        self.paragraphs.append(
            Paragraph(len(self.paragraphs), draft.line, draft.clusters, operations, draft.noise, truncated)
        )


def _place(draft: _Draft) -> tuple[LoggedOperation, ...]:
    """Join operators with the labels of the graph: `TYPE_N_op` since v2.12, `TYPEN` before."""
    if not draft.labels:
        return tuple(draft.operations)
    seen: Counter[str] = Counter()
    placed: list[LoggedOperation] = []
    for op in draft.operations:
        number = seen[op.op_type]
        seen[op.op_type] += 1
        cluster = draft.labels.get(f"{op.op_type}_{number}_op")
        if cluster is None:
            cluster = draft.labels.get(f"{op.op_type}{number}")
        if cluster is None:
            placed.append(op)
        elif cluster:
            placed.append(LoggedOperation(op.op_type, op.ins, op.outs, Where.NPU, int(cluster), op.line))
        else:
            placed.append(LoggedOperation(op.op_type, op.ins, op.outs, Where.CPU, -1, op.line))
    return tuple(placed)


def parse_log(source: bytes | BinaryIO, path: str = "log.txt") -> Log:
    """Return every paragraph of a log, in time linear in its length and memory bounded by its operators.

    Never raises on bad text: lines that are no operators are counted and reported.
    """
    reader = _Reader(path)
    for line in bounded_lines(source):
        reader.take(line)
    reader.close(ended=False)
    paragraphs = reader.paragraphs
    _tell_scales(reader)
    if not paragraphs:
        reader.complain(
            "LOG_EMPTY",
            0,
            "no paragraph 'subgraph operators:'.",
            "It goes to stdout: run the program with '> log.txt 2>&1', with a Paddle model (a .nb prints none), "
            "and with the NPU enabled.",
        )
    elif any(_key(one) != _key(paragraphs[-1]) for one in paragraphs):
        reader.complain(
            "LOG_PARAGRAPHS",
            paragraphs[-1].line,
            f"{len(paragraphs)} paragraphs that differ; the last one counts.",
            "Another one can be chosen by its number.",
        )
    return Log(tuple(paragraphs), tuple(reader.diagnostics))


def _tell_scales(reader: _Reader) -> None:
    """Report scales that a run missed, with the operator to take off the NPU."""
    operations = reader.paragraphs[-1].operations if reader.paragraphs else ()
    for line, scale, tensor in dict.fromkeys(reader.scales[:_MOST_DIAGNOSTICS]):
        makers = [op for op in operations if tensor in op.outs]
        users = [op for op in operations if tensor in op.ins]
        found = (makers or users)[-1:] if scale.startswith("Output") else (users or makers)[:1]
        rule = f"put '{found[0].text[:120]}' into subgraph.txt" if found else "take what makes it off the NPU"
        message = f"'{tensor[:120]}' has no {scale}: an operator that reads bytes makes it, and it has no scale."
        reader.complain("LOG_SCALE", line, message, f"Quantise the model in full, or {rule}.")


def _key(paragraph: Paragraph) -> frozenset[tuple[str, tuple[str, ...]]]:
    return frozenset((op.op_type, op.outs) for op in paragraph.operations)
