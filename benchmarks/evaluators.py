"""What each way to evaluate plans faster would save, on the plans that a real search asks for.

python benchmarks/evaluators.py [--task digits|a|models] [--json]

Racing is measured: samples that were evaluated over samples of the plans that were. A prefix cache keeps activations
before the first node that changes: its column is the most that it can save, the share of running time by multiply-adds
before the first difference to the most alike of the 16 last plans on the same samples; keeping them costs nothing, and
plans are run whole here. A switch (one session, every unit's quantisation behind an If) saves all of `build` and runs
at 2.9 times the float time at least, as a prototype measured: its column is the least time it could take.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import dovetail
import zoo.machine as machine
from dovetail.data import open_samples, specs_of, split_samples
from dovetail.ir.macs import node_macs
from dovetail.plan import Plan, parse_placement
from dovetail.quantize.calibrate import load_float
from dovetail.search import SearchPolicy, TuneOptions, parse_goal
from dovetail.search.evaluator import Rewriter
from dovetail.search.pieces import Pieces
from dovetail.search.policy import CutPolicy, EvaluationPolicy
from zoo.catalogue import CASES, models_root
from zoo.table import number, text
from zoo.tasks import Task, bench_a, digits, from_case

_KEPT = 16
_SWITCH = 2.9
_MODELS = ("resnet8_cifar10", "vww_mobilenet_v1_0.25", "kws_dscnn")
_BENCH_A = Path(__file__).resolve().parents[2] / "shared" / "bench" / "a"


@dataclass(frozen=True)
class Row:
    """Processor seconds of one search and what other ways would make of them."""

    task: str
    plans: int
    build_s: float
    run_s: float
    samples_share: float
    prefix_most: float
    switch_least_s: float


class _Watch:
    """Time what the rewriter builds and runs, and remember the plans."""

    def __init__(self) -> None:
        self.build_s = self.run_s = 0.0
        self.plans: dict[str, Plan] = {}
        self.runs: list[tuple[str, tuple[int, ...]]] = []
        self._now = ""

    def load(self, original: Callable[..., object]) -> Callable[..., object]:
        def timed(rewriter: Rewriter, plan: Plan) -> object:
            self.plans[plan.digest] = plan
            self._now = plan.digest
            return self._timed(original, rewriter, plan)

        return timed

    def build(self, original: Callable[..., object]) -> Callable[..., object]:
        return lambda rewriter, graph: self._timed(original, rewriter, graph)

    def run(self, original: Callable[..., object]) -> Callable[..., object]:
        def timed(pieces: object, line: object, indices: Sequence[int], batches: object) -> object:
            start, built = time.process_time(), self.build_s
            found = original(pieces, line, indices, batches)
            self.run_s += time.process_time() - start - (self.build_s - built)
            self.runs.append((self._now, tuple(indices)))
            return found

        return timed

    def _timed(self, original: Callable[..., object], rewriter: Rewriter, what: object) -> object:
        start = time.process_time()
        found = original(rewriter, what)
        self.build_s += time.process_time() - start
        return found


def measure(task: Task) -> Row:
    """Run one search."""
    graph = dovetail.normalize(dovetail.load_model(task.model))
    specs = specs_of(graph)
    calibration = dovetail.calibrate(graph, open_samples([item[None] for item in task.calibration], specs))
    items = [
        {task.input: task.inputs[index][None], **{key: value[index] for key, value in task.labels.items()}}
        for index in range(len(task.inputs))
    ]
    source = open_samples(items, specs)
    request = dovetail.TuneRequest(
        graph=graph,
        calibration=calibration,
        samples=source,
        splits=split_samples(source),
        metric=task.metric,
        goal=parse_goal(task.goal),
        low=parse_placement("vsi:v853@i8pc"),
        ladder=(parse_placement("vsi:v853@i16"),),
        options=TuneOptions(policy=SearchPolicy(evaluation=EvaluationPolicy(CutPolicy(pieces=1)))),
    )
    watch = _Watch()
    with (
        patch.object(Rewriter, "_load", watch.load(Rewriter._load)),
        patch.object(Rewriter, "_built", watch.build(Rewriter._built)),
        patch.object(Pieces, "run", watch.run(Pieces.run)),
    ):
        dovetail.tune(request)
    samples = sum(len(indices) for _, indices in watch.runs)
    whole = len(watch.plans) * len(task.parts()[0])
    with closing(load_float(graph, 1)) as model:
        picks = task.inputs[: task.batch * 4]
        start = time.process_time()
        for first in range(0, len(picks), task.batch):
            model.run({task.input: picks[first : first + task.batch]})
        float_s = (time.process_time() - start) / len(picks)
    return Row(
        task.name,
        len(watch.plans),
        watch.build_s,
        watch.run_s,
        samples / whole,
        _prefix_share(graph, watch),
        _SWITCH * float_s * samples,
    )


def _prefix_share(graph: dovetail.Graph, watch: _Watch) -> float:
    """Return the share of all multiply-adds that lie before the first difference to a plan of late."""
    work = [max(1, node_macs(graph, node) or 1) for node in graph.nodes]
    saved = total = 0
    seen: dict[tuple[int, ...], list[list[object]]] = {}
    for digest, indices in watch.runs:
        places: list[object] = [watch.plans[digest].placement(node.name) for node in graph.nodes]
        kept = seen.setdefault(indices, [])
        total += sum(work) * len(indices)
        alike = max((_common(places, other) for other in kept[-_KEPT:]), default=0)
        saved += sum(work[:alike]) * len(indices)
        kept.append(places)
    return saved / total if total else 0.0


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    return next((index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What each way to evaluate plans faster would save.")
    parser.add_argument("--task", choices=("digits", "a", "models"), help="only this one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    tasks = [digits()] if options.task in (None, "digits") else []
    if options.task in (None, "a") and (_BENCH_A / "model.onnx").is_file():
        tasks.append(bench_a(_BENCH_A))
    if options.task in (None, "models"):
        root = models_root()
        tasks += [
            from_case(case, root, "0.03") for case in CASES if case.name in _MODELS and (root / case.file).exists()
        ]
    rows = [measure(task) for task in tasks]
    facts = machine.facts(("dovetail", "onnxruntime", "numpy"))
    if options.json:
        print(json.dumps({"facts": facts, "rows": [asdict(row) for row in rows]}))
        return 0
    print("\n".join(facts))
    heads = ["task", "plans", "build cpu s", "run cpu s", "samples", "prefix saves at most", "switch takes at least, s"]
    print(
        text(
            heads,
            [
                [
                    row.task,
                    str(row.plans),
                    number(row.build_s, 2),
                    number(row.run_s, 2),
                    f"{row.samples_share:.0%}",
                    f"{row.prefix_most:.0%} of run",
                    number(row.switch_least_s, 2),
                ]
                for row in rows
            ],
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
