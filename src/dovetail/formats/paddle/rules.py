"""subgraph.txt as Paddle Lite reads it: which operators a rule matches.

Source: `GetNodesFromConfigs` in `lite/core/optimizer/mir/ssa_graph_utils.cc` and `Split` in `lite/utils/string.h`.
Since v2.12 a '-' separates rules within a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from dovetail.formats.paddle.log import LoggedOperation


class Dialect(Enum):
    """The versions of Paddle Lite that read the file in one way."""

    V210 = "v2.10"
    """v2.8 to v2.11: one rule a line."""
    V212 = "v2.12"
    """v2.12 and later: '-' separates rules too."""
    PIPE = "pipe"
    """Builds whose source separates rules by '|' in place of '-'; which release that was is not known."""

    @property
    def separator(self) -> str:
        """Return what separates rules within a line, or an empty text."""
        return {Dialect.V212: "-", Dialect.PIPE: "|"}.get(self, "")

    def items(self, line: str) -> list[str]:
        """Return the rules of a line; empty ones count, except one at the end."""
        return split_fields(line, self.separator) if self.separator else [line]


@dataclass(frozen=True, slots=True)
class SubgraphRule:
    """Match operators of a type that read all of `ins` and make all of `outs`; an empty list matches anything."""

    op_type: str
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    line: int = 0
    text: str = ""

    def matches(self, op: LoggedOperation) -> bool:
        """Tell whether the rule is about an operator; inputs and outputs count once each, as Paddle Lite links them."""
        if not self.op_type or self.op_type != op.op_type:
            return False
        return _within(self.ins, op.ins) and _within(self.outs, op.outs)


def _within(wanted: tuple[str, ...], names: tuple[str, ...]) -> bool:
    known = frozenset(names)
    return len(wanted) <= len(known) and known.issuperset(wanted)


def split_fields(text: str, sign: str) -> list[str]:
    """Split as Paddle Lite does: empty fields count, except one at the end."""
    fields = text.split(sign)
    if fields[-1] == "":
        fields.pop()
    return fields


def load_rules(text: str, dialect: Dialect = Dialect.V212) -> tuple[SubgraphRule, ...]:
    """Return the rules of a file exactly as Paddle Lite takes them: nothing is trimmed, no comment is known."""
    rules: list[SubgraphRule] = []
    for number, line in enumerate(split_fields(text, "\n"), 1):
        rules += [read_rule(item, number) for item in dialect.items(line) if item]
    return tuple(rules)


def read_rule(item: str, line: int = 0) -> SubgraphRule:
    """Return one rule."""
    fields = [*split_fields(item, ":"), "", "", ""]
    return SubgraphRule(
        fields[0], tuple(split_fields(fields[1], ",")), tuple(split_fields(fields[2], ",")), line=line, text=item
    )


class Matcher:
    """Match rules against the operators of one paragraph, by an index on tensors."""

    def __init__(self, operations: Sequence[LoggedOperation]) -> None:
        self.operations = tuple(operations)

    @cached_property
    def _by_type(self) -> Mapping[str, tuple[int, ...]]:
        by_type: dict[str, list[int]] = {}
        for index, op in enumerate(self.operations):
            by_type.setdefault(op.op_type, []).append(index)
        return {name: tuple(indices) for name, indices in by_type.items()}

    @cached_property
    def _by_output(self) -> Mapping[str, tuple[int, ...]]:
        by_output: dict[str, list[int]] = {}
        for index, op in enumerate(self.operations):
            for name in dict.fromkeys(op.outs):
                by_output.setdefault(name, []).append(index)
        return {name: tuple(indices) for name, indices in by_output.items()}

    @property
    def types(self) -> frozenset[str]:
        """Return the types that occur."""
        return frozenset(self._by_type)

    def indices(self, rule: SubgraphRule) -> tuple[int, ...]:
        """Return the positions of the operators that a rule matches."""
        some = self._by_output.get(rule.outs[0], ()) if rule.outs else self._by_type.get(rule.op_type, ())
        return tuple(index for index in some if rule.matches(self.operations[index]))


def match(rule: SubgraphRule, operations: Sequence[LoggedOperation]) -> tuple[LoggedOperation, ...]:
    """Return the operators that a rule matches."""
    return tuple(op for op in operations if rule.matches(op))


def match_all(rules: Sequence[SubgraphRule], operations: Sequence[LoggedOperation]) -> tuple[LoggedOperation, ...]:
    """Return the operators that at least one rule matches, in their order."""
    matcher = Matcher(operations)
    found = {index for rule in rules for index in matcher.indices(rule)}
    return tuple(operations[index] for index in sorted(found))
