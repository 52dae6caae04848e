"""The ledger tells idle workers what it may be asked next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from dovetail.plan import Plan
from dovetail.search.fanout.foresight import Strategy, foresee
from dovetail.search.ledger import Ledger, Variants
from dovetail.search.oracle import Oracle, Split
from dovetail.search.strategy import minimise, shortest_prefix
from dovetail.search.trial import Status

from .stages import WIDE, Setting, open_stages
from .test_culprits import LOW, chain, needs


def test_a_verdict_is_as_likely_as_those_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Laplace's rule: one pass and one failure are added to what is known."""
    context, _ = open_stages(Setting(chain(16), needs({"n9", "n3"}, WIDE), low=LOW, priced=False))
    chances: list[tuple[float, int, int]] = []

    def counted(
        strategy: Strategy, known: Mapping[frozenset[str], Status], chance: float, most: int
    ) -> list[frozenset[str]]:
        chances.append((chance, sum(status is Status.PASS for status in known.values()), len(known)))
        return foresee(strategy, known, chance, most)

    class Wide(Oracle):
        @property
        def width(self) -> int:
            return 2

    monkeypatch.setattr("dovetail.search.ledger.foresee", counted)
    split = Split("search", context.search.indices)
    context = replace(context, search=Wide(context.fast, split, context.space.float_plan, context.policy.race))
    variants = Variants(context.raised(context.order, top=False))
    Ledger(context).follow(partial(minimise, context.order, first=4), variants, context.tolerance)
    assert [known for _, _, known in chances] == list(range(len(chances)))
    assert {passes for _, passes, _ in chances} >= {0, 1, 2, 3}
    assert all(chance == (1 + passes) / (2 + known) for chance, passes, known in chances)


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
