"""Tune real models of different families and print what it took; write docs/reference/models.md.

python benchmarks/models_table.py [--models FOLDER] [--case NAME ...] [--short] [--json] [--page FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import dovetail
import zoo.machine as machine
from dovetail.backend.protocols import Fidelity
from dovetail.data import open_samples, specs_of, split_samples
from dovetail.errors import DovetailError
from dovetail.ir import Graph
from dovetail.partition.schedule import partition
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import Calibration, Quantizer, is_quantized, load_float
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, TuneResult, parse_goal
from dovetail.search.evaluator import EvaluationData, Scorer, run_batches, simulator_of
from dovetail.search.pipeline import Pipeline, PipelineOptions
from dovetail.search.samples import SampleSet
from dovetail.search.space import Space, make_space
from zoo.case import Case, Dataset, Figure
from zoo.catalogue import CASES, ENVIRONMENT, models_root
from zoo.table import markdown, number, text

TARGETS = (("vsi:v853@i8pc", "vsi:v853@i16"), ("vsi:a311d@u8", "vsi:a311d@i16"))
"""Everything low, and the first step up; float on the CPU comes last by itself."""

_SHORT_CASES = ("resnet8_cifar10", "kws_dscnn")
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "models.md"


@dataclass(frozen=True, slots=True)
class Stated:
    """Pair a score over all samples with what the collection's manifest states."""

    case: str
    figure: str
    samples: int
    float_score: float
    stated: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one model on one target; scores are on the hold-out split."""

    case: str
    low: str
    metric: str
    float_score: float
    all_low: float
    tuned: float
    accepted: bool
    raised: int
    on_cpu: int
    units: int
    minimal: bool
    partitions: int
    full_equivalents: float
    plans: int
    wall_s: float
    note: str = ""


def main() -> int:
    """Run the cases that were asked for."""
    options = _arguments()
    root = models_root(options.models)
    if not root.is_dir():
        print(f"{root}: no such folder. Name the collected models with --models or ${ENVIRONMENT}.", file=sys.stderr)
        return 2
    names = options.case or (_SHORT_CASES if options.short else [case.name for case in CASES])
    goal = parse_goal(options.goal)
    rows: list[Row] = []
    stated: list[Stated] = []
    failed = 0
    for case in CASES:
        if case.name not in names:
            continue
        try:
            found, scores = run_case(case, root, goal, options.max_plans)
        except DovetailError as error:
            print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            failed += 1
            continue
        rows += found
        stated += scores
        print(text(*_rows_table(found)), file=sys.stderr, flush=True)
    facts = _facts(goal, options.max_plans)
    if options.page is not None and not failed:
        write_page(options.page, facts, rows, stated)
    if options.json:
        print(
            json.dumps({"facts": facts, "rows": [asdict(row) for row in rows], "figures": [asdict(s) for s in stated]})
        )
    else:
        print("\n".join(facts), text(*_stated_table(stated)), text(*_rows_table(rows)), sep="\n\n")
    return 1 if failed else 0


def _facts(goal: Goal, max_plans: int) -> list[str]:
    return [*machine.facts(), f"goal: {goal} against float; at most {max_plans} plans before a set is no longer shrunk"]


def run_case(case: Case, root: Path, goal: Goal, max_plans: int) -> tuple[list[Row], list[Stated]]:
    """Return the rows and the float figures of one case; raise DovetailError."""
    options = dovetail.LoadOptions(shapes=case.shapes)
    graph = dovetail.normalize(dovetail.load_model(root / case.file, options))
    data = case.open(graph, root)
    specs = specs_of(graph)
    samples = SampleSet(graph, open_samples(data.samples, specs))
    stated = [
        Stated(case.name, item.name, len(item.indices), _float_score(graph, samples, item), item.stated)
        for item in data.figures
    ]
    # The float model that the integers stand for, in the ranges that they were given.
    lifted = dovetail.dequantize(graph) if is_quantized(graph) else None
    graph = graph if lifted is None else lifted.graph
    calibration = dovetail.calibrate(graph, open_samples(data.calibration, specs))
    calibration = calibration if lifted is None else lifted.refine(calibration)
    source = open_samples(data.samples, specs)
    rows: list[Row] = []
    for low, high in TARGETS:
        request = TuneRequest(
            graph=graph,
            calibration=calibration,
            samples=source,
            splits=split_samples(source),
            metric=data.metric,
            goal=goal,
            low=parse_placement(low),
            ladder=(parse_placement(high),),
            # The table is about what breaks; the proof that a plan is the cheapest would be most of the time.
            costs=CostOptions(most_tests=0),
            options=TuneOptions(max_plans=max_plans),
        )
        start = time.perf_counter()
        result = dovetail.tune(request)
        wall_s = time.perf_counter() - start
        note = _figures_note(graph, calibration, samples, data, result)
        rows.append(_row(case, low, data, result, wall_s, _partitions(graph, calibration, result.plan), note))
    return rows, stated


def _row(case: Case, low: str, data: Dataset, result: TuneResult, wall_s: float, partitions: int, note: str) -> Row:
    return Row(
        case=case.name,
        low=low,
        metric=data.metric.name,
        float_score=result.holdout.float_score,
        all_low=result.holdout.low,
        tuned=result.holdout.tuned,
        accepted=result.accepted,
        raised=len(result.raised),
        on_cpu=sum(item.placement.target == "cpu" for item in result.raised),
        units=result.unit_count,
        minimal=result.one_minimal,
        partitions=partitions,
        full_equivalents=result.cost.full_equivalents,
        plans=result.cost.trials,
        wall_s=wall_s,
        note=note if result.accepted else f"{result.summary}; {note}".removesuffix("; "),
    )


def _float_score(graph: Graph, samples: SampleSet, figure: Figure) -> float:
    data = EvaluationData(graph, samples, figure.metric, figure.name)
    with closing(load_float(graph)) as model:
        outputs = run_batches(model, data, figure.indices)
    return Scorer(data).scores(outputs, figure.indices).score


def _partitions(graph: Graph, calibration: Calibration, plan: Plan) -> int:
    return len(partition(Quantizer(graph, calibration.ranges).quantize(plan)).partitions)


def _figures_note(graph: Graph, calibration: Calibration, samples: SampleSet, data: Dataset, result: TuneResult) -> str:
    """Return the figures that were not searched on, for float, everything low and the answer, over all samples."""
    notes: list[str] = []
    for figure in data.figures:
        if figure.metric == data.metric:
            continue
        space: Space = make_space(graph, result.low, ())
        pipeline = Pipeline(
            EvaluationData(graph, samples, figure.metric, figure.name),
            calibration.ranges,
            PipelineOptions(Fidelity.FAST, {result.low.target: simulator_of(result.low.target).name}),
        )
        scores = [pipeline.evaluate(plan, figure.indices).score for plan in (space.float_plan, space.base, result.plan)]
        notes.append(f"{figure.name}: " + " / ".join(number(score) for score in scores))
    return "; ".join(notes)


def _rows_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["model", "low", "float", "low", "tuned", "ok", "raised", "cpu", "parts", "evals", "plans", "wall s"]
    return heads, [
        [
            row.case,
            row.low.replace("@", " ").replace("vsi:", ""),
            number(row.float_score, 3),
            number(row.all_low, 3),
            number(row.tuned, 3),
            "yes" if row.accepted else "no",
            f"{row.raised}/{row.units}" + ("" if row.minimal else "+"),
            str(row.on_cpu),
            str(row.partitions),
            number(row.full_equivalents, 1),
            str(row.plans),
            number(row.wall_s, 1),
        ]
        for row in rows
    ]


def _stated_table(stated: Sequence[Stated]) -> tuple[list[str], list[list[str]]]:
    heads = ["model", "figure", "samples", "float", "manifest"]
    return heads, [
        [item.case, item.figure, str(item.samples), number(item.float_score), number(item.stated)] for item in stated
    ]


def write_page(page: Path, facts: Sequence[str], rows: Sequence[Row], stated: Sequence[Stated]) -> None:
    """Write the reference page."""
    about = {case.name: case for case in CASES}
    names = dict.fromkeys(item.case for item in stated)
    notes = [f"- {name} ({about[name].family}): {about[name].note or 'as the manifest says'}." for name in names]
    notes += [f"- {row.case} at {row.low}: {row.note}." for row in rows if row.note]
    parts = [
        "# Real models",
        "Made by `python benchmarks/models_table.py --page docs/reference/models.md`; do not edit. The models and data "
        "are a collection that is not part of this repository. Times are of one run on a shared machine and noisy.",
        "\n".join(f"- {fact}" for fact in facts),
        "## Tuned\n\nScores are on the hold-out split, which the search never saw, `tuned` in exact simulation (on "
        "the first samples only where those leave no doubt of a failure). `raised` counts units above the low "
        "precision, of all units; a `+` says that it is not proved that no unit can go back. `cpu` are those of them "
        "that went to the CPU, `parts` the partitions, `evals` the evaluations of the whole search split that all "
        "work together is equal to.",
        markdown(*_rows_table(rows)),
        "## Float scores\n\nOver all samples, beside what the collection's manifest states. The manifest does not say "
        "which filter its images were resized with; here Pillow's bilinear one.",
        markdown(*_stated_table(stated)),
        "## Notes\n\n" + "\n".join(notes),
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tune real models of different families.")
    parser.add_argument("--models", type=Path, help=f"the collected models (default: ${ENVIRONMENT})")
    parser.add_argument("--case", action="append", help="only this model; may be repeated", metavar="NAME")
    parser.add_argument("--goal", default="0.03", help="allowed drop, as dovetail tune takes it (default: %(default)s)")
    parser.add_argument("--max-plans", type=int, default=60, help="plans a search may try (default: %(default)s)")
    parser.add_argument("--short", action="store_true", help="two small models only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE, help="write the reference page")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
