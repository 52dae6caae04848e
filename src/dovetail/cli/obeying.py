"""The answer of an export and plain data of what the consumer of an exported file made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dovetail.cli.verb import Answer, ExitCode

if TYPE_CHECKING:
    from dovetail.formats.consumer import ConsumerReading
    from dovetail.report.page import Block, Page

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


def reading_answer(document: Mapping[str, object], page: Page, reading: ConsumerReading) -> Answer:
    """Return the answer of an export: its page with what was honoured, and a table of what was not."""
    from dovetail.report import Facts, Tone
    from dovetail.report.page import Table, left

    wrong = reading.disobeyed
    counts = Counter(item.obeyed.value for item in reading.nodes)
    facts = [("read by", reading.consumer), ("nodes", ", ".join(f"{count} {word}" for word, count in counts.items()))]
    if reading.noise_db is not None:
        facts.append(("signal over noise", f"{reading.noise_db:.1f} dB, the worst output"))
    blocks: tuple[Block, ...] = (*page.blocks, Facts("", tuple(facts)))
    verdict = f"{len(reading.nodes) - len(wrong)} of {len(reading.nodes)} nodes as planned."
    if not wrong:
        done = replace(page, blocks=blocks, verdict=f"PASS: {verdict}", tone=Tone.GOOD)
        return Answer(document, done)
    rows = tuple((item.node, item.op, item.asked, item.given, item.obeyed.value) for item in wrong[:_SHOWN])
    columns = tuple(left(name) for name in ("node", "operator", "planned", "given", "outcome"))
    more = f"and {len(wrong) - len(rows)} more" if len(wrong) > len(rows) else ""
    table = Table("Not as planned", columns, rows, more)
    failed = replace(page, blocks=(*blocks, table), verdict=f"FAIL: {verdict}", tone=Tone.BAD)
    return Answer(document, failed, ExitCode.NO)
