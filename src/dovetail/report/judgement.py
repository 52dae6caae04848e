"""Pages about what a target makes of a model that came quantised."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.compare.judgement import JudgedNode, JudgedScore, Judgement, NodeOutcome
from dovetail.quantize.formats import NodeFormats, StoredFormat
from dovetail.report.cost import cost_sources, modelled_blocks, modelled_document, plan_cost_document
from dovetail.report.figures import time_text
from dovetail.report.page import Block, Facts, Page, Prose, Table, Tone, flexible, left, right, wrapped

_TOLD = {
    NodeOutcome.HONOURED: "as the file asks",
    NodeOutcome.RESTATED: "the same values in the target's own form",
    NodeOutcome.CHANGED: "on another grid",
    NodeOutcome.CPU: "on the CPU",
    NodeOutcome.REFUSED: "nowhere",
}


def judgement_page(judgement: Judgement, *, every_node: bool = False) -> Page:
    """Return the page: scores, price, what is asked and given; all nodes where that is wanted."""
    blocks: list[Block] = [_scores(judgement), _price(judgement), _groups(judgement)]
    if every_node:
        blocks.append(_nodes(judgement.nodes))
    if judgement.notes:
        blocks.append(Prose("Notes", judgement.notes))
    blocks += modelled_blocks(judgement.modelled)
    if judgement.cost is not None:
        blocks.append(cost_sources(judgement.cost))
    tone = Tone.GOOD if judgement.met else Tone.BAD
    return Page(f"'{judgement.model}' on {judgement.target}", tuple(blocks), _verdict(judgement), tone)


def judgement_document(judgement: Judgement) -> dict[str, object]:
    """Return it as plain data."""
    cost = judgement.cost
    return {
        "model": judgement.model,
        "target": judgement.target,
        "arithmetic": judgement.arithmetic,
        "reference": judgement.reference,
        "metric": judgement.metric,
        "samples": judgement.samples,
        "scores": {
            "float": judgement.float_score,
            "file": judgement.own.value,
            "target": judgement.score.value,
        },
        "reasons": {"file": judgement.own.reason, "target": judgement.score.reason, "cost": judgement.cost_reason},
        "loss": judgement.loss,
        "allowance": judgement.allowance,
        "min_score": judgement.least,
        "met": judgement.met,
        "counts": {outcome.value: count for outcome, count in judgement.counts.items()},
        "conversions": judgement.conversions,
        "nodes": [_node_document(item) for item in judgement.nodes],
        "cost": None if cost is None else plan_cost_document(cost),
        "modelled": modelled_document(judgement.modelled),
        "notes": list(judgement.notes),
    }


def _scores(judgement: Judgement) -> Facts:
    return Facts(
        "",
        (
            ("metric", f"{judgement.metric} on {judgement.samples} samples"),
            ("float", f"{judgement.float_score:.4f} ({judgement.reference})"),
            ("the file", f"{_score(judgement.own)} (its own integers, by ONNX Runtime on this machine)"),
            ("the target", f"{_score(judgement.score)} ({judgement.arithmetic})"),
        ),
    )


def _score(score: JudgedScore) -> str:
    return f"none: {score.reason}" if score.value is None else f"{score.value:.4f}"


def _price(judgement: Judgement) -> Facts:
    cost = judgement.cost
    if cost is None:
        return Facts("Price", (("latency", f"none: {judgement.cost_reason}"),))
    parts = f"units {time_text(cost.compute_ns)}, boundaries {time_text(cost.boundary_ns)}"
    switches = f"{cost.partition_count} partitions {time_text(cost.switch_ns)}"
    pairs = (
        ("latency", f"{time_text(cost.latency_ns)} a sample ({parts}, {switches})"),
        ("engines", ", ".join(f"{name} {count}" for name, count in _engines(judgement.nodes).items())),
        ("conversions", str(judgement.conversions)),
    )
    return Facts("Price", pairs)


def _engines(nodes: Sequence[JudgedNode]) -> dict[str, int]:
    """Return how many nodes each engine runs."""
    names = [item.engine.value for item in nodes if item.engine is not None]
    return {name: names.count(name) for name in sorted(set(names))}


def _groups(judgement: Judgement) -> Table:
    """Return what is asked and given, like nodes in one row, what is not honoured first."""
    groups: dict[tuple[str, ...], list[JudgedNode]] = {}
    ranks = {outcome: -index for index, outcome in enumerate(NodeOutcome)}
    for item in sorted(judgement.nodes, key=lambda one: ranks[one.outcome]):
        groups.setdefault((item.asked.text, _given(item), item.reason), []).append(item)
    rows = tuple(
        (str(len(items)), ", ".join(dict.fromkeys(item.op for item in items)), *texts)
        for texts, items in groups.items()
    )
    columns = (right("nodes"), wrapped("operators"), wrapped("the file asks"), wrapped("the target"), wrapped("why"))
    counts = ", ".join(f"{count} {_TOLD[outcome]}" for outcome, count in judgement.counts.items() if count)
    return Table("What the target makes of the file", columns, rows, f"{len(judgement.nodes)} nodes: {counts}.")


def _given(item: JudgedNode) -> str:
    engine = "" if item.engine is None else f" ({item.engine.value})"
    if item.outcome in (NodeOutcome.RESTATED, NodeOutcome.CHANGED) and item.given is not None:
        return f"{item.outcome.value}: {item.given.text}{engine}"
    return f"{item.outcome.value}{engine}"


def _nodes(nodes: Sequence[JudgedNode]) -> Table:
    columns = (flexible("node"), left("op"), left("outcome"), left("at"), left("engine"))
    rows = tuple(
        (
            item.node,
            item.op,
            item.outcome.value,
            "" if item.place is None else str(item.place),
            "" if item.engine is None else item.engine.value,
        )
        for item in nodes
    )
    return Table("Every node", columns, rows)


def _verdict(judgement: Judgement) -> str:
    if judgement.loss is None:
        return "There is no score on the target."
    least = "" if judgement.least is None else f"; a score of {judgement.least:g} is demanded"
    word = "Met" if judgement.met else "Missed"
    return f"{word}: the target loses {judgement.loss:.4f} against float, {judgement.allowance:.4f} allowed{least}."


def _node_document(item: JudgedNode) -> dict[str, object]:
    return {
        "node": item.node,
        "op": item.op,
        "origin": list(item.origin),
        "asked": _formats_document(item.asked),
        "outcome": item.outcome.value,
        "given": None if item.given is None else _formats_document(item.given),
        "place": None if item.place is None else str(item.place),
        "engine": None if item.engine is None else item.engine.value,
        "reason": item.reason,
    }


def _formats_document(formats: NodeFormats) -> dict[str, object]:
    return {
        "precision": formats.nearest.value,
        "reads": [_stored_document(item) for item in formats.reads],
        "makes": [_stored_document(item) for item in formats.makes],
        "weight": None if formats.weight is None else _stored_document(formats.weight),
        "bias": None if formats.bias is None else _stored_document(formats.bias),
    }


def _stored_document(item: StoredFormat) -> dict[str, object]:
    document: dict[str, object] = {"type": item.dtype.value, "bits": 8 * item.dtype.size_bytes}
    if item.quantized:
        document |= {
            "per_channel": item.per_channel,
            "symmetric": item.symmetric,
            "power_of_two": item.power_of_two,
            "zero_points": list(item.zero_points),
        }
    return document
