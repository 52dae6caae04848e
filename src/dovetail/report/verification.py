"""Pages about how far another backend agrees, in steps."""

from __future__ import annotations

from dovetail.compare.verify import Verification, VerifiedTensor
from dovetail.report.page import Column, Facts, Page, Table, flexible, left, right


def verification_page(verification: Verification, title: str) -> Page:
    """Return the page: outputs, operators, and the first operator that deviates."""
    outputs = Table("Outputs", (flexible("output"), *_columns()), tuple(_row(item) for item in verification.outputs))
    operators = Table(
        "Operators on equal inputs",
        (flexible("operator"), *_columns()),
        tuple(_row(item) for item in verification.operators),
        "Columns count elements by the size of the difference; floats count in units in the last place.",
    )
    first = verification.first_deviation
    named = "none" if first is None else f"{first.node} ({first.op}), {first.steps.differing} elements"
    facts = (
        ("against", verification.against),
        ("samples", str(verification.samples)),
        ("outputs", "every element is equal" if verification.equal else "elements differ"),
        ("first deviation", named),
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
        "outputs": [_plain(item) for item in verification.outputs],
        "operators": [_plain(item) for item in verification.operators],
    }


def _columns() -> tuple[Column, ...]:
    counts = tuple(right(name) for name in ("0", "1", "2", "3 to 7", "8 and more", "largest"))
    return (left("op"), left("on"), *counts)


def _row(item: VerifiedTensor) -> tuple[str, ...]:
    counts = item.steps.counts
    shown = (counts[0], counts[1], counts[2], sum(counts[3:8]), counts[8], item.steps.largest)
    return (item.node or item.tensor, item.op, item.target, *(str(count) for count in shown))


def _plain(item: VerifiedTensor) -> dict[str, object]:
    return {
        "tensor": item.tensor,
        "node": item.node,
        "op": item.op,
        "target": item.target,
        "steps": list(item.steps.counts),
        "differing": item.steps.differing,
        "largest": item.steps.largest,
    }
