"""Pages about how far another backend agrees, in steps."""

from __future__ import annotations

from dovetail.compare.verification import InsideLook, Verification, VerifiedTensor
from dovetail.report.page import Column, Facts, Page, Table, flexible, left, right


def verification_page(verification: Verification, title: str) -> Page:
    """Return the page: outputs, operators, and the first operator that deviates."""
    rows = tuple(_row(item, item.tensor) for item in verification.outputs)
    outputs = Table("Outputs, as they are deployed", (flexible("output"), left("on"), *_columns()), rows)
    operators = Table(
        "Operators on equal inputs",
        (flexible("operator"), left("op"), left("on"), left("judged by"), *_columns()),
        tuple(_row(item, _named(item), item.op, item.judged.value) for item in verification.operators),
        "Columns count elements by the size of the difference; floats count in units in the last place.",
    )
    first = verification.first_deviation
    named = "none" if first is None else f"{_named(first)} ({first.op}), {first.steps.differing} elements"
    facts = (
        ("against", verification.against),
        ("samples", str(verification.samples)),
        ("outputs", "every element is equal" if verification.equal else "elements differ"),
        ("first deviation", named),
        *((f"inner tensors, part {look.partition}", _looked(look)) for look in verification.inside),
    )
    return Page(title, (Facts("", facts), outputs, *((operators,) if verification.operators else ())))


def verification_document(verification: Verification) -> dict[str, object]:
    """Return it as plain data."""
    first = verification.first_deviation
    return {
        "against": verification.against,
        "samples": verification.samples,
        "equal": verification.equal,
        "first_deviation": None if first is None else first.node,
        "inside": [_look(item) for item in verification.inside],
        "outputs": [_plain(item) for item in verification.outputs],
        "operators": [_plain(item) for item in verification.operators],
    }


def _looked(look: InsideLook) -> str:
    """Return in words how the operators of a partition were looked at."""
    said = f"taps are {look.taps.value}{f' ({look.reason})' if look.reason else ''}"
    if look.cuts:
        said += f"; compiled up to {look.cuts} cuts"
    if look.unjudged:
        said += f"; nothing was read of {len(look.unjudged)} of {look.operators} operators"
    return said


def _named(item: VerifiedTensor) -> str:
    """Return an operator's name, and how many nodes before it cannot be told from it."""
    before = len(item.nodes) - len(item.op.split("+"))
    return f"{item.node} and {before} before it" if before > 0 else item.node


def _columns() -> tuple[Column, ...]:
    return tuple(right(name) for name in ("0", "1", "2", "3 to 7", "8 and more", "largest"))


def _row(item: VerifiedTensor, name: str, op: str | None = None, judged: str | None = None) -> tuple[str, ...]:
    counts = item.steps.counts
    shown = (counts[0], counts[1], counts[2], sum(counts[3:8]), counts[8], item.steps.largest)
    told = (name, item.target) if op is None or judged is None else (name, op, item.target, judged)
    return (*told, *(str(count) for count in shown))


def _look(item: InsideLook) -> dict[str, object]:
    return {
        "partition": item.partition,
        "target": item.target,
        "taps": item.taps.name.lower(),
        "reason": item.reason,
        "cuts": item.cuts,
        "operators": item.operators,
        "unjudged": list(item.unjudged),
    }


def _plain(item: VerifiedTensor) -> dict[str, object]:
    return {
        "tensor": item.tensor,
        "node": item.node,
        "nodes": list(item.nodes),
        "op": item.op,
        "target": item.target,
        "judged": item.judged.value,
        "steps": list(item.steps.counts),
        "differing": item.steps.differing,
        "largest": item.steps.largest,
    }
