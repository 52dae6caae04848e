"""The gate: what the first few evaluations mean."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import SearchError
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.goal import Goal
from dovetail.search.ledger import Ledger
from dovetail.search.result import Gate, GateCheck, GateVerdict


def check_gate(context: SearchContext, ledger: Ledger) -> Gate:
    """Judge everything low; where that fails, compare it with everything one rung up and with the CPU at low precision.

    The comparison is in exact simulation, on the same first samples of the search split. Raises SearchError when the
    float model itself misses the goal.
    """
    oracle, space, tolerance = context.search, context.space, context.tolerance
    _refuse_unreachable(context.request.goal, oracle.float_score)
    raised = context.raised(space.units, top=False)
    higher, rung = space.plan(raised), _rung(context)
    low = ledger.judge({}, tolerance, later=[higher])
    checks = [GateCheck(f"everything at {space.low}, fast simulation", low)]
    if low.passed:
        text = f"nothing to do: everything at {space.low} meets the goal"
        return Gate(GateVerdict.NOTHING_TO_DO, text, tuple(checks))
    plans = {"low": (str(space.low), space.base), "high": (rung, higher)}
    if space.low_on_cpu is not None:
        plans["cpu"] = str(space.low_on_cpu.default), space.low_on_cpu
    exact = context.exact
    compared = {key: oracle.preview(plan, tolerance, exact) for key, (_, plan) in plans.items()}
    checks += [GateCheck(f"everything at {name}, exact", compared[key]) for key, (name, _) in plans.items()]
    high = compared["high"]
    if not high.passed:
        # A few samples are a hint; that the rung is not worth trying is for all of them to say.
        high = ledger.judge(raised, tolerance)
        checks.append(GateCheck(f"everything at {rung}, fast simulation", high))
    ledger.starts_at_top = not high.passed
    verdict = GateVerdict.QUANTISATION_BREAKS
    text = f"bad quantisation: everything at {space.low} fails, at {rung} it passes"
    if "cpu" in compared and compared["cpu"].passed and not compared["low"].passed:
        verdict = GateVerdict.NPU_DIFFERS
        text = f"in simulation: the CPU's {space.low.precision.value} passes, the NPU's arithmetic does not"
    elif ledger.starts_at_top:
        verdict, text = GateVerdict.FIRST_RUNG_FAILS, f"everything at {rung} fails"
    return Gate(verdict, text, tuple(checks))


def revise_gate(gate: Gate, context: SearchContext, ledger: Ledger, candidate: Candidate) -> Gate:
    """Return the gate in the light of the whole search: companions are raised where nothing breaks too."""
    culprits, low = candidate.raised.keys() - candidate.companions, context.space.low
    if not culprits and candidate.verdict.is_within:
        return replace(
            gate, verdict=GateVerdict.NOTHING_TO_DO, text=f"nothing to do: everything at {low} meets the goal"
        )
    if gate.verdict is GateVerdict.NOTHING_TO_DO:
        text = f"bad quantisation: everything at {low} passes on the search split, not with the hold-out"
        gate = replace(gate, verdict=GateVerdict.QUANTISATION_BREAKS, text=text)
    if gate.verdict is GateVerdict.QUANTISATION_BREAKS and ledger.starts_at_top:
        text = f"everything at {_rung(context)} passes on the first samples, not on all"
        gate = replace(gate, verdict=GateVerdict.FIRST_RUNG_FAILS, text=text)
    return gate


def _rung(context: SearchContext) -> str:
    """Return the name of the first rung; a unit that it refuses goes to the next."""
    first = dict.fromkeys(str(context.space.rung(unit, False)) for unit in context.space.units)
    return " or ".join(first)


def _refuse_unreachable(goal: Goal, float_score: float) -> None:
    if goal.min_score is not None and abs(float_score) < goal.min_score:
        raise SearchError(
            f"target unreachable: the float model scores {abs(float_score):.4g}, below {goal.min_score:g}.",
            hint="Check the data, the labels and the preprocessing; or ask for a lower score.",
            option="min_score",
        )
