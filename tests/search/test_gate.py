"""What the first evaluations mean."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dovetail.errors import SearchError
from dovetail.plan import Plan, parse_placement
from dovetail.search import GateVerdict, Goal
from dovetail.search.gate import check_gate

from .stages import WIDE, Loss, Setting, open_stages
from .test_culprits import chain

LOW = parse_placement("vsi:v853@u8")


def _gate(loss: Loss, on_cpu: float = 1.0) -> GateVerdict:
    context, ledger = open_stages(
        Setting(chain(3), loss, exact_loss=lambda plan, indices: on_cpu, low=LOW, priced=False)
    )
    verdict, checks = check_gate(context, ledger)
    assert checks[0].name == "everything at vsi:v853@u8"
    return verdict


def _is_low(plan: Plan) -> bool:
    return plan.default == LOW and not plan.overrides


def test_low_precision_that_is_good_enough() -> None:
    assert _gate(lambda plan, indices: 0.05) is GateVerdict.NOTHING_TO_DO


def test_low_precision_that_fails_where_sixteen_bits_do_not() -> None:
    assert _gate(lambda plan, indices: 0.5 if _is_low(plan) else 0.0) is GateVerdict.QUANTISATION_BREAKS


def test_sixteen_bits_that_fail_too() -> None:
    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return 0.5 if _is_low(plan) or {item.placement for item in plan.overrides.values()} == {WIDE} else 0.0

    assert _gate(loss) is GateVerdict.SIXTEEN_BITS_FAIL


def test_low_precision_that_fails_on_the_npu_only() -> None:
    assert _gate(lambda plan, indices: 0.5 if _is_low(plan) else 0.0, on_cpu=0.0) is GateVerdict.NPU_DIFFERS


def test_a_float_model_below_the_score_that_is_asked_for() -> None:
    context, ledger = open_stages(Setting(chain(3), lambda plan, indices: 0.0, goal=Goal(0.1, min_score=1.5)))
    with pytest.raises(SearchError, match=r"target unreachable: the float model scores 1, below 1\.5"):
        check_gate(context, ledger)
