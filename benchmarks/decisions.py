"""Do metrics without labels judge plans as labels do? Write docs/reference/decisions.md.

For every model of the collection that has labels, 40 plans are drawn: a random share of its units in 8 bits, the rest
in float, with ranges that are right or up to 64 times too wide, as outliers in calibration make them. Each is scored
by the labels and by the agreement with float's decisions on the same samples.

python benchmarks/decisions.py [--model NAME ...] [--plans N] [--page FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import dovetail
import zoo.machine as machine
from dovetail.backend.protocols import Fidelity
from dovetail.compare.decisions import metric_for
from dovetail.compare.task import Arrays
from dovetail.data import Sample, open_samples, specs_of
from dovetail.ir import Graph
from dovetail.outputs import OutputsView, recognise
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import load_float
from dovetail.quantize.ranges import Range, Ranges
from dovetail.search.drowned import measure_drowned
from dovetail.search.evaluator import SIMULATOR, EvaluationData, simulates_whole
from dovetail.search.fanout.task import Executor
from dovetail.search.samples import SampleSet
from dovetail.search.space import FLOAT, Space, make_space
from zoo.catalogue import models_root
from zoo.labelled import CASES, Labelled, LabelledData
from zoo.table import markdown, text

TARGETS = ("vsi:a311d@u8", "vsi:v853@i8pc")
Scores = NDArray[np.float64]

GOALS = (0.01, 0.02, 0.03, 0.05, 0.1)
"""Allowed drops, as shares of the metric's own float score, at which both metrics accept or reject."""
WIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""How much too wide the ranges of a plan are: a power of two costs a bit."""
NOISE = (-2.5, 0.0)
"""Noise at the outputs over signal, as powers of ten: below it nothing is harmed, above it nothing is left."""
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "decisions.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One model: how alike both metrics rank its plans, and how often they accept and reject the same."""

    model: str
    kind: str
    confidence: float
    labelled: str
    samples: int
    plans: int
    float_score: float
    own_score: float
    """What float scores by the metric without labels."""
    spearman: float
    among_labels: float
    """The rank correlation of the labelled metric on one half of the samples with itself on the other half."""
    same: float
    """Share of plans and goals with the same verdict."""
    alive: int
    """Plans whose labelled score is more than half of float's."""


