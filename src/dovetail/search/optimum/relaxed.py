"""Mixed 0/1 programmes by way of their relaxation: where that is whole by itself, there is nothing left to branch on.

Placements are almost minimum cuts, so that this is the rule. Where it is not, a good solution is looked for among what
the relaxation uses, and HiGHS only has to show that nothing is better: variables whose reduced cost alone exceeds
what is left between the two are out. Its own search for good solutions takes most of the time of a large programme.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix, vstack

from dovetail.ir.dtypes import AnyArray
from dovetail.search.policy import SolverPolicy

_WHOLE = 1e-6
_INFEASIBLE = 2


@dataclass(frozen=True, slots=True)
class MixedProgramme:
    """Minimise `cost @ x` where `low <= matrix @ x <= high` and `0 <= x <= upper`; `integer` variables are whole."""

    cost: AnyArray
    upper: AnyArray
    integer: AnyArray
    matrix: csr_matrix
    low: AnyArray
    high: AnyArray


@dataclass(frozen=True, slots=True)
class Solved:
    """A solution, None where there is none or none was found in time, and a proven lower bound.

    `proven` tells that nothing is below the solution, or that there is none at all.
    """

    x: AnyArray | None
    bound: float
    proven: bool


def solve_mixed(model: MixedProgramme, time_limit_s: float, policy: SolverPolicy) -> Solved:
    """Return the least solution, or what was found in time."""
    count = int(model.integer.sum())
    relaxed = _relax(model, time_limit_s) if count > policy.whole else None
    if relaxed is None:
        return _branch(model, time_limit_s)
    x, value, reduced = relaxed
    if (np.abs(x - np.round(x))[model.integer] < _WHOLE).all():
        return Solved(x, value, proven=True)
    near = _branch(_without(model, x < _WHOLE), time_limit_s) if count > policy.direct else None
    if near is None or near.x is None:
        return _branch(model, time_limit_s)
    reached = float(model.cost @ near.x)
    # Anything better by more than rounding has to be below this.
    most = reached - max(1e-7 * abs(reached), 5 * _WHOLE)
    better = _branch(_below(_without(model, reduced > reached - value + _WHOLE), most), time_limit_s)
    if better.x is None:
        return Solved(near.x, reached if better.proven else max(value, better.bound), better.proven)
    return better


def _relax(model: MixedProgramme, time_limit_s: float) -> tuple[AnyArray, float, AnyArray] | None:
    """Return the solution in fractions, its value and the reduced costs; None where there is none in time."""
    equal = model.low == model.high
    above, below = np.isfinite(model.high) & ~equal, np.isfinite(model.low) & ~equal
    result: Any = linprog(
        model.cost,
        A_ub=vstack([model.matrix[above], -model.matrix[below]]).tocsr(),
        b_ub=np.concatenate([model.high[above], -model.low[below]]),
        A_eq=model.matrix[equal],
        b_eq=model.low[equal],
        bounds=np.column_stack([np.zeros(len(model.upper)), model.upper]),
        method="highs",
        options={"time_limit": time_limit_s},
    )
    return (result.x, float(result.fun), result.lower.marginals) if result.status == 0 else None


def _without(model: MixedProgramme, out: AnyArray) -> MixedProgramme:
    """Return the programme with some of the integer variables at 0."""
    return replace(model, upper=np.where(model.integer & out, 0.0, model.upper))


def _below(model: MixedProgramme, most: float) -> MixedProgramme:
    """Return the programme of what costs less."""
    matrix = vstack([model.matrix, csr_matrix(model.cost[None])]).tocsr()
    return replace(model, matrix=matrix, low=np.append(model.low, -math.inf), high=np.append(model.high, most))


def _branch(model: MixedProgramme, time_limit_s: float) -> Solved:
    result: Any = milp(
        model.cost,
        integrality=model.integer.astype(np.int64),
        bounds=Bounds(0.0, model.upper),
        constraints=LinearConstraint(model.matrix, model.low, model.high),
        options={"mip_rel_gap": 1e-9, "time_limit": time_limit_s},
    )
    bound = -math.inf if result.mip_dual_bound is None else float(result.mip_dual_bound)
    if result.x is None:
        return Solved(None, bound, result.status == _INFEASIBLE)
    value = float(model.cost @ result.x)
    return Solved(result.x, value if result.status == 0 else min(bound, value), result.status == 0)
