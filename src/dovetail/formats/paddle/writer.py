"""Write subgraph.txt so that it says exactly which operators are meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.errors import FormatError
from dovetail.formats.paddle.log import LoggedOperation
from dovetail.formats.paddle.rules import Dialect, Matcher, SubgraphRule, load_rules

NOTHING = "\n"
"""A file without rules. Paddle Lite crashes on a file of 0 bytes."""


def write_rules(
    chosen: Sequence[LoggedOperation],
    operations: Sequence[LoggedOperation],
    dialect: Dialect = Dialect.V212,
    path: str = "subgraph.txt",
    *,
    whole_types: bool = False,
) -> str:
    """Return the file that matches the chosen operators and no other: one rule a line, in the network's order.

    A name that the dialect cannot say (with '-' since v2.12, or '|', ':' or ',') is left out where the rest still says
    which operator is meant. Raises FormatError where it does not; `whole_types` then takes all operators of the type.
    """
    matcher = Matcher(operations)
    wanted = {id(op) for op in chosen}
    positions = [index for index, op in enumerate(operations) if id(op) in wanted]
    meant = frozenset(positions)
    lines: list[str] = []
    for index in positions:
        op = operations[index]
        rule = next((text for text in _spellings(op, dialect) if _says(text, index, meant, matcher, dialect)), None)
        if rule is None and whole_types:
            rule = op.op_type
        if rule is None:
            raise FormatError(
                f"'{op.text[:120]}' cannot be told from other operators in dialect {dialect.value}: its names hold "
                "'-', ':' or ','.",
                path=path,
                line=0,
                code="E07",
                hint="Rename the tensors in the model, or choose every operator of the type.",
            )
        lines.append(rule)
    return "".join(f"{line}\n" for line in dict.fromkeys(lines)) or NOTHING


def _spellings(op: LoggedOperation, dialect: Dialect) -> Iterator[str]:
    bad = ":,\n\r" + dialect.separator
    ins = [name for name in dict.fromkeys(op.ins) if name and not any(sign in name for sign in bad)]
    outs = [name for name in dict.fromkeys(op.outs) if name and not any(sign in name for sign in bad)]
    if any(sign in op.op_type for sign in bad):
        return
    for some in (ins, []) if len(ins) < len(set(op.ins)) else (ins,):
        yield f"{op.op_type}:{','.join(some)}:{','.join(outs)}"


def _says(text: str, index: int, meant: frozenset[int], matcher: Matcher, dialect: Dialect) -> bool:
    rules: tuple[SubgraphRule, ...] = load_rules(text, dialect)
    found = {position for rule in rules for position in matcher.indices(rule)}
    return index in found and found <= meant