def main() -> int:
    """Run the models that were asked for."""
    options = _arguments()
    root = models_root()
    rows: list[Row] = []
    for case in CASES:
        if options.model and case.name not in options.model:
            continue
        started = time.monotonic()
        row, pairs = run_case(case, root, options.plans)
        rows.append(row)
        print(text(*_table([row])), f"{time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        if options.json:
            print(json.dumps({"model": case.name, "labelled": pairs[0].tolist(), "agreement": pairs[1].tolist()}))
    if options.page is not None:
        write_page(options.page, rows, options.plans)
    print(text(*_table(rows)))
    return 0


def run_case(case: Labelled, root: Path, plans: int) -> tuple[Row, tuple[Scores, Scores]]:
    """Return the row of a model, and the scores of its plans by labels and by agreement."""
    graph = case.graph(root)
    data = case.open(graph, root)
    view, golden = _seen(graph, data.samples)
    metric = metric_for(view, golden)
    labels = _stacked(data.samples)
    float_score = data.metric.score(golden, labels)
    halves = [list(range(start, len(data.samples), 2)) for start in (0, 1)]
    scores = [
        (
            data.metric.score(outputs, labels),
            metric.score(outputs, golden),
            *(data.metric.score(_some(outputs, half), _some(labels, half)) for half in halves),
        )
        for outputs in _outputs(graph, data, plans, case.name)
    ]
    labelled, agreement, first, second = (np.array(column) for column in zip(*scores, strict=True))
    own = metric.score(golden, golden)
    same = [(labelled >= float_score * (1 - goal)) == (agreement >= own * (1 - goal)) for goal in GOALS]
    row = Row(
        case.name,
        view.kind.value,
        min(head.confidence for head in view.decisions),
        data.figure,
        len(data.samples),
        plans,
        float_score,
        own,
        _rank_correlation(labelled, agreement),
        _rank_correlation(first, second),
        float(np.mean(same)),
        int(np.count_nonzero(labelled > float_score / 2)),
    )
    return row, (labelled, agreement)


def _rank_correlation(first: Scores, second: Scores) -> float:
    return float(stats.spearmanr(first, second).statistic)


def _some(arrays: Arrays, indices: Sequence[int]) -> Arrays:
    return {name: values[list(indices)] for name, values in arrays.items()}


def _seen(graph: Graph, samples: Sequence[Sample]) -> tuple[OutputsView, Arrays]:
    """Return what the outputs are, and the float outputs of all samples."""
    executable = load_float(graph, 2)
    runs = [dict(executable.run(sample.inputs)) for sample in samples]
    executable.close()
    shapes = {name: array.shape for name, array in samples[0].inputs.items()}
    stacked = {name: np.concatenate([run[name] for run in runs]) for name in graph.outputs}
    return recognise(graph, runs[:32], shapes), stacked


def _stacked(samples: Sequence[Sample]) -> Arrays:
    return {name: np.stack([sample.labels[name] for sample in samples]) for name in samples[0].labels}


def _outputs(graph: Graph, data: LabelledData, plans: int, name: str) -> Iterator[Arrays]:
    """Yield the outputs of plans whose noise is spread evenly: half of them for each target.

    Of four times as many plans, drawn at random, those are taken whose noise at the outputs, measured on two samples,
    comes nearest to an even spread in decibels.
    """
    ranges = dovetail.calibrate(graph, open_samples(data.calibration, specs_of(graph))).ranges
    samples = SampleSet(graph, open_samples(data.samples, specs_of(graph)))
    for number, low in enumerate(map(parse_placement, TARGETS)):
        how = Executor(low.target, simulates_whole(graph, low.target), Fidelity.FAST, {low.target: SIMULATOR})
        work = EvaluationData(graph, samples, data.metric, "")
        evaluators = {width: how.evaluator(work, _widened(ranges, width)) for width in WIDTHS}
        drawn = [
            (evaluators[WIDTHS[step % len(WIDTHS)]], plan)
            for step, plan in enumerate(
                _plans(make_space(graph, low, (FLOAT,)), 2 * plans, sum(name.encode()) + number)
            )
        ]
        noise = [measure_drowned(evaluator, plan, range(2)).score for evaluator, plan in drawn]
        for index in _evenly(np.clip(np.log10(np.maximum(noise, 1e-9)), *NOISE), plans // 2):
            evaluator, plan = drawn[index]
            yield evaluator.outputs(plan, range(samples.count))


def _evenly(values: Scores, count: int) -> list[int]:
    """Return the indices of values that come nearest to an even spread between the smallest and the largest."""
    free = list(range(len(values)))
    chosen: list[int] = []
    for wanted in np.linspace(values.min(), values.max(), count):
        best = min(free, key=lambda index: abs(values[index] - wanted))
        chosen.append(best)
        free.remove(best)
    return chosen


def _widened(ranges: Ranges, width: float) -> Ranges:
    """Return ranges that reach further by a factor."""
    wide = {name: Range(item.low * width, item.high * width) for name, item in ranges.tensors.items()}
    return replace(ranges, tensors=wide)


def _plans(space: Space, count: int, seed: int) -> Iterator[Plan]:
    """Yield plans with one unit in 8 bits, then ever more, to all: half of them evenly, half on a logarithmic scale."""
    rng = np.random.default_rng(seed)
    names = list(space.units)
    half = count // 2
    numbers = np.concatenate([np.linspace(1, len(names), half), np.geomspace(1, len(names), count - half)])
    for number in rng.permutation(np.rint(numbers).astype(int)):
        low = set(rng.choice(len(names), number, replace=False).tolist())
        kept = [name for index, name in enumerate(names) if index not in low]
        yield space.plan({name: Override(FLOAT, "float") for name in kept})


_HEADS = (
    "model",
    "kind",
    "confidence",
    "labelled",
    "samples",
    "alive",
    "float",
    "float, no labels",
    "Spearman",
    "labels, half and half",
    "same verdict",
)


def _table(rows: Sequence[Row]) -> tuple[Sequence[str], list[list[str]]]:
    return _HEADS, [
        [
            row.model,
            row.kind,
            f"{row.confidence:.2f}",
            row.labelled,
            str(row.samples),
            str(row.alive),
            f"{row.float_score:.3f}",
            f"{row.own_score:.3f}",
            f"{row.spearman:.3f}",
            f"{row.among_labels:.3f}",
            f"{row.same:.0%}",
        ]
        for row in rows
    ]


def write_page(path: Path, rows: Sequence[Row], plans: int) -> None:
    """Write the page."""
    goals = ", ".join(f"{goal:.0%}" for goal in GOALS)
    spearman = [row.spearman for row in rows]
    same = [row.same for row in rows]
    lines = [
        "# Decisions instead of labels",
        "",
        "Made by `python benchmarks/decisions.py --page docs/reference/decisions.md`; do not edit. The models and data "
        "are a collection that is not part of this repository.",
        "",
        *(f"- {fact}" for fact in machine.facts()),
        "",
        f"Of every model {plans} plans, half of them for each of {' and '.join(TARGETS)}: a random share of its units "
        "in 8 bits, from one to all, the rest in float, with ranges that are right or up to 64 times too wide; of four "
        "times as many, those whose noise at the outputs is spread evenly between -25 and 0 dB.",
        "",
        "`labelled` is the metric that knows the labels; the other one compares decisions with float's on the same "
        "samples and knows none. `float` is what each gives the float model. `alive` counts the plans that keep more "
        "than half of the labelled score. `labels, half and half` is the rank correlation of the labelled metric on "
        "the even samples with itself on the odd ones: how well labels agree with labels. `same verdict`: plans and "
        f"goals (drops of {goals} of the float score) that both accept or both reject.",
        "",
        *markdown(*_table(rows)).splitlines(),
        "",
        f"Spearman's rank correlation is at least 0.9 on {sum(value >= 0.9 for value in spearman)} of {len(rows)} "
        f"models (lowest {min(spearman):.3f}); the verdict is the same in {np.mean(same):.0%} of all cases, at least "
        f"90 % on {sum(value >= 0.9 for value in same)} of {len(rows)} models (lowest {min(same):.0%}).",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="only this one; may be repeated")
    parser.add_argument("--plans", type=int, default=40)
    parser.add_argument("--json", action="store_true", help="print the scores of every plan")
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
