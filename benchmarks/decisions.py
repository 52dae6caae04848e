"""Do metrics without labels judge plans as labels do? Write docs/reference/decisions.md.

For every model of the collection that has labels, plans are drawn: a random share of its units in 8 bits, the rest in
float, with ranges that are right or up to 64 times too wide, as outliers in calibration make them. Each is scored by
the labels and by what float holds of its decisions, on the same samples. Of three times as many, 40 are judged whose
labelled scores are spread evenly, so that labels can tell them apart.

python benchmarks/decisions.py [--model NAME ...] [--plans N] [--keep FOLDER] [--page FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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
from dovetail.search.evaluator import EvaluationData, simulates_whole, simulator_of
from dovetail.search.fanout.task import Executor
from dovetail.search.samples import SampleSet
from dovetail.search.space import FLOAT, Space, make_space
from zoo.catalogue import models_root
from zoo.labelled import CASES, Labelled, LabelledData
from zoo.table import markdown, text
from zoo.views import SHARES, views

Scores = NDArray[np.float64]

TARGETS = ("vsi:a311d@u8", "vsi:v853@i8pc")
GOALS = (0.01, 0.02, 0.03, 0.05, 0.1)
"""Allowed drops, as shares of the metric's own float score, at which both metrics accept or reject."""
WIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""How much too wide the ranges of a plan are: a power of two costs a bit."""
DRAWN = 3
"""How many times as many plans are drawn as are judged."""
HARMED = 0.2
"""Share of the float score by which labelled scores must spread for their ranks to mean anything."""
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "decisions.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One model and one labelled metric: how alike both metrics rank the plans and accept them."""

    model: str
    kind: str
    labelled: str
    samples: int
    float_score: float
    own_score: float
    """What float scores by the metric without labels."""
    lowest: float
    """The lowest labelled score of the plans that are judged."""
    spearman: float
    among_labels: float
    """The rank correlation of the labelled metric on the even samples with itself on the odd ones."""
    spearman_all: float
    """The rank correlation over all plans that were drawn."""
    same: float
    """Share of plans and goals with the same verdict."""
    same_among_labels: float
    """The same for the labelled metric on the even samples and on the odd ones, each against float's on these."""
    same_by_other: float
    """The same for another labelled metric of the model; NaN where it has none."""
    better: int
    """Plans that labels put above the float model."""
    same_of_others: float
    """Share of the other plans, and goals, with the same verdict."""

    @property
    def harmed(self) -> bool:
        """Tell whether plans do enough harm for ranks to mean anything."""
        return self.float_score - self.lowest >= HARMED * self.float_score


