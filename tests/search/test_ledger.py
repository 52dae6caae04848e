"""The ledger tells idle workers what it may be asked next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from dovetail.plan import Plan
from dovetail.search.ledger import Ledger, Variants
from dovetail.search.oracle import Oracle, Split
from dovetail.search.strategy import shortest_prefix

from .stages import WIDE, Setting, open_stages
from .test_culprits import LOW, chain, needs


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (2, 2), (4, 4)])
def test_as_many_plans_are_announced_as_there_are_workers(workers: int, most: int) -> None:
    context, _ = open_stages(Setting(chain(16), needs({"n9"}, WIDE), low=LOW, priced=False))
    announced: list[int] = []

    class Wide(Oracle):
        @property
        def width(self) -> int:
            return workers

        def expect(self, plans: Sequence[Plan]) -> None:
            announced.append(len(plans))

    split = Split("search", context.search.indices)
    context = replace(context, search=Wide(context.fast, split, context.space.float_plan, context.policy.race))
    order = list(context.order)
    announced.clear()
    variants = Variants(context.raised(order, top=False))
    found = Ledger(context).follow(partial(shortest_prefix, order), variants, context.tolerance)
    assert found == 1 + order.index("n9")
    assert max(announced) == most
