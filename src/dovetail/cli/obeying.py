"""Blocks and plain data of what the consumer of an exported file made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dovetail.formats.consumer import ConsumerReading
    from dovetail.report.page import Block

_SHOWN = 20


def reading_data(reading: ConsumerReading) -> Mapping[str, object]:
    """Return a reading as plain data."""
    return {
        "consumer": reading.consumer,
        "noise_db": reading.noise_db,
        "nodes": [
            {"node": item.node, "op": item.op, "asked": item.asked, "given": item.given, "outcome": item.obeyed.value}
            for item in reading.nodes
        ],
    }


def reading_blocks(reading: ConsumerReading) -> tuple[Block, ...]:
    """Return what was honoured, and a table of what was not."""
    from dovetail.report import Facts
    from dovetail.report.page import Table, left

    counts = Counter(item.obeyed.value for item in reading.nodes)
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    facts = [("read by", reading.consumer), ("nodes", said)]
    if reading.noise_db is not None:
        facts.append(("signal over noise", f"{reading.noise_db:.1f} dB, the worst output"))
    rows = tuple((item.node, item.op, item.asked, item.given, item.obeyed.value) for item in reading.disobeyed[:_SHOWN])
    more = len(reading.disobeyed) - len(rows)
    columns = tuple(left(name) for name in ("node", "operator", "planned", "given", "outcome"))
    table = Table("Not as planned", columns, rows, f"and {more} more" if more else "")
    return (Facts("", tuple(facts)), *((table,) if rows else ()))
