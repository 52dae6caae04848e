"""What changed between two plans on disk: placements by unit, repairs, scales, scores and latency."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dovetail.bundle import Bundle
from dovetail.ir.types import TensorType
from dovetail.plan.difference import PlanDifference, RepairChange, compare_plans
from dovetail.quantize import Ranges
from dovetail.report.figures import number_text, time_text
from dovetail.report.page import Block, Facts, Page, Table, Tone, flexible, left, right, wrapped
from dovetail.report.saved import PlanRecord, SavedPlan

_SHOWN = 40
"""Rows of scales on a page; the JSON has all."""


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A named value that differs; None where one side has none."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two plans on disk."""

    names: tuple[str, str]
    plan: PlanDifference
    scales: tuple[ValueChange, ...]
    """Ranges, or how tensors are stored where both sides are bundles; empty also where a side has neither."""
    figures: tuple[ValueChange, ...]
    """Scores and latencies; only where both sides have a record."""

    @property
    def count(self) -> int:
        """Return how many things differ."""
        plan = self.plan
        single = (plan.graphs[0] != plan.graphs[1]) + (plan.defaults[0] != plan.defaults[1])
        return single + len(plan.moved) + len(plan.repairs) + len(self.scales) + len(self.figures)


def compare_saved(first: SavedPlan, second: SavedPlan, unit_of: Mapping[str, str] | None = None) -> Changes:
    """Return what differs between two plans on disk; units are those given, else those on record."""
    known: dict[str, str] = {}
    for side in (second, first):
        known |= {} if side.record is None else side.record.unit_of
    difference = compare_plans(first.plan, second.plan, known if unit_of is None else unit_of)
    figures = tuple(_figures(first.record, second.record)) if first.record and second.record else ()
    return Changes((str(first.path), str(second.path)), difference, tuple(_scales(first, second)), figures)


def _scales(first: SavedPlan, second: SavedPlan) -> Iterator[ValueChange]:
    if first.ranges is not None and second.ranges is not None:
        yield from _different(_range_texts(first.ranges), _range_texts(second.ranges))
    elif first.bundle is not None and second.bundle is not None:
        yield from _different(_stored_texts(first.bundle), _stored_texts(second.bundle))


def _range_texts(ranges: Ranges) -> dict[str, str]:
    return {name: f"[{item.low:.9g}, {item.high:.9g}]" for name, item in ranges.tensors.items()}


def _stored_texts(bundle: Bundle) -> dict[str, str]:
    return {name: _stored(kind) for name, kind in bundle.tensors.items()}


def _stored(kind: TensorType) -> str:
    quant = kind.quant
    if quant is None:
        return kind.dtype.value
    if quant.per_channel:
        text = repr((quant.scale, quant.zero_point)).encode()
        return f"{kind.dtype.value}, {len(quant.scale)} scales {hashlib.sha256(text).hexdigest()[:8]}"
    return f"{kind.dtype.value}, scale {quant.scale[0]:.9g}, zero point {quant.zero_point[0]}"


def _figures(first: PlanRecord, second: PlanRecord) -> Iterator[ValueChange]:
    yield from _different(_figure_texts(first), _figure_texts(second))


def _figure_texts(record: PlanRecord) -> dict[str, str]:
    texts = {"metric": record.metric, "verdict": record.verdict, "latency": time_text(record.latency_ns)}
    for item in record.scores:
        texts[f"score ({item.split})"] = f"{number_text(item.score, 6)} on {item.samples} samples"
    return texts


def _different(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[ValueChange]:
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield ValueChange(name, before.get(name), after.get(name))


def changes_document(changes: Changes) -> dict[str, object]:
    """Return it as plain data."""
    plan = changes.plan
    return {
        "a": changes.names[0],
        "b": changes.names[1],
        "same": changes.count == 0,
        "graph": _pair(*plan.graphs),
        "default": _pair(*map(str, plan.defaults)),
        "placements": [
            {
                "unit": item.unit,
                "nodes": list(item.nodes),
                "before": str(item.before),
                "after": str(item.after),
                "reason": item.reason,
            }
            for item in plan.moved
        ],
        "repairs": [
            {"kind": item.kind, "tensor": item.tensor, "before": _numbers(item.before), "after": _numbers(item.after)}
            for item in plan.repairs
        ],
        "scales": [_value_document(item) for item in changes.scales],
        "figures": [_value_document(item) for item in changes.figures],
    }


def _pair(before: str, after: str) -> dict[str, object] | None:
    return None if before == after else {"before": before, "after": after}


def _numbers(numbers: tuple[int, ...] | None) -> list[int] | None:
    return None if numbers is None else list(numbers)


def _value_document(item: ValueChange) -> dict[str, object]:
    return {"name": item.name, "before": item.before, "after": item.after}


def changes_page(changes: Changes) -> Page:
    """Return the page: what differs, by kind, or that nothing does."""
    title = f"{changes.names[0]} against {changes.names[1]}"
    if not changes.count:
        return Page(title, (), "The same: placements, repairs and what is recorded of them.", Tone.GOOD)
    return Page(title, tuple(change_blocks(changes)), _verdict(changes), Tone.BAD)


def change_blocks(changes: Changes) -> Iterator[Block]:
    """Yield the tables of what differs."""
    plan = changes.plan
    if plan.graphs[0] != plan.graphs[1]:
        yield Facts("Made for different graphs", (("before", plan.graphs[0]), ("after", plan.graphs[1])))
    if plan.defaults[0] != plan.defaults[1]:
        yield Facts("Default of all other nodes", (("before", str(plan.defaults[0])), ("after", str(plan.defaults[1]))))
    if plan.moved:
        rows = tuple(
            (item.unit, str(len(item.nodes)), str(item.before), str(item.after), item.reason) for item in plan.moved
        )
        columns = (wrapped("unit"), right("nodes"), left("before"), left("after"), wrapped("reason"))
        yield Table("Placements", columns, rows)
    if plan.repairs:
        repaired = tuple((item.kind, item.tensor, _repair_text(item)) for item in plan.repairs)
        yield Table("Repairs", (left("kind"), wrapped("tensor"), wrapped("change")), repaired)
    if changes.scales:
        yield _values("Scales", changes.scales[:_SHOWN], len(changes.scales))
    if changes.figures:
        yield _values("Recorded by the searches", changes.figures, len(changes.figures))


def _repair_text(item: RepairChange) -> str:
    if item.before is None:
        return "only in the second"
    return "only in the first" if item.after is None else "other channels or factors"


def _values(title: str, items: tuple[ValueChange, ...], count: int) -> Table:
    rows = tuple((item.name, item.before or "-", item.after or "-") for item in items)
    note = f"... and {count - len(items)} more, in the JSON." if count > len(items) else ""
    return Table(title, (wrapped("what"), flexible("before"), flexible("after")), rows, note)


def _verdict(changes: Changes) -> str:
    plan = changes.plan
    counts = {
        "unit moved": len(plan.moved),
        "repair": len(plan.repairs),
        "scale": len(changes.scales),
        "recorded figure": len(changes.figures),
    }
    parts = [f"{count} {_plural(name, count)}" for name, count in counts.items() if count]
    parts += ["another default"] if plan.defaults[0] != plan.defaults[1] else []
    parts += ["another graph"] if plan.graphs[0] != plan.graphs[1] else []
    return f"Different: {', '.join(parts)}."


def _plural(name: str, count: int) -> str:
    return name if count == 1 else "units moved" if name == "unit moved" else f"{name}s"
