"""Stages of a search around an evaluator whose scores are planted: a real context and ledger, no simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.compare.task import callable_metric
from dovetail.data import Sample, Splits
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Placement, Plan, Recipe, parse_placement
from dovetail.plan.demands import ToolDemands
from dovetail.quantize import calibrate
from dovetail.search import CostOptions, Goal, Journal, SearchPolicy, TuneOptions, TuneRequest
from dovetail.search.context import SearchContext, SearchMemory
from dovetail.search.ledger import Ledger
from dovetail.search.log import SearchLog
from dovetail.search.oracle import Oracle, Split
from dovetail.search.prior import UnitPrior, rank_units
from dovetail.search.proof import make_prover
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.request import SilentSearch
from dovetail.search.space import SpaceOptions, make_space
from dovetail.search.trial import Scores
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

LOW, WIDE, FLOAT = (parse_placement(text) for text in ("vsi:v853@i8pc", "vsi:v853@i16", "cpu@fp32"))

Loss = Callable[[Plan, Sequence[int]], float | AnyArray]
"""What a plan loses on samples: for each of them, or the same for all."""


class PlantedEvaluator:
    """Score the best on every sample, but for what a plan loses, and list what is evaluated."""

    identity = "planted"

    def __init__(self, loss: Loss, best: float | AnyArray = 1.0, set_level: bool = False, noise: Loss | None = None):
        self._loss, self._best, self._set_level, self._noise = loss, best, set_level, noise or loss
        self.evaluated: list[str] = []

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        self.evaluated.append(plan.digest)
        lost = 0.0 if plan.default == FLOAT else self._loss(plan, indices)
        best = np.asarray(self._best)
        scores = (best[list(indices)] if best.ndim else np.full(len(indices), self._best)) - lost
        return Scores(float(scores.mean()), None if self._set_level else scores)

    def outputs(self, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        lost = 0.0 if plan.default == FLOAT else np.broadcast_to(self._noise(plan, indices), len(indices))
        return {"y": np.ones((len(indices), 2)) + np.reshape(lost, (-1, 1))}

    def golden(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        return {"y": np.ones((len(indices), 2))}


@dataclass(frozen=True)
class Setting:
    """What a planted search is like: it has `searched` samples, and then `held` ones."""

    graph: Graph
    loss: Loss
    exact_loss: Loss | None = None
    low: Placement = LOW
    ladder: tuple[Placement, ...] = (WIDE,)
    goal: Goal = Goal(0.1)  # noqa: RUF009
    searched: int = 30
    held: int = 30
    priced: bool = True
    max_plans: int = 500
    time_limit_s: float | None = None
    policy: SearchPolicy = SearchPolicy()  # noqa: RUF009
    costs: CostOptions = CostOptions()  # noqa: RUF009
    wishes: Recipe | None = None
    prior: Sequence[UnitPrior] | None = None
    best: float | AnyArray = 1.0
    """What float scores: on every sample the same, or on each."""
    set_level: bool = False
    demands: ToolDemands | None = None
    noise: Loss | None = None
    """By how much outputs are off: by what a plan loses where it is not given."""


def open_stages(setting: Setting) -> tuple[SearchContext, Ledger]:
    """Return the context of a planted search, and its ledger."""
    inputs = {
        name: np.ones([dim if isinstance(dim, int) else 1 for dim in setting.graph.types[name].shape or ()], np.float32)
        for name in setting.graph.inputs
    }
    samples = HeldSamples([Sample(str(index), inputs) for index in range(setting.searched + setting.held)])
    every = tuple(range(setting.searched + setting.held))
    splits = Splits(every[: setting.searched], every[setting.searched :])
    request = TuneRequest(
        graph=setting.graph,
        calibration=calibrate(setting.graph, samples.subset([0])),
        samples=samples,
        splits=splits,
        metric=callable_metric(lambda outputs, labels: 0.0, "planted"),
        goal=setting.goal,
        low=setting.low,
        ladder=setting.ladder,
        options=TuneOptions(max_plans=setting.max_plans, time_limit_s=setting.time_limit_s, policy=setting.policy),
        wishes=setting.wishes,
        costs=setting.costs,
        demands=setting.demands,
    )
    options = SpaceOptions(demands=setting.demands)
    space = make_space(request.graph, request.low, request.ladder, request.wishes, options)
    prior = setting.prior or rank_units(space, request.calibration, setting.policy.prior)
    order = [item.unit for item in prior]
    journal = Journal(None, "planted")
    memory = SearchMemory.of(request)
    fast = RecordedEvaluator(
        PlantedEvaluator(setting.loss, setting.best, setting.set_level, setting.noise), journal, count=memory.count
    )
    judge = PlantedEvaluator(setting.exact_loss or setting.loss, setting.best, setting.set_level)
    exact = RecordedEvaluator(judge, journal, "exact", count=memory.count)
    race = setting.policy.race
    context = SearchContext(
        request=request,
        space=space,
        prior=prior,
        prover=make_prover(space, request.limits, request.costs, order, setting.policy) if setting.priced else None,
        fast=fast,
        exact=exact,
        search=Oracle(fast, Split("search", splits.search), space.float_plan, race),
        holdout=Oracle(fast, Split("holdout", splits.holdout), space.float_plan, race),
        listener=SilentSearch(),
        log=SearchLog(None),
        memory=memory,
    )
    return context, Ledger(context)


def convolutions(units: int, channels: int = 32) -> Graph:
    """Return a chain of equal convolutions, each of which takes longer at 16 bits; units are n0, n1 and so on."""
    net = Network(1)
    last = net.input("x", 1, channels, 28, 28)
    for _ in range(units):
        last = net.conv(last, channels, 3)
    return net.graph(last)


def weighed(weights: dict[str, float]) -> Loss:
    """Return a loss that is the sum of what the units weigh that are low; units are named after their nodes."""
    return lambda plan, indices: sum(weight for unit, weight in weights.items() if plan.placement(unit) == plan.default)
