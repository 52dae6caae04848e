"""Over many random splits: does a verdict hold on samples that neither search nor acceptance has seen.

python benchmarks/holdout.py [--task digits|strict|a] [--high PLACEMENT] [--splits 20] [--fresh 4000]
                             [--policy likely|sure] [--json]

Each split of the task's samples is searched and accepted on as `dovetail tune` does. The accepted plan then runs in
exact simulation on new samples of the same kind (`zoo/fresh.py`), so many that chance hardly moves its loss, and
misses when it loses more than the goal allows there. `error` is the standard error of that loss.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import dovetail
import zoo.machine as machine
from dovetail.data import SplitOptions, open_samples, specs_of, split_samples
from dovetail.fit.request import LIKELY, POLICIES, SURE
from dovetail.ir.dtypes import AnyArray
from dovetail.plan import parse_placement
from dovetail.quantize import Calibration
from dovetail.search import parse_goal
from dovetail.search.evaluator import EvaluationData
from dovetail.search.goal import Goal
from dovetail.search.pipeline import Pipeline
from dovetail.search.samples import SampleSet
from zoo.fresh import redrawn
from zoo.table import number, text
from zoo.tasks import Task, bench_a, digits, strict_digits

_BENCH_A = Path(__file__).resolve().parents[2] / "shared" / "bench" / "a"
_LOW, _HIGH = "vsi:v853@i8pc", "vsi:v853@i16"
_SEED = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what one split gave; `loss`, `error` and `allowed` are those on new samples."""

    seed: int
    verdict: str
    accepted: bool
    raised: int
    evaluations: float
    latency_ms: float | None
    holdout_loss: float
    bound: float | None
    loss: float
    error: float
    allowed: float
    plan: str

    @property
    def misses(self) -> bool:
        """Tell whether an accepted plan fails where nobody looked."""
        return self.accepted and self.loss > self.allowed + 1e-12


def main() -> int:
    """Run the splits; the exit code is 1 when more than one in twenty misses."""
    options = _arguments()
    task = {"digits": digits, "strict": strict_digits, "a": lambda: bench_a(_BENCH_A)}[options.task]()
    found = run_splits(task, options)
    misses = sum(item.misses for item in found)
    if options.json:
        print(json.dumps({"facts": machine.facts(), "misses": misses, "splits": [asdict(item) for item in found]}))
    else:
        print("\n".join(machine.facts()), _table(found), sep="\n\n")
        accepted = sum(item.accepted for item in found)
        print(f"\n{task.name}: {accepted} of {len(found)} accepted, {misses} of those miss on new samples")
    return 1 if misses > len(found) / 20 else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("digits", "strict", "a"), default="digits")
    parser.add_argument("--high", default=_HIGH, help="what culprits are raised to (default: %(default)s)")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--fresh", type=int, default=4000, help="new samples that judge (default: %(default)s)")
    parser.add_argument("--policy", choices=POLICIES, default=LIKELY, help="as of 'dovetail tune'")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def run_splits(task: Task, options: argparse.Namespace) -> list[Outcome]:
    """Return what each of some random splits gave."""
    graph = dovetail.normalize(dovetail.load_model(task.model))
    calibration = dovetail.calibrate(graph, open_samples([item[None] for item in task.calibration], specs_of(graph)))
    goal = parse_goal(task.goal, sure=options.policy == SURE)
    judge = _judge(redrawn(task, options.fresh, _SEED), graph, calibration)
    question = _Question(task, graph, calibration, goal, options, judge)
    return [_outcome(question, seed) for seed in range(options.splits)]


Judge = Callable[[dovetail.Plan], NDArray[Any]]


def _items(task: Task) -> list[dict[str, NDArray[Any]]]:
    return [
        {task.input: task.inputs[index][None], **{key: value[index] for key, value in task.labels.items()}}
        for index in range(len(task.inputs))
    ]


def _judge(task: Task, graph: dovetail.Graph, calibration: Calibration) -> Judge:
    """Return what gives the score of every sample of a task for a plan, in exact simulation."""
    samples = SampleSet(graph, open_samples(_items(task), specs_of(graph)))
    pipeline = Pipeline(EvaluationData(graph, samples, task.metric, task.name), calibration.ranges)
    known: dict[str, AnyArray] = {}

    def judge(plan: dovetail.Plan) -> AnyArray:
        if plan.digest not in known:
            scores = pipeline.evaluate(plan, range(samples.count)).per_sample
            assert scores is not None, "both tasks have a score for every sample"
            known[plan.digest] = scores
        return known[plan.digest]

    return judge


@dataclass(frozen=True, slots=True)
class _Question:
    """Hold what all splits have in common."""

    task: Task
    graph: dovetail.Graph
    calibration: Calibration
    goal: Goal
    options: argparse.Namespace
    judge: Judge


def _outcome(question: _Question, seed: int) -> Outcome:
    graph, task = question.graph, question.task
    samples = open_samples(_items(task), specs_of(graph))
    result = dovetail.tune(
        dovetail.TuneRequest(
            graph=graph,
            calibration=question.calibration,
            samples=samples,
            splits=split_samples(samples, SplitOptions(seed=seed)),
            metric=task.metric,
            goal=question.goal,
            low=parse_placement(_LOW),
            ladder=(parse_placement(question.options.high),),
        )
    )
    golden = question.judge(dovetail.Plan(graph.digest, parse_placement("cpu@fp32")))
    losses = golden - question.judge(result.plan)
    proof, held, interval = result.certificate, result.holdout, result.assessment.interval
    return Outcome(
        seed=seed,
        verdict=result.verdict.value,
        accepted=result.accepted,
        raised=len(result.raised),
        evaluations=result.cost.full_equivalents,
        latency_ms=None if proof is None else proof.cost.latency_ns / 1e6,
        holdout_loss=held.float_score - (held.tuned if held.tuned_exact is None else held.tuned_exact),
        bound=None if interval is None else interval.upper,
        loss=float(losses.mean()),
        error=float(losses.std() / math.sqrt(len(losses))),
        allowed=question.goal.allowance(float(golden.mean())),
        plan=result.plan.digest,
    )


_HEADS = ("seed", "verdict", "raised", "evals", "ms", "hold-out", "bound", "loss", "error", "allowed", "")


def _table(found: list[Outcome]) -> str:
    rows = [
        (
            str(item.seed),
            item.verdict,
            str(item.raised),
            f"{item.evaluations:.1f}",
            number(item.latency_ms),
            number(item.holdout_loss),
            number(item.bound),
            number(item.loss),
            number(item.error),
            number(item.allowed),
            "miss" if item.misses else "",
        )
        for item in found
    ]
    return text(_HEADS, rows)


if __name__ == "__main__":
    raise SystemExit(main())