def main() -> int:
    """Run the models that were asked for."""
    options = _arguments()
    root = models_root()
    rows: list[Row] = []
    for case in CASES:
        if options.model and case.name not in options.model:
            continue
        started = time.monotonic()
        kept = None if options.keep is None else options.keep / f"{case.name}.json"
        found, table = run_case(case, root, options.plans, _read(kept))
        rows += found
        print(text(*_table(found)), f"{time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({key: list(v) for key, v in table.items()}))
    if options.page is not None:
        write_page(options.page, rows, options.plans)
    print(text(*_table(rows)))
    return 0


def _read(kept: Path | None) -> Mapping[str, Scores]:
    """Return the scores of plans that an earlier run has kept; none where there are none."""
    if kept is None or not kept.is_file():
        return {}
    return {name: np.array(values) for name, values in json.loads(kept.read_text()).items()}


def run_case(
    case: Labelled, root: Path, plans: int, kept: Mapping[str, Scores]
) -> tuple[list[Row], Mapping[str, Scores]]:
    """Return the rows of a model, one for each labelled metric, and the scores of all plans that were drawn.

    With scores that are kept no plan is evaluated.
    """
    graph = case.graph(root)
    data = case.open(graph, root)
    if case.pad is not None:
        data = replace(data, samples=views(data.samples, case.pad))
    view, golden = _seen(graph, data.samples)
    metric = metric_for(view, golden)
    labels = _stacked(data.samples)

    def scored(outputs: Arrays) -> Iterator[tuple[str, float]]:
        yield "decisions", metric.score(outputs, golden)
        for labelled in data.metrics:
            yield labelled.name, labelled.score(outputs, labels)
            for number in (0, 1):
                half = list(range(number, len(data.samples), 2))
                yield f"{labelled.name}, half {number}", labelled.score(_some(outputs, half), _some(labels, half))

    floats = dict(scored(golden))
    if not kept:
        rows = [dict(scored(outputs)) for outputs in _outputs(graph, data, DRAWN * plans, case.name)]
        kept = {name: np.array([row[name] for row in rows]) for name in floats}
    names = [labelled.name for labelled in data.metrics]
    about = Row(case.name, view.kind.value, "", len(data.samples), 0, floats["decisions"], *(0,) * 9)
    return [_row(replace(about, labelled=name), kept, floats, names, plans) for name in names], kept


def _row(
    about: Row, scores: Mapping[str, Scores], floats: Mapping[str, float], labelled: Sequence[str], plans: int
) -> Row:
    """Return a row with its figures, of the plans whose labelled scores are spread evenly."""
    name = about.labelled
    chosen = _evenly(scores[name], plans)
    verdicts = {
        key: np.array([values[chosen] >= floats[key] * (1 - goal) for goal in GOALS]) for key, values in scores.items()
    }
    halves = [f"{name}, half {number}" for number in (0, 1)]
    better = scores[name][chosen] > floats[name]
    others = [float(np.mean(verdicts[name] == verdicts[other])) for other in labelled if other != name]
    return replace(
        about,
        float_score=floats[name],
        lowest=float(scores[name][chosen].min()),
        spearman=_rank_correlation(scores[name][chosen], scores["decisions"][chosen]),
        among_labels=_rank_correlation(*(scores[half][chosen] for half in halves)),
        spearman_all=_rank_correlation(scores[name], scores["decisions"]),
        same=float(np.mean(verdicts[name] == verdicts["decisions"])),
        same_among_labels=float(np.mean(verdicts[halves[0]] == verdicts[halves[1]])),
        same_by_other=min(others, default=float("nan")),
        better=int(np.count_nonzero(better)),
        same_of_others=float(np.mean((verdicts[name] == verdicts["decisions"])[:, ~better])),
    )


def _evenly(values: Scores, count: int) -> list[int]:
    """Return the indices of values that come nearest to an even spread between the smallest and the largest."""
    free = list(range(len(values)))
    chosen: list[int] = []
    for wanted in np.linspace(values.min(), values.max(), count):
        best = min(free, key=lambda index: abs(values[index] - wanted))
        chosen.append(best)
        free.remove(best)
    return chosen


def _rank_correlation(first: Scores, second: Scores) -> float:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
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
    """Yield the outputs of plans: half of them for each target, with every width of ranges in turn."""
    ranges = dovetail.calibrate(graph, open_samples(data.calibration, specs_of(graph))).ranges
    samples = SampleSet(graph, open_samples(data.samples, specs_of(graph)))
    for number, low in enumerate(map(parse_placement, TARGETS)):
        how = Executor(
            low.target, simulates_whole(graph, low.target), Fidelity.FAST, {low.target: simulator_of(low.target).name}
        )
        work = EvaluationData(graph, samples, data.metrics[0], "")
        evaluators = [how.evaluator(work, _widened(ranges, width)) for width in WIDTHS]
        space = make_space(graph, low, (FLOAT,))
        for step, plan in enumerate(_plans(space, plans // 2, sum(name.encode()) + number)):
            yield evaluators[step % len(WIDTHS)].outputs(plan, range(samples.count))


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
    "labelled",
    "samples",
    "float",
    "lowest",
    "float, no labels",
    "Spearman",
    "labels, half and half",
    "Spearman, all drawn",
    "same verdict",
    "labels, half and half: verdict",
    "other labelled metric: verdict",
    "better than float",
    "same verdict of the others",
)


def _table(rows: Sequence[Row]) -> tuple[Sequence[str], list[list[str]]]:
    return _HEADS, [
        [
            row.model,
            row.kind,
            row.labelled,
            str(row.samples),
            f"{row.float_score:.3f}",
            f"{row.lowest:.3f}",
            f"{row.own_score:.3f}",
            f"{row.spearman:.3f}" if row.harmed else "(no harm)",
            f"{row.among_labels:.3f}",
            f"{row.spearman_all:.3f}",
            f"{row.same:.0%}",
            f"{row.same_among_labels:.0%}",
            "" if np.isnan(row.same_by_other) else f"{row.same_by_other:.0%}",
            str(row.better),
            f"{row.same_of_others:.0%}",
        ]
        for row in rows
    ]


def write_page(path: Path, rows: Sequence[Row], plans: int) -> None:
    """Write the page."""
    goals = ", ".join(f"{goal:.0%}" for goal in GOALS)
    spearman = [row.spearman for row in rows if row.harmed]
    same = [row.same for row in rows]
    others = [row.same_of_others for row in rows]
    lines = [
        "# Decisions instead of labels",
        "",
        "Made by `python benchmarks/decisions.py --page docs/reference/decisions.md`; do not edit. The models and data "
        "are a collection that is not part of this repository.",
        "",
        *(f"- {fact}" for fact in machine.facts()),
        "",
        f"Of every model {DRAWN * plans} plans, half of them for each of {' and '.join(TARGETS)}: a random share of "
        "its units in 8 bits, from one to all, the rest in float, with ranges that are right or up to 64 times too "
        f"wide. Judged are the {plans} whose labelled scores are spread evenly from the lowest to the highest.",
        "",
        f"Labelled pictures of detectors are shown in {2 * len(SHARES)} ways, as they are and mirrored, at "
        f"{', '.join(f'{share:.0%}' for share in SHARES)} of the input's size, somewhere in it, with their labels: 20 "
        "pictures alone hold too few objects for labels to agree with themselves. Halves are of different pictures.",
        "",
        "`labelled` is the metric that knows the labels; the other one asks what the float model holds of what a "
        "candidate decides on the same samples, and knows none. `float` is what each gives the float model, `lowest` "
        "the worst plan by labels. `labels, half and half` is the rank correlation of the labelled metric on the even "
        "samples with itself on the odd ones: how well labels agree with labels. `same verdict`: plans and goals "
        f"(drops of {goals} of the float score) that both accept or both reject. The two columns behind it say the "
        "same of labels with labels, as a measure of what can be expected: of the labelled metric on even and odd "
        "samples, and of the two labelled metrics of a detector (average precision asks in which order boxes come, F1 "
        "how many pass a threshold). `better than float` are plans that labels put above the float model: what float "
        "decides cannot tell that from a loss, as nothing can without labels. The last column leaves them out.",
        "",
        *markdown(*_table(rows)).splitlines(),
        "",
        "Where plans do harm, Spearman's rank correlation is at least 0.9 in "
        f"{sum(value >= 0.9 for value in spearman)} of {len(spearman)} rows (lowest {min(spearman):.3f}). "
        f"The verdict is the same in {np.mean(same):.0%} of all cases, "
        f"at least 90 % in {sum(value >= 0.9 for value in same)} of {len(rows)} rows (lowest {min(same):.0%}); "
        "without the plans that labels put above the float model in "
        f"{sum(value >= 0.9 for value in others)} (lowest {min(others):.0%}).",
        *_among_labels([row for row in rows if row.same < 0.9]),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _among_labels(rows: Sequence[Row]) -> list[str]:
    """Return what labels say of labels in rows, as a measure of the verdicts there."""
    if not rows:
        return []
    others = [row.same_by_other for row in rows if not np.isnan(row.same_by_other)]
    by_other = f", two labelled metrics on the same samples in {np.mean(others):.0%}" if others else ""
    return [
        "",
        f"In the other {len(rows)} {'row' if len(rows) == 1 else 'rows'}, "
        f"of at most {max(row.samples for row in rows)} samples, it is the same in "
        f"{np.mean([row.same for row in rows]):.0%} of the cases. There the labels of even and of odd samples give the "
        f"same verdict in {np.mean([row.same_among_labels for row in rows]):.0%}{by_other}.",
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="only this one; may be repeated")
    parser.add_argument("--plans", type=int, default=40)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep scores there, and take those that are")
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
