"""Proposals: in which order candidates go to the hold-out split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from dovetail.plan import Plan
from dovetail.search.proposals import propose
from dovetail.search.tolerance import Tolerance

from .stages import FLOAT, Setting, open_stages
from .test_culprits import LOW, chain


def test_where_only_the_last_rung_helps_the_strictest_round_is_still_the_first() -> None:
    """Of what two units lose 0.27, only floats win it back, and a loss of 0.07 is within the goal."""
    lost = {"n1": 0.2, "n3": 0.07}

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return sum(amount for unit, amount in lost.items() if plan.placement(unit) != FLOAT)

    context, ledger = open_stages(Setting(chain(5), loss, low=LOW, priced=False))
    candidates = propose(context, ledger, [Tolerance(0.05), Tolerance(0.08)])
    first, second = islice(candidates, 2)
    assert first.placements == {"n1": FLOAT, "n3": FLOAT}
    assert second.placements == {"n1": FLOAT}
