"""What workers save where an evaluation is mostly waiting, as for a board: the same search with none, 1, 2 and 4.

python benchmarks/workers.py [--wait-s 1.0] [--workers 0 1 2 4] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import dovetail
import zoo.machine as machine
from dovetail.data import open_samples, specs_of, split_samples
from dovetail.plan import parse_placement
from dovetail.search import TuneOptions, parse_goal
from dovetail.search.fanout import FanOut, local_place
from zoo.table import number, text
from zoo.tasks import digits
from zoo.waiting import Waiting


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one run; `same` tells whether the answer is that of the run without workers."""

    workers: int
    wall_s: float
    speed_up: float
    trials: int
    samples: int
    same: bool


def main() -> int:
    """Run the search with each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wait-s", type=float, default=1.0, help="seconds that an evaluation waits")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    search = prepare(options.wait_s)
    rows: list[Row] = []
    first: dovetail.TuneResult | None = None
    for workers in options.workers:
        start = time.perf_counter()
        found = search(workers)
        wall_s = time.perf_counter() - start
        first = first or found
        same = (found.plan, found.evidence, found.certificate) == (first.plan, first.evidence, first.certificate)
        ratio = rows[0].wall_s / wall_s if rows else 1.0
        rows.append(Row(workers, wall_s, ratio, found.cost.trials, found.cost.fresh_samples, same))
    if options.json:
        print(json.dumps({"facts": machine.facts(), "rows": [asdict(row) for row in rows]}))
    else:
        heads = ("workers", "wall s", "times faster", "plans", "samples", "same answer")
        cells = [
            (
                str(row.workers),
                number(row.wall_s, 1),
                number(row.speed_up, 2),
                str(row.trials),
                str(row.samples),
                "yes" if row.same else "no",
            )
            for row in rows
        ]
        print("\n".join(machine.facts()), text(heads, cells), sep="\n\n")
    return 0 if all(row.same for row in rows) else 1


def prepare(wait_s: float) -> Callable[[int], dovetail.TuneResult]:
    """Return the search on the digit detector, whose every evaluation waits, for a number of workers."""
    task = digits()
    graph = dovetail.normalize(dovetail.load_model(task.model))
    specs = specs_of(graph)
    items = [
        {task.input: task.inputs[index][None], **{key: value[index] for key, value in task.labels.items()}}
        for index in range(len(task.inputs))
    ]
    samples = open_samples(items, specs)
    request = dovetail.TuneRequest(
        graph=graph,
        calibration=dovetail.calibrate(graph, open_samples([item[None] for item in task.calibration], specs)),
        samples=samples,
        splits=split_samples(samples),
        metric=Waiting(task.metric, wait_s),
        goal=parse_goal(task.goal),
        low=parse_placement(task.low),
        ladder=(parse_placement(task.high),),
    )

    def search(workers: int) -> dovetail.TuneResult:
        fanout = FanOut(local_place(workers)) if workers else FanOut()
        return dovetail.tune(replace(request, options=TuneOptions(fanout=fanout)))

    return search


if __name__ == "__main__":
    raise SystemExit(main())
