"""What the rounds of a search must reach, with how much of the allowed drop in hand."""

from __future__ import annotations

from dovetail.search.goal import Goal
from dovetail.search.oracle import Bar, Oracle
from dovetail.search.result import GateVerdict

_MARGINS = (0.5, 0.75, 1.0)
"""Shares of the allowed drop that the search keeps in hand: more when the hold-out does not agree."""

_NEARLY = 0.9375
"""The last share where float reaches the best score on every sample: none can win, and no loss at all is too much."""

_RESOLUTION = 2
"""Lost samples that the first round allows at least, where the goal does."""


def bars_of(goal: Goal, search: Oracle, verdict: GateVerdict) -> list[Bar]:
    """Return what the rounds of the search must reach, the least demanding first.

    A plan that nobody selected needs nothing in hand. When a split is small, samples that win by luck hide others
    that are lost, so that the last round counts losses only.
    """
    allowance = goal.allowance(search.float_score)
    bars = [Bar(allowance)] if verdict is GateVerdict.NOTHING_TO_DO else []
    # What is in hand must be measurable: on few samples half of a small drop is less than a sample or two.
    measurable = min(allowance, _RESOLUTION / search.sample_count)
    bars += [Bar(max(allowance * (1 - _MARGINS[0]), measurable))]
    margins = (*_MARGINS[:-1], _NEARLY) if search.is_perfect else _MARGINS
    bars += [Bar(allowance * (1 - margin)) for margin in margins]
    if search.has_samples:
        bars.append(Bar(allowance * (1 - _MARGINS[0]), losses_only=True))
    return list(dict.fromkeys(bars))
