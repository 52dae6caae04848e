"""Find what is wrong in subgraph.txt: errors E01 to E11, warnings W01 to W08."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dovetail.formats.format import Diagnostic, Severity
from dovetail.formats.paddle.fix import without_comment
from dovetail.formats.paddle.log import LoggedOperation, Where
from dovetail.formats.paddle.operators import (
    ACTIVATIONS,
    BLOCK_EDGES,
    CONVOLUTIONS,
    NORMALISATIONS,
    TIMVX_OPERATORS,
)
from dovetail.formats.paddle.rules import Dialect, Matcher, SubgraphRule, read_rule, split_fields
from dovetail.formats.paddle.subgraphs import estimate_subgraphs
from dovetail.formats.text import MAX_FILE_BYTES

_OP_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_LINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?::(?:[^\s,:;\-|]+(?:,[^\s,:;\-|]+)*)?){0,2}")
"""A line in which nothing can be wrong but what it matches: most lines are, and it saves looking at them closely."""

_MOST = 1000
_MOST_OPERATIONS = 5000
"""Beyond it subgraphs are not counted: the merge takes quadratic time, and no real network is larger."""
_MOST_SUGGESTIONS = 20
_COMPARED = 300
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class LintContext:
    """What is known beside the file; every part may be missing.

    `made_for` and `model_digest` are the digests of the model that the file was made for and of the one it is used
    with; `previous` is the file of the run before, `cache_folder` where compiled subgraphs are kept; `cache_is_older`
    tells that one of them was made before this file. `mixed`: the file is the mixed-precision one, whose operators stay
    on the NPU.
    """

    path: str = "subgraph.txt"
    dialect: Dialect = Dialect.V212
    operations: tuple[LoggedOperation, ...] = ()
    made_for: str = ""
    model_digest: str = ""
    previous: bytes | None = None
    cache_folder: str = ""
    cache_is_older: bool = False
    mixed: bool = False


def lint(content: bytes, context: LintContext | None = None) -> tuple[Diagnostic, ...]:
    """Return what is wrong or doubtful, in the order of lines; never raises on bad text."""
    given = context or LintContext()
    return tuple(sorted(islice(_Linter(content, given).findings(), _MOST), key=lambda item: item.line))


class _Linter:
    def __init__(self, content: bytes, context: LintContext) -> None:
        self.content, self.context = content, context
        self.matcher = Matcher(context.operations)
        self.suggestions = 0

    def finding(self, code: str, line: int, message: str, hint: str | None = None) -> Diagnostic:
        severity = Severity.WARNING if code.startswith("W") else Severity.ERROR
        return Diagnostic(code, severity, self.context.path, line, message, hint)

    def findings(self) -> Iterator[Diagnostic]:
        if not self.content:
            yield self.finding("E08", 0, "the file is empty: Paddle Lite crashes on it.", "Write one empty line.")
            return
        if len(self.content) > MAX_FILE_BYTES:
            yield self.finding("TOO_LARGE", 0, f"larger than {MAX_FILE_BYTES} bytes; this is no subgraph.txt.")
            return
        text = self.content.decode("utf-8", "replace")
        if "\ufffd" in text or "\0" in text:
            yield self.finding("NOT_TEXT", 0, "bytes that are no UTF-8 text.", "Save the file as UTF-8.")
        rules: list[tuple[SubgraphRule, tuple[int, ...]]] = []
        for number, line in enumerate(split_fields(text, "\n"), 1):
            plain = _PLAIN_LINE.fullmatch(line) is not None
            syntax = [] if plain else list(self.line_findings(line, number))
            yield from syntax
            broken = {item.code for item in syntax} - {"E09"}
            items = [line] if plain else self.context.dialect.items(line)
            found = [read_rule(item, number) for item in items if item]
            matched = [(rule, self.matcher.indices(rule)) for rule in found]
            if not broken:
                yield from (item for rule, indices in matched for item in self.rule_findings(rule, indices))
            rules += matched
        yield from self.duplicates([rule for rule, _ in rules])
        if self.context.operations:
            yield from self.placement_findings(rules)
        yield from self.file_findings()

    def line_findings(self, line: str, number: int) -> Iterator[Diagnostic]:
        if "\r" in line:
            yield self.finding(
                "E01",
                number,
                "a carriage return: it becomes part of the last name, so the rule is dead.",
                "Save the file with LF line ends, or run 'dovetail paddle fix'.",
            )
        if number == 1 and line.startswith("\ufeff"):
            yield self.finding("E02", number, "a byte order mark: it becomes part of the first operator type.")
        line, sign = line.replace("\r", "").removeprefix("\ufeff"), self.context.dialect.separator
        comment = without_comment(line) != line
        if comment:
            yield self.finding("E03", number, "a comment: the format has none, it becomes part of a name.")
        if not comment and any(token != token.strip() for token in re.split(f"[:,{re.escape(sign or '-')}]", line)):
            yield self.finding("E04", number, "a blank beside a name: it becomes part of the name.")
        if ":" not in line and ";" in line:
            yield self.finding("E05", number, "';' does not separate anything: ':' does.")
        if self.splits_a_name(line):
            since = " since v2.12" if self.context.dialect is Dialect.V212 else ""
            yield self.finding(
                "E07",
                number,
                f"'{sign}' separates rules{since}: '{line[:_SHOWN]}' becomes {len(line.split(sign))} rules.",
                f"Leave out the names with '{sign}'; an output without one often says enough (scale::out).",
            )
        for rule in self.context.dialect.items(line):
            yield from self.item_findings(rule, number)

    def item_findings(self, item: str, number: int) -> Iterator[Diagnostic]:
        fields = split_fields(item, ":")
        if len(fields) > 3:
            yield self.finding("E09", number, f"{len(fields)} fields: Paddle Lite reads the first three.")
        if any(name == "" for field in fields[1:3] for name in split_fields(field, ",")):
            yield self.finding("E10", number, "an empty name: such a rule matches nothing.")
        if len(fields) > 1 and not fields[0]:
            yield self.finding("E11", number, "no operator type: such a rule matches nothing.")

    def splits_a_name(self, line: str) -> bool:
        """Tell whether a separator that was meant as part of a name separates rules."""
        sign = self.context.dialect.separator
        if not sign or sign not in line:
            return False
        items = [item for item in line.split(sign) if item]
        types = [item.partition(":")[0].strip() for item in items]
        if not all(_OP_TYPE.fullmatch(name) for name in types):
            return True
        if not self.context.operations:
            return False
        return bool(self.matcher.indices(read_rule(line))) or not set(types) <= self.matcher.types

    def rule_findings(self, rule: SubgraphRule, indices: Sequence[int]) -> Iterator[Diagnostic]:
        if not rule.ins and not rule.outs:
            yield self.finding("W02", rule.line, f"'{rule.text[:_SHOWN]}' is about every operator of the type.")
        if not self.context.operations:
            return
        if not indices:
            yield self.finding("E06", rule.line, f"'{rule.text[:_SHOWN]}' matches no operator.", self.suggest(rule))
        elif len(indices) > 1:
            yield self.finding("W01", rule.line, f"'{rule.text[:_SHOWN]}' matches {len(indices)} operators.")
        idle = [self.context.operations[index] for index in indices if _on_cpu_anyway(self.context.operations[index])]
        if idle:
            yield self.finding("W04", rule.line, f"'{idle[0].op_type}' is on the CPU anyway.")

    def suggest(self, rule: SubgraphRule) -> str | None:
        """Return the nearest operator of the type, or the nearest type; only for the first findings: it takes long."""
        self.suggestions += 1
        if self.suggestions > _MOST_SUGGESTIONS:
            return None
        if rule.op_type not in self.matcher.types:
            near = difflib.get_close_matches(rule.op_type[:_COMPARED], sorted(self.matcher.types), n=1)
            return f"Did you mean the type '{near[0]}'?" if near else "Is it the log of this model?"
        same = [op.text[:_COMPARED] for op in self.context.operations if op.op_type == rule.op_type]
        wanted = f"{rule.op_type}:{','.join(rule.ins)}:{','.join(rule.outs)}"[:_COMPARED]
        near = difflib.get_close_matches(wanted, same[:500], n=1, cutoff=0.3)
        return f"The nearest operator is '{(near or same)[0][:_SHOWN]}'."

    def duplicates(self, rules: Sequence[SubgraphRule]) -> Iterator[Diagnostic]:
        seen: dict[tuple[str, frozenset[str], frozenset[str]], int] = {}
        for rule in rules:
            key = (rule.op_type, frozenset(rule.ins), frozenset(rule.outs))
            if key in seen:
                yield self.finding("W03", rule.line, f"the same rule as in line {seen[key]}.")
            seen.setdefault(key, rule.line)

    def placement_findings(self, rules: Sequence[tuple[SubgraphRule, Sequence[int]]]) -> Iterator[Diagnostic]:
        operations = self.context.operations
        first: dict[int, int] = {}
        for rule, indices in rules:
            for index in indices:
                first.setdefault(index, rule.line)
        for group in fused_groups(operations):
            listed = [index for index in group if index in first]
            if listed and len(listed) < len(group):
                names = " + ".join(operations[index].op_type for index in group)
                yield self.finding(
                    "W05",
                    first[listed[0]],
                    f"it tears {names} apart, which the NPU runs as one: more borders, no fusion.",
                    "List all of them or none.",
                )
        if self.context.mixed or len(operations) > _MOST_OPERATIONS:
            return
        able = [not _on_cpu_anyway(op) for op in operations]
        before = estimate_subgraphs(operations, able)
        after = estimate_subgraphs(operations, [ok and i not in first for i, ok in enumerate(able)])
        if after.subgraphs > before.subgraphs or after.boundary_tensors > before.boundary_tensors:
            yield self.finding(
                "W06",
                0,
                f"NPU subgraphs go from {before.subgraphs} to {after.subgraphs}, tensors that cross from "
                f"{before.boundary_tensors} to {after.boundary_tensors}.",
            )

    def file_findings(self) -> Iterator[Diagnostic]:
        context = self.context
        if context.made_for and context.model_digest and context.made_for != context.model_digest:
            yield self.finding(
                "W07",
                0,
                f"made for model {context.made_for[:12]}, not {context.model_digest[:12]}.",
                "Take a new log of this model, and plan again.",
            )
        changed = context.previous is not None and context.previous != self.content
        if context.cache_folder and (changed or (context.previous is None and context.cache_is_older)):
            yield self.finding(
                "W08",
                0,
                f"the placement changed, but the cache in '{context.cache_folder}' does not know it.",
                "Empty the cache folder: its key ignores the placement and the weights.",
            )


def _on_cpu_anyway(op: LoggedOperation) -> bool:
    return op.where is Where.CPU or op.op_type in BLOCK_EDGES or op.op_type not in TIMVX_OPERATORS


def fused_groups(operations: Sequence[LoggedOperation]) -> list[tuple[int, ...]]:
    """Return the convolutions with the normalisation and activation that the driver fuses into them."""
    readers: Counter[str] = Counter(name for op in operations for name in dict.fromkeys(op.ins))
    reader: dict[str, int] = {name: index for index, op in enumerate(operations) for name in dict.fromkeys(op.ins)}
    groups: list[tuple[int, ...]] = []
    for index, op in enumerate(operations):
        if op.op_type not in CONVOLUTIONS:
            continue
        group = [index]
        for kinds in (NORMALISATIONS, ACTIVATIONS):
            last = operations[group[-1]]
            names = [name for name in last.outs if name in reader and name not in last.ins]
            if len(names) == 1 and readers[names[0]] == 1 and operations[reader[names[0]]].op_type in kinds:
                group.append(reader[names[0]])
        if len(group) > 1:
            groups.append(tuple(group))
    return groups
