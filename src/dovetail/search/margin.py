"""A margin: raise a little more than the samples demand, where they are too few to show that the goal is met.

A set that is as small as the samples allow fits these samples, and loses more on others. The units that drown most of
the outputs' signal go up too while that costs next to nothing; noise is a mean over many values, so that a few samples
tell it, and nothing is chosen by the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override
from dovetail.search.accept import Acceptance, loss_bound
from dovetail.search.hunt import Found, Hunt
from dovetail.search.oracle import Bar
from dovetail.search.proof import Prover
from dovetail.search.result import Margin

_MOST = 40
"""Units at most that are tried, the worst first: a person reads the list, and what comes after drowns little."""

_ROUNDS = 3
"""How often the units are gone through: what was too dear may be cheap once its neighbour is raised."""

_SHARES = (0.3, 0.6, 1.0)
"""Shares of the latency that may be spent which are tried in turn."""

_REASON = "raised for the margin: it drowns more of the outputs' signal than others, and hardly costs anything"


@dataclass(frozen=True, slots=True)
class Widened:
    """Hold a plan that may have got a margin, and what the hold-out split says of it."""

    acceptance: Acceptance
    found: Found
    margin: Margin | None
    """None where nothing is known of the bound: the metric has no score for each sample."""


@dataclass(frozen=True, slots=True)
class Widener:
    """Give plans a margin; `look` asks the hold-out split of a plan."""

    hunt: Hunt
    prover: Prover | None
    look: Callable[[Found], Acceptance]
    allowance: float

    def widen(self, acceptance: Acceptance, found: Found) -> Widened:
        """Return the plan with a margin where its loss may be beyond what is allowed, else as it was.

        It gets a margin if the hold-out split accepts it then, and fewer samples differ from float, or by less.
        """
        before, bound = acceptance.losses, loss_bound(acceptance.losses)
        if before is None or bound is None:
            return Widened(acceptance, found, None)
        plain = Margin(len(before), self.allowance, bound, bound)
        done = acceptance.accepted and plain.is_within
        if self.prover is None or done or not self._may_have_one(self.prover, found):
            return Widened(acceptance, found, plain)
        tried = {found.plan.digest}
        for share in _SHARES:
            wider = self._wider(self.prover, found, share * self.prover.options.margin)
            if wider is None or wider.plan.digest in tried:
                continue
            tried.add(wider.plan.digest)
            looked = self.look(wider)
            after, surer = looked.losses, loss_bound(looked.losses)
            # Not the bounds are compared: the plan was selected for a mean that looks good, but not for its spread.
            if looked.accepted and after is not None and surer is not None and after.std() < before.std():
                return Widened(looked, wider, replace(plain, bound=surer))
        return Widened(acceptance, found, plain)

    @staticmethod
    def _may_have_one(prover: Prover, found: Found) -> bool:
        return prover.options.margin > 0 and bool(found.raised) and found.within_limits and not found.margin

    def _wider(self, prover: Prover, found: Found, share: float) -> Found | None:
        """Return a plan that raises more, for a share of the latency, and passes; None where there is none."""
        before = {unit: item.placement for unit, item in found.raised.items()}
        more = affordable(prover, before, self.hunt.order_of_harm(), share)
        if not more:
            return None
        raised = {**found.raised, **{unit: Override(place, _REASON) for unit, place in more.items()}}
        if not self.hunt.judge(raised, Bar(self.allowance)).passed:
            return None
        plan = prover.space.plan(raised)
        proof = found.certificate
        if proof is not None:
            cost = prover.model.plan_cost(plan)
            proof = replace(proof, cost=cost, margin_ns=cost.latency_ns - proof.cost.latency_ns)
        latencies_ns = {**found.latencies_ns, plan.digest: prover.latency_ns({**before, **more})}
        trials = self.hunt.trials()
        return replace(
            found,
            plan=plan,
            raised=raised,
            trials=trials,
            certificate=proof,
            latencies_ns=latencies_ns,
            margin=frozenset(more),
        )


def affordable(
    prover: Prover, raised: Mapping[str, Placement], order: Sequence[str], share: float
) -> dict[str, Placement]:
    """Return what can be raised besides, by the first rung, within a share of the latency.

    `order` lists all units, the worst first. Raising one may make its neighbour cheaper, or free.
    """
    problem, priced = prover.priced.problem, prover.priced
    levels = list(priced.assignment(raised))
    left_ns = share * problem.cost(levels)
    rest = [unit for unit in order if unit not in raised][: _MOST if share > 0 else 0]
    more: dict[str, Placement] = {}
    for _ in range(_ROUNDS):
        for unit, number in zip(rest, priced.numbers(rest), strict=True):
            added_ns = problem.added_ns(levels, number, 1)
            if added_ns <= left_ns:
                more[unit] = prover.space.rung(unit, False)
                levels[number] = 1
                left_ns -= added_ns
        if len(rest) == len(rest := [unit for unit in rest if unit not in more]):
            break
    return more if more and prover.allows({**raised, **more}) else {}
