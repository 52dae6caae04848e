"""The gate: what the first few evaluations mean."""

from __future__ import annotations

from dovetail.errors import SearchError
from dovetail.search.context import SearchContext
from dovetail.search.goal import Goal
from dovetail.search.ledger import Ledger
from dovetail.search.result import GateCheck, GateVerdict


def check_gate(context: SearchContext, ledger: Ledger) -> tuple[GateVerdict, tuple[GateCheck, ...]]:
    """Judge everything low, everything one rung up, and low precision on the CPU.

    Raises SearchError when the float model itself misses the goal.
    """
    oracle, space, tolerance = context.evaluators.search, context.space, context.tolerance
    _refuse_unreachable(context.request.goal, oracle.float_score)
    everything = context.raised(context.space.units, top=False)
    low = ledger.judge({}, tolerance, later=[space.plan(everything)])
    checks = [GateCheck(f"everything at {space.low}", low)]
    if low.passed:
        return GateVerdict.NOTHING_TO_DO, tuple(checks)
    high = oracle.preview(space.plan(everything), tolerance.allowance)
    if not high.passed:
        high = ledger.judge(everything, tolerance)
    checks.append(GateCheck("everything one step up", high))
    if space.low_on_cpu is not None:
        trial = oracle.preview(space.low_on_cpu, tolerance.allowance, context.evaluators.exact)
        checks.append(GateCheck(f"everything at {space.low_on_cpu.default}", trial))
        if trial.passed:
            return GateVerdict.NPU_DIFFERS, tuple(checks)
    if high.passed:
        return GateVerdict.QUANTISATION_BREAKS, tuple(checks)
    ledger.starts_at_top = True
    return GateVerdict.SIXTEEN_BITS_FAIL, tuple(checks)


def _refuse_unreachable(goal: Goal, float_score: float) -> None:
    if goal.min_score is not None and abs(float_score) < goal.min_score:
        raise SearchError(
            f"target unreachable: the float model scores {abs(float_score):.4g}, below {goal.min_score:g}.",
            hint="Check the data, the labels and the preprocessing; or ask for a lower score.",
        )
