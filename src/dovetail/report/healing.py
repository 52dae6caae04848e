"""What was healed before anything was raised, as a table."""

from __future__ import annotations

import math
from dataclasses import replace

from dovetail.report.figures import number_text
from dovetail.report.page import Block, Prose, Table, left, right
from dovetail.search.result import Healing, RepairTrial


def directed_healing(healing: Healing | None, sign: float) -> Healing | None:
    """Return scores in the direction of the metric."""
    if healing is None:
        return None
    trials = tuple(
        replace(item, score=sign * item.score, score_without=sign * item.score_without) for item in healing.trials
    )
    healing = replace(
        healing,
        weights_alone=sign * healing.weights_alone,
        activations_alone=sign * healing.activations_alone,
    )
    return replace(healing, shipped=sign * healing.shipped, healed=sign * healing.healed, trials=trials)


def healing_block(healing: Healing, low: str) -> Block:
    """Return the repairs with the score of everything low without each, or a sentence where none helps."""
    refused = [f"Refused: {text}." for text in healing.refused]
    refused += [f"Not worth its latency: {text}." for text in healing.unpaid]
    gate = (
        f"With only weights at {low} it scores {_score(healing.weights_alone)}, with only activations "
        f"{_score(healing.activations_alone)}."
    )
    if not healing.trials:
        text = f"No repair makes everything at {low} score better than {_score(healing.shipped)}."
        return Prose("Repairs", (text, gate, *refused))
    columns = (left("repair"), left("float function"), right("tensors"), right("score without it"))
    rows = tuple((item.kind, item.exactness, str(item.sites), _score(item.score_without)) for item in healing.trials)
    note = (
        f"Everything at {low} scores {_score(healing.shipped)} as shipped and {_score(healing.healed)} with these "
        "repairs, on the search split."
    )
    paid = [_paid(item) for item in healing.trials if item.latency_ns is not None]
    return Table("Repairs", columns, rows, " ".join((note, gate, *paid, *refused)))


def _paid(trial: RepairTrial) -> str:
    """Return what a repair that costs latency saves."""
    assert trial.latency_ns is not None
    with_it = f"The plan takes {trial.latency_ns / 1e6:.4g} ms with {trial.kind}"
    if trial.latency_without_ns is None:
        return f"{with_it}; without it, not even everything raised is better than the goal by enough."
    return f"{with_it}, and {trial.latency_without_ns / 1e6:.4g} ms without it."


def _score(value: float) -> str:
    return number_text(value) if math.isfinite(value) else "cannot be tested"
