"""The answer of an export and plain data of what the consumer of an exported file made of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dovetail.cli.verb import Answer, ExitCode

if TYPE_CHECKING:
    from dovetail.fit import HandedScore, MovedScore
    from dovetail.formats.consumer import ConsumerReading
    from dovetail.report.page import Block, Page

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class SeenExport:
    """What a consumer made of a file, and what that scores where there are samples."""

    reading: ConsumerReading
    score: HandedScore | None = None

    def data(self) -> Mapping[str, object]:
        """Return it as plain data."""
        return {
            "consumer": self.reading.consumer,
            "score": None if self.score is None else _score_data(self.score),
            "notes": list(self.reading.notes),
            "nodes": [
                {
                    "node": item.node,
                    "op": item.op,
                    "asked": item.asked,
                    "given": item.given,
                    "outcome": item.obeyed.value,
                }
                for item in self.reading.nodes
            ],
        }

    def answer(self, document: Mapping[str, object], page: Page) -> Answer:
        """Return the answer of an export: its page with what was honoured, and a table of what was not."""
        from dovetail.report import Facts, Tone
        from dovetail.report.page import Table, left

        reading, wrong = self.reading, self.reading.disobeyed
        counts = Counter(item.obeyed.value for item in reading.nodes)
        nodes = ", ".join(f"{count} {word}" for word, count in counts.items())
        facts = [("read by", reading.consumer), ("nodes", nodes)]
        facts += [("it says", note) for note in reading.notes]
        if self.score is not None:
            facts += _score_facts(self.score)
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


def _score_data(score: HandedScore) -> Mapping[str, object]:
    return {
        "metric": score.metric,
        "samples": score.samples,
        "float": score.float_score,
        "predicted": score.predicted.value,
        "reason": score.predicted.reason or None,
        "given": score.given,
        "noise_db": score.noise_db if math.isfinite(score.noise_db) else None,
        "note": score.note or None,
    }


def _score_facts(score: HandedScore) -> Iterator[tuple[str, str]]:
    ours = score.predicted
    yield "score", f"{score.metric} on {score.samples} samples: float {score.float_score:.4f}"
    yield "predicted", ours.reason if ours.value is None else f"{ours.value:.4f}"
    off = "" if ours.value is None else f", {score.given - ours.value:+.4f} beside the prediction"
    yield "given", f"{score.given:.4f}{off}"
    yield "signal over noise", f"{score.noise_db:.1f} dB, the worst output" if math.isfinite(score.noise_db) else "none"
    if score.note:
        yield "metric", score.note


def moved_data(score: MovedScore) -> Mapping[str, object]:
    """Return what the nearest plan scores beside the one that was asked for, as plain data."""
    return {
        "metric": score.metric,
        "samples": score.samples,
        "float": score.float_score,
        "asked": score.asked.value,
        "nearest": score.nearest.value,
        "note": score.note or None,
    }


def moved_facts(score: MovedScore) -> Iterator[tuple[str, str]]:
    """Yield the same as facts of a page."""
    asked, nearest = score.asked, score.nearest
    yield "float", f"{score.metric} {score.float_score:.4f} on {score.samples} samples"
    yield "the plan", asked.reason if asked.value is None else f"{asked.value:.4f}, predicted"
    yield "the nearest plan", nearest.reason if nearest.value is None else f"{nearest.value:.4f}, predicted"
