"""Over many random splits: does an accepted plan hold on samples that neither search nor acceptance has seen.

python benchmarks/holdout.py [--task digits|a] [--splits 20] [--confident] [--json]

A third of the samples is put aside before each search; the rest is searched and accepted on as `dovetail tune` does.
The accepted plan then runs in exact simulation on the third that was put aside, and misses when it loses more than the
goal allows there. `lost` and `won` count the samples there that it does worse and better on than float: their sum says
how far chance alone moves the loss of a third. `all` is the loss on every sample of the task, `by chance` the share of
random thirds on which the same plan misses, and `looks` counts the plans that the hold-out split was asked of.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import dovetail
import zoo.machine as machine
from dovetail.data import open_samples, specs_of, split
from dovetail.ir.dtypes import AnyArray
from dovetail.plan import parse_placement
from dovetail.quantize import Calibration
from dovetail.search.evaluator import EvaluationData
from dovetail.search.goal import Goal
from dovetail.search.journal import Scores
from dovetail.search.pipeline import Pipeline
from dovetail.search.samples import SampleSet
from dovetail.search.trial import Trial
from zoo.table import number, text
from zoo.tasks import Task, bench_a, digits

_BENCH_A = Path(__file__).resolve().parents[2] / "shared" / "bench" / "a"
_LOW, _HIGH = "vsi:v853@i8pc", "vsi:v853@i16"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what one split gave; `loss`, `lost` and `won` are on the samples that were put aside."""

    seed: int
    accepted: bool
    raised: int
    samples: int
    loss: float
    allowed: float
    lost: int
    won: int
    loss_of_all: float
    by_chance: float
    plan: str
    looks: int

    @property
    def misses(self) -> bool:
        """Tell whether an accepted plan fails where nobody looked."""
        return self.accepted and self.loss > self.allowed + 1e-12


def main() -> int:
    """Run the splits; the exit code is 1 when more than one in twenty misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("digits", "a"), default="digits")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument(
        "--confident", action="store_true", help="demand that the loss's 95 %% bound is within the goal"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    task = digits() if options.task == "digits" else bench_a(_BENCH_A)
    found = run_splits(task, options.splits, options.confident)
    misses = sum(item.misses for item in found)
    if options.json:
        print(json.dumps({"facts": machine.facts(), "misses": misses, "splits": [asdict(item) for item in found]}))
    else:
        print("\n".join(machine.facts()), _table(found), sep="\n\n")
        accepted = sum(item.accepted for item in found)
        print(f"\n{task.name}: {accepted} of {len(found)} accepted, {misses} of those miss on unseen samples")
        plans = {item.plan: item.loss_of_all - item.allowed for item in found if item.accepted}
        beyond = sum(excess > 1e-12 for excess in plans.values())
        chance = sum(item.by_chance for item in found if item.accepted)
        print(f"the same plans miss on {chance:.1f} of as many thirds that are drawn by chance alone")
        print(f"{len(plans)} different plans; {beyond} of them lose more than allowed on all samples together")
    return 1 if misses > len(found) / 20 else 0


def run_splits(task: Task, count: int, confident: bool = False) -> list[Outcome]:
    """Return what each of some random splits gave."""
    graph = dovetail.normalize(dovetail.load_model(task.model))
    calibration = dovetail.calibrate(graph, open_samples([item[None] for item in task.calibration], specs_of(graph)))
    goal = dovetail.parse_goal(task.goal, confident=confident)
    return [_outcome(task, graph, calibration, goal, seed) for seed in range(count)]


@dataclass
class _Looks:
    """Count the plans that the hold-out split is asked of."""

    count: int = 0

    def stage(self, title: str) -> None:
        self.count += title == "hold-out"

    def trial(self, trial: Trial) -> None:
        """Trials are not counted."""


def _outcome(task: Task, graph: dovetail.Graph, calibration: Calibration, goal: Goal, seed: int) -> Outcome:
    items = [
        {task.input: task.inputs[index][None], **{key: value[index] for key, value in task.labels.items()}}
        for index in range(len(task.inputs))
    ]
    unseen, seen = split(len(items), (1 / 3, 2 / 3), seed)
    request = dovetail.TuneRequest(
        graph=graph,
        calibration=calibration,
        samples=open_samples([items[index] for index in seen], specs_of(graph)),
        metric=task.metric,
        goal=goal,
        low=parse_placement(_LOW),
        ladder=(parse_placement(_HIGH),),
        options=dovetail.TuneOptions(seed=seed),
    )
    looks = _Looks()
    result = dovetail.tune(request, looks)
    samples = SampleSet(graph, open_samples(items, specs_of(graph)))
    pipeline = Pipeline(EvaluationData(graph, samples, task.metric, task.name), calibration.ranges)
    float_plan = dovetail.Plan(graph.digest, parse_placement("cpu@fp32"))
    every = range(samples.count)
    exact, golden = (pipeline.evaluate(plan, every) for plan in (result.plan, float_plan))
    worse: AnyArray = _of(golden) - _of(exact)
    allowed = goal.allowance(float(golden.score))
    return Outcome(
        seed=seed,
        accepted=result.accepted,
        raised=len(result.culprits) + len(result.companions),
        samples=len(unseen),
        loss=float(worse[list(unseen)].mean()),
        allowed=goal.allowance(float(_of(golden)[list(unseen)].mean())),
        lost=int((worse[list(unseen)] > 0).sum()),
        won=int((worse[list(unseen)] < 0).sum()),
        loss_of_all=float(worse.mean()),
        by_chance=_by_chance(worse, len(unseen), allowed),
        plan=result.plan.digest,
        looks=looks.count,
    )


def _of(scores: Scores) -> AnyArray:
    assert scores.per_sample is not None, "both tasks have a score for every sample"
    return scores.per_sample


def _by_chance(worse: AnyArray, count: int, allowed: float) -> float:
    """Return the share of random draws of so many samples on which a plan loses more than allowed."""
    rng = np.random.default_rng(0)
    draws = [rng.permutation(worse)[:count].mean() for _ in range(4000)]
    return float(np.mean(np.array(draws) > allowed + 1e-12))


def _table(found: list[Outcome]) -> str:
    rows = [
        (
            str(item.seed),
            "yes" if item.accepted else "no",
            str(item.raised),
            str(item.samples),
            number(item.loss),
            number(item.allowed),
            str(item.lost),
            str(item.won),
            number(item.loss_of_all),
            f"{item.by_chance:.0%}",
            str(item.looks),
            "miss" if item.misses else "",
        )
        for item in found
    ]
    return text(
        ("seed", "accepted", "raised", "unseen", "loss", "allowed", "lost", "won", "all", "by chance", "looks", ""),
        rows,
    )


if __name__ == "__main__":
    raise SystemExit(main())
