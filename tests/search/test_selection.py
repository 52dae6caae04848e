"""Selection: which plans are looked at, and which of them is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dovetail.ir import AnyArray
from dovetail.plan import Limits, Plan, Recipe
from dovetail.plan.repairs import RepairRecord
from dovetail.search import Goal, Verdict
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.prior import UnitPrior
from dovetail.search.selection import Selection, select
from dovetail.testing.networks import Network

from .stages import FLOAT, LOW, WIDE, Loss, Setting, convolutions, open_stages
from .test_acceptance import lost
from .test_culprits import chain

SEARCHED, HELD = 122, 82


def _each(losses: Mapping[str, AnyArray]) -> Loss:
    """Return a loss of the samples that any low unit loses."""

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        low = [values for unit, values in losses.items() if plan.placement(unit) == LOW]
        return np.max([np.zeros(SEARCHED + HELD), *low], axis=0)[list(indices)]

    return loss


def _both(searched: int, held: int) -> AnyArray:
    return np.concatenate([lost(searched, SEARCHED), lost(held, HELD)])


def _select(loss: Loss, goal: Goal | None = None, **setting: object) -> tuple[Selection, SearchContext, Ledger]:
    context, ledger = open_stages(
        Setting(convolutions(6), loss, goal=goal or Goal(0.05), searched=SEARCHED, held=HELD, **setting)  # type: ignore[arg-type]
    )
    return select(context, ledger), context, ledger


def test_what_meets_the_goal_with_nothing_raised_stays_so() -> None:
    """The hold-out alone is at the very edge of what is allowed, and no dearer plan is looked for."""
    selection, _, ledger = _select(_each({"n1": _both(4, 4)}))
    assert selection.answer.raised == {}
    assert selection.answer.verdict is Verdict.LIKELY
    assert len(ledger.judged) == 1


def test_noise_of_one_split_is_not_paid_for() -> None:
    """The search split alone is beyond the goal by two samples; both together are not."""
    selection, _, _ = _select(_each({"n1": _both(8, 1)}))
    assert selection.answer.raised == {}
    assert selection.answer.verdict is Verdict.LIKELY


def test_harm_is_paid_for() -> None:
    selection, _, ledger = _select(_each({"n1": _both(40, 27)}), priced=False)
    assert set(selection.answer.raised) == {"n1"}
    assert selection.answer.verdict is Verdict.LIKELY
    assert len(ledger.judged) == 2


def test_a_plan_that_is_not_shown_to_be_better_is_not_the_answer() -> None:
    """The low plan misses by a sample; the dearer one wins two back on the hold-out, for half as much latency again."""
    losses = _each(dict.fromkeys((f"n{index}" for index in range(6)), _both(9, 2)))
    selection, _, ledger = _select(losses)
    assert [item.verdict for item in ledger.judged.values()] == [Verdict.MISSED, Verdict.LIKELY]
    assert selection.answer.raised == {}
    assert selection.answer.verdict is Verdict.MISSED
    assert not selection.answer.assessment.surely_missed


def test_a_look_that_refuses_teaches_how_much_better_the_next_plan_has_to_be() -> None:
    """Raising n1 is enough on the search split; the hold-out shows what n2 loses on samples that it has not."""
    harm = {"n1": _both(40, 27), "n2": _both(2, 9)}
    selection, _, ledger = _select(_each(harm), priced=False)
    assert set(selection.answer.raised) == {"n1", "n2"}
    assert selection.answer.verdict is Verdict.LIKELY
    assert [set(item.raised) for item in ledger.judged.values()] == [set(), {"n1"}, {"n1", "n2"}]


def test_the_hold_out_has_a_budget_of_looks() -> None:
    """Whatever is raised, the hold-out loses a tenth, and the search split less with every unit."""

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        low = sum(plan.placement(f"n{index}") == LOW for index in range(12))
        searched = lost(low, SEARCHED)
        return np.concatenate([searched, lost(8, HELD)])[list(indices)]

    context, ledger = open_stages(Setting(chain(12), loss, goal=Goal(0.05), searched=SEARCHED, held=HELD, priced=False))
    answer = select(context, ledger).answer
    assert answer.verdict is Verdict.MISSED
    low, whole = (context.candidate(raised).plan.digest for raised in ({}, context.raised(context.order, top=False)))
    assert len({*ledger.judged} - {low, whole}) <= context.policy.acceptance.looks


def test_where_the_search_split_shows_no_loss_everything_raised_is_looked_at() -> None:
    """Nothing says what breaks; that more bits heal what the hold-out loses, it shows itself."""
    selection, _, ledger = _select(_each({"n1": _both(0, 9), "n2": _both(0, 9)}), goal=Goal(0.02))
    assert len(selection.answer.raised) == 6
    assert selection.answer.verdict is Verdict.LIKELY
    assert len(ledger.judged) == 2


def _amplitudes(of: Mapping[str, float]) -> Loss:
    """Return by how much outputs are off, on every sample: the root of the sum of the powers of what is low."""
    return lambda plan, indices: float(
        np.sqrt(sum(much**2 for unit, much in of.items() if plan.placement(unit) == LOW))
    )


# Of what everything low makes, 0.18 of the amplitude may be left, 0.033 of the power: n1 is not enough, and n2 is.
_SHARES = {"n1": 0.9, "n2": 0.08} | dict.fromkeys(("n0", "n3", "n4", "n5"), 0.005)
_NOISE = {unit: 0.2 * share**0.5 for unit, share in _SHARES.items()}
_HELD = {"n1": _both(0, 9), "n2": _both(0, 9)}


def test_between_nothing_and_everything_a_plan_that_is_quiet_enough_is_looked_at() -> None:
    """The search split loses nothing, but its outputs show what makes noise; the hold-out is not asked for that."""
    asked: set[int] = set()

    def noise(plan: Plan, indices: Sequence[int]) -> float:
        asked.update(indices)
        return float(np.asarray(_amplitudes(_NOISE)(plan, indices)))

    selection, _, ledger = _select(_each(_HELD), goal=Goal(0.02), noise=noise)
    assert set(selection.answer.raised) == {"n1", "n2"}
    assert selection.answer.verdict is Verdict.LIKELY
    assert [len(item.raised) for item in ledger.judged.values()] == [0, 6, 2]
    assert asked
    assert max(asked) < SEARCHED
    proof = selection.answer.certificate
    assert proof is not None
    assert not proof.complete
    assert proof.lower_bound_ns == proof.low_ns < proof.cost.latency_ns


@pytest.mark.parametrize("lost", [2, 9])
def test_a_quiet_plan_that_misses_leaves_the_answer_as_it_was(lost: int) -> None:
    """What decides makes next to no noise: on the two samples that are one more than may be, or on many."""
    losses = _each(_HELD | {"n3": _both(0, lost)})
    selection, _, ledger = _select(losses, goal=Goal(0.02), noise=_amplitudes(_NOISE))
    assert len(selection.answer.raised) == 6
    assert selection.answer.verdict is Verdict.LIKELY
    assert [len(item.raised) for item in ledger.judged.values()] == [0, 6, 2]


def test_a_quiet_plan_that_the_search_split_refuses_is_not_looked_at() -> None:
    losses = _each(_HELD | {"n3": _both(20, 0)})
    selection, _, ledger = _select(losses, goal=Goal(0.02), noise=_amplitudes(_NOISE))
    assert len(selection.answer.raised) == 6
    assert [set(item.raised) for item in ledger.judged.values()][:2] == [set(), {"n3"}]
    assert {"n1", "n2"} not in [set(item.raised) for item in ledger.judged.values()]


def test_a_quiet_plan_that_saves_next_to_nothing_is_not_looked_at() -> None:
    """All but the smallest unit make noise."""
    net = Network(1)
    last = net.input("x", 1, 32, 28, 28)
    for channels in (32, 32, 32, 1):
        last = net.conv(last, channels, 3 if channels > 1 else 1)
    noise = dict.fromkeys(("n0", "n1", "n2"), 0.1) | {"n3": 0.001}
    setting = Setting(net.graph(last), _each(_HELD), goal=Goal(0.02), searched=SEARCHED, held=HELD)
    context, ledger = open_stages(replace(setting, noise=_amplitudes(noise)))
    answer = select(context, ledger).answer
    assert len(answer.raised) == 4
    assert len(ledger.judged) == 2


def test_no_quiet_plan_is_looked_for_when_time_is_up() -> None:
    """Nor is noise measured, which takes an evaluation for every unit."""
    measured: list[int] = []

    def noise(plan: Plan, indices: Sequence[int]) -> float:
        measured.append(1)
        return 0.1

    selection, _, ledger = _select(_each(_HELD), goal=Goal(0.02), noise=noise, time_limit_s=1e-9)
    assert len(selection.answer.raised) == 6
    assert not measured
    assert "a quieter plan than everything raised" in ledger.untried


def test_everything_raised_is_not_the_answer_for_a_sample_or_two() -> None:
    """Two samples of 204 are lost where one may be: that can be chance, and half as much latency again is not."""
    selection, _, ledger = _select(_each({"n1": _both(0, 2), "n2": _both(0, 2)}), goal=Goal(0.009))
    assert selection.answer.raised == {}
    assert selection.answer.verdict is Verdict.MISSED
    assert [len(item.raised) for item in ledger.judged.values()] == [0, 6]
    assert selection.surer is not None
    assert len(selection.surer.raised) == 6
    assert selection.surer.verdict is Verdict.LIKELY


def test_everything_raised_is_not_looked_at_where_it_heals_nothing_on_the_search_split() -> None:
    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        return np.full(SEARCHED + HELD, 0.2)[list(indices)]

    selection, context, ledger = _select(loss, priced=False)
    assert selection.answer.verdict is Verdict.MISSED
    assert context.candidate(context.raised(context.order, top=False)).plan.digest not in ledger.judged


def test_what_only_the_last_rung_cures_goes_there() -> None:
    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return 0.0 if plan.placement("n1") == FLOAT else 0.5

    selection, _, _ = _select(loss, priced=False)
    assert selection.answer.placements == {"n1": FLOAT}
    assert selection.answer.verdict.is_within


def test_the_cpu_is_not_climbed_to_for_the_reserve_alone() -> None:
    """With sixteen bits everywhere 0.04 is lost, which the goal allows."""

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return {LOW: 0.5, WIDE: 0.04, FLOAT: 0.0}[plan.placement("n1")]

    selection, _, _ = _select(loss, priced=False)
    assert selection.answer.placements == {"n1": WIDE}


@pytest.mark.parametrize(("latency_ns", "keeps"), [(1e12, True), (1.0, False)])
def test_what_cannot_be_within_the_limits_misses(latency_ns: float, keeps: bool) -> None:
    wishes = Recipe(LOW, (WIDE,), limits=Limits(latency_ns=latency_ns))
    selection, _, _ = _select(_each({"n1": _both(40, 27)}), wishes=wishes)
    assert selection.answer.within_limits is keeps
    assert selection.answer.verdict.is_within is keeps
    if not keeps:
        assert str(selection.answer.assessment) == "missed: no plan within the limits meets the target"


def _sure(goal: Goal) -> Selection:
    """Return what is selected where n1 breaks everything and n2 loses 3 % of 400 samples, of which 5 % are allowed."""
    losses = {"n1": lost(200, 400), "n2": lost(12, 400)}

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        low = [values for unit, values in losses.items() if plan.placement(unit) == LOW]
        return np.max([np.zeros(400), *low], axis=0)[[index % 400 for index in indices]]

    # What is suspected first was tried together with what breaks.
    prior = [UnitPrior(f"n{index}", 1.0, "planted") for index in (2, 1, 0, 3, 4, 5)]
    context, ledger = open_stages(
        Setting(convolutions(6), loss, goal=goal, searched=400, held=400, priced=False, prior=prior)
    )
    return select(context, ledger)


def test_beside_a_plan_that_only_likely_meets_the_goal_is_the_one_that_surely_does() -> None:
    selection = _sure(Goal(0.05))
    assert set(selection.answer.raised) == {"n1"}
    assert selection.answer.verdict is Verdict.LIKELY
    assert selection.surer is not None
    assert selection.surer.verdict is Verdict.MET
    assert len(selection.surer.raised) > 1


def test_who_wants_to_be_sure_gets_the_plan_that_surely_meets_the_goal() -> None:
    selection = _sure(Goal(0.05, sure=True))
    assert selection.answer.verdict is Verdict.MET
    assert set(selection.answer.raised) == {"n1", "n2"}
    assert selection.surer is None


def test_when_the_budget_is_spent_only_what_was_tried_is_looked_at_again() -> None:
    harm = {"n1": _both(40, 27), "n2": _both(2, 9)}
    _, _, plenty = _select(_each(harm), priced=False)
    _, _, spent = _select(_each(harm), priced=False, max_plans=4)
    assert len(spent.trials) < len(plenty.trials)


def test_of_plans_that_all_miss_the_one_that_is_shown_to_be_better_is_the_answer() -> None:
    """With few samples the low plan may be unlucky; the dearer one loses on the hold-out what nothing heals."""
    harm = np.resize([0.4, -0.4, 0.5, 0.5], 20)

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        rest = np.where(np.asarray(indices) < 12, 0.0, 0.06)
        return np.where(plan.placement("n1") == LOW, harm[list(indices)], rest)

    setting = Setting(convolutions(6), loss, goal=Goal(0.01), searched=12, held=8, best=0.5, priced=False)
    context, ledger = open_stages(setting)
    selection = select(context, ledger)
    assert not next(iter(ledger.judged.values())).assessment.surely_missed
    assert "n1" in selection.answer.raised
    assert selection.answer.verdict is Verdict.MISSED


def test_twenty_samples_are_enough_to_leave_a_plan_that_is_far_off() -> None:
    """No bound can say that the low plan misses; it does by several standard errors, and a dearer one does not."""
    harm = 0.06 * np.resize([0.0, 0.0, 0.0, 2.0, 3.0], 20)

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        return harm[list(indices)] * any(plan.placement(f"n{index}") == LOW for index in range(6))

    context, ledger = open_stages(Setting(convolutions(6), loss, goal=Goal(0.02), searched=12, held=8))
    answer = select(context, ledger).answer
    low = next(item for item in ledger.judged.values() if not item.raised)
    assert low.verdict is Verdict.MISSED
    assert not low.assessment.surely_missed
    assert len(answer.raised) == 6
    assert answer.verdict is Verdict.LIKELY


@pytest.mark.parametrize(("lost_of_all", "raises"), [(4, False), (12, True)])
def test_everything_raised_is_the_answer_only_where_the_cheaper_plan_is_seen_to_miss(
    lost_of_all: int, raises: bool
) -> None:
    """Everything raised loses nothing, which is soon shown; whether 3.3 % are lost where 3 % are allowed is not."""
    harm = np.tile(lost(lost_of_all, 120), 2)

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        return harm[list(indices)] * any(plan.placement(f"n{index}") == LOW for index in range(6))

    context, ledger = open_stages(Setting(convolutions(6), loss, goal=Goal(0.03), searched=120, held=120))
    assert (len(select(context, ledger).answer.raised) == 6) is raises


def test_a_low_plan_whose_repairs_were_selected_is_seen_to_miss_by_the_hold_out() -> None:
    """Repairs that the search split chose lose nothing there, and say nothing for the plan."""
    harm = np.concatenate([np.zeros(120), lost(10, 120)])

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        return harm[list(indices)] * any(plan.placement(f"n{index}") == LOW for index in range(6))

    context, ledger = open_stages(Setting(convolutions(6), loss, goal=Goal(0.05), searched=120, held=120, priced=False))
    healed = replace(context, request=replace(context.request, repairs=(RepairRecord("equalise", {}),)))
    assert len(select(healed, ledger).answer.raised) == 6


def _suspecting(first: str) -> list[UnitPrior]:
    """Return a prior of six units that suspects one of them most."""
    names = sorted((f"n{index}" for index in range(6)), key=lambda name: name != first)
    return [UnitPrior(name, 1.0, "planted") for name in names]


@pytest.mark.parametrize("rest", [0.001, 0.003])
def test_what_is_dearer_and_hardly_nearer_the_goal_is_not_the_answer(rest: float) -> None:
    """n1 does the harm, the others next to none, and the hold-out loses what nothing heals.

    With 0.003 from each of the others n1 alone misses the goal on the search split, so that all are raised.
    """
    others = [f"n{index}" for index in range(6) if index != 1]

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        low = sum(plan.placement(unit) == LOW for unit in others)
        held = 0.05 + 0.0001 * low
        losses = np.where(np.asarray(indices) < SEARCHED, rest * low, held)
        return losses + 0.5 * (plan.placement("n1") == LOW)

    selection, _, ledger = _select(loss, goal=Goal(0.01), prior=_suspecting("n1"))
    assert selection.answer.verdict is Verdict.MISSED
    assert set(selection.answer.raised) == {"n1"}
    assert any(len(item.raised) > 1 for item in ledger.judged.values())


def test_a_cheaper_plan_is_named_beside_an_answer_that_misses() -> None:
    """All raised leave a third of what n1 alone leaves beyond the goal, and take less than three times as long."""
    others = [f"n{index}" for index in range(6) if index != 1]

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        low = sum(plan.placement(unit) == LOW for unit in others)
        losses = np.where(np.asarray(indices) < SEARCHED, 0.003 * low, 0.02 + 0.01 * low)
        return losses + 0.5 * (plan.placement("n1") == LOW)

    selection, _, _ = _select(loss, goal=Goal(0.01), prior=_suspecting("n1"))
    assert selection.answer.verdict is Verdict.MISSED
    assert len(selection.answer.raised) > 1
    assert any(remark.startswith("1 raised unit takes ") for remark in selection.answer.remarks)


def test_a_cheaper_plan_that_loses_more_than_low_is_not_named() -> None:
    """The samples that search take n1 alone for a remedy; on the hold-out it loses more than nothing raised."""
    others = [f"n{index}" for index in range(6) if index != 1]

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        low = sum(plan.placement(unit) == LOW for unit in others)
        harmed = plan.placement("n1") == LOW
        held = 0.6 if low == len(others) and not harmed else 0.02 + 0.01 * low + 0.5 * harmed
        return np.where(np.asarray(indices) < SEARCHED, 0.003 * low + 0.5 * harmed, held)

    selection, _, ledger = _select(loss, goal=Goal(0.01), prior=_suspecting("n1"))
    assert selection.answer.verdict is Verdict.MISSED
    assert {frozenset(item.raised) for item in ledger.judged.values()} > {frozenset(), frozenset({"n1"})}
    assert not any("raised unit" in remark for remark in selection.answer.remarks)
