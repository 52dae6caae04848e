"""The ledger tells idle workers what it may be asked next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from dovetail.plan import Plan
from dovetail.search.context import SearchContext
from dovetail.search.fanout.foresight import Strategy, foresee
from dovetail.search.ledger import Ledger, Variants
from dovetail.search.oracle import Oracle, Split
from dovetail.search.strategy import minimise, shortest_prefix
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status

from .stages import WIDE, Loss, Setting, open_stages
from .test_culprits import LOW, chain, needs


def _ledger(loss: Loss, searched: int = 30) -> tuple[SearchContext, Ledger]:
    return open_stages(Setting(chain(4), loss, low=LOW, priced=False, searched=searched))


def _fewer(plan: Plan, indices: Sequence[int]) -> float:
    """Lose less, the more is raised."""
    return 0.4 / (1 + len(plan.overrides))


def test_of_two_verdicts_on_a_plan_the_one_on_all_samples_is_kept() -> None:
    context, ledger = _ledger(lambda plan, indices: 0.5, searched=400)
    raised = context.raised(["n1"], top=False)
    early = ledger.judge(raised, Tolerance(0.01))
    assert not early.complete
    assert ledger.trials == (early,)
    other = ledger.judge(raised, Tolerance(0.4))
    assert not other.complete
    assert other.samples > early.samples
    assert ledger.trials == (other,)
    whole = ledger.judge(raised, Tolerance(0.6))
    assert whole.complete
    assert ledger.trials == (whole,)
    ledger.judge(raised, Tolerance(0.02))
    assert ledger.trials == (whole,)


def test_a_plan_is_judged_once_at_a_tolerance() -> None:
    context, ledger = _ledger(_fewer)
    raised = context.raised(["n1"], top=False)
    assert ledger.judge(raised, Tolerance(0.3)) is ledger.judge(raised, Tolerance(0.3))
    assert ledger.judge(raised, Tolerance(0.3)) is not ledger.judge(raised, Tolerance(0.1))


def test_verdicts_are_those_at_a_tolerance_with_what_is_raised() -> None:
    context, ledger = _ledger(_fewer)
    one, two = (context.raised(units, top=False) for units in (["n1"], ["n1", "n2"]))
    for raised, tolerance in ((one, 0.3), (two, 0.3), (one, 0.1)):
        ledger.judge(raised, Tolerance(tolerance))
    verdicts = [(raised, trial.status) for raised, trial in ledger.verdicts(Tolerance(0.3))]
    assert verdicts == [({"n1": WIDE}, Status.PASS), ({"n1": WIDE, "n2": WIDE}, Status.PASS)]
    assert [trial.status for _, trial in ledger.verdicts(Tolerance(0.1))] == [Status.FAIL]
    assert ledger.verdicts(Tolerance(0.2)) == []


def test_the_last_tolerance_that_a_plan_met_is_its_own() -> None:
    context, ledger = _ledger(_fewer)
    one, two = (context.raised(units, top=False) for units in (["n1"], ["n1", "n2"]))
    plans = [context.space.plan(raised) for raised in (one, two)]
    assert ledger.last_met(plans[0]) is None
    for tolerance in (0.9, 0.3, 0.25, 0.15):
        ledger.judge(one, Tolerance(tolerance))
    ledger.judge(two, Tolerance(0.18))
    ledger.judge(two, Tolerance(0.01))
    assert [ledger.last_met(plan) for plan in plans] == [Tolerance(0.25), Tolerance(0.18)]
    assert ledger.last_met(context.space.plan({})) is None


def test_nothing_raised_is_no_answer_to_what_raises_fewest() -> None:
    """That nothing has to be raised was seen before."""
    context, ledger = _ledger(_fewer)
    for units in ([], ["n1", "n2"], ["n1"]):
        ledger.judge(context.raised(units, top=False), Tolerance(0.5))
    fewest = ledger.fewest_raised(Tolerance(0.5))
    assert fewest is not None
    assert list(fewest) == ["n1"]


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
