"""What repairs do before anything is raised, on every model of the collection. Write docs/reference/repair.md.

For every model and target everything is low: as shipped, and with the repairs that the search keeps. Repairs are chosen
on the search split; the hold-out says what they are worth. With --tune each row is searched with repairs and without.

With --planted N every model also gets channels that are scaled at random and back, N times with seeds of their own: the
float function stays, everything low breaks, and repairs have to bring back what the model as shipped has.

python benchmarks/repair_table.py [--model NAME ...] [--target PLACE ...] [--tune] [--planted N] [--keep FILE]
    [--page FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import dovetail
import zoo.machine as machine
from dovetail.data import split_samples
from dovetail.errors import DovetailError
from dovetail.ir import Graph
from dovetail.plan import parse_placement
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize import Calibration, calibrate, dequantize, is_quantized
from dovetail.repair import CHOICES, Equalise, HealedModel
from dovetail.repair.scales import STEPS_PER_OCTAVE
from dovetail.repair.ties import find_ties
from dovetail.search import CostOptions, TuneOptions, TuneRequest, TuneResult, parse_goal, tune
from dovetail.search.context import fast_executor
from dovetail.search.evaluator import EvaluationData
from dovetail.search.healing import HealingOutcome, heal_request
from dovetail.search.request import SilentSearch
from dovetail.search.samples import SampleSet
from dovetail.search.space import SpaceOptions, make_space
from dovetail.testing.planted import HeldSamples
from zoo.case import Case
from zoo.catalogue import CASES, models_root
from zoo.table import markdown, number

SPREAD = 2.0
"""Octaves: the deviation of planted scales."""
TARGETS = ("vsi:a311d@u8", "vsi:imx8mp@u8", "vsi:v853@i8pc")
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "repair.md"
_HEADS = ("model", "place", "samples", "float", "as shipped", "healed", "hold-out", "shipped there", "healed there")
_MORE = ("repairs (score without each)", "s")


@dataclass(frozen=True, slots=True)
class Row:
    """One model at one low placement."""

    model: str
    place: str
    samples: int
    held: int
    float_score: float
    shipped: float
    healed: float
    held_float: float
    held_shipped: float
    held_healed: float
    repairs: str
    seconds: float
    planted: tuple[Mapping[str, float], ...] = ()
    """By seed: the hold-out with planted scales as they are, and healed."""
    tuned: tuple[Mapping[str, object], ...] = ()
    """What a search gives without repairs and with them."""


def main() -> int:
    """Measure every row, keep what is measured, write the page."""
    options = _arguments()
    kept = _kept(options.keep)
    rows = list(kept.values())
    for case in CASES:
        for place in options.target or TARGETS:
            if (options.model and case.name not in options.model) or (case.name, place) in kept:
                continue
            try:
                row = measure(case, models_root(), place, options)
            except DovetailError as error:
                print(f"{case.name} {place}: {error}", file=sys.stderr, flush=True)
                continue
            rows.append(row)
            print(json.dumps(asdict(row)), flush=True)
            if options.keep is not None:
                with options.keep.open("a") as stream:
                    stream.write(json.dumps(asdict(row)) + "\n")
    if options.page is not None:
        options.page.write_text(page(rows), encoding="utf-8")
    return 0


def measure(case: Case, root: Path, place: str, options: argparse.Namespace) -> Row:
    """Return the row of a model: repairs are found on the search split, and judged on both."""
    request = request_of(case, root, place, options.goal)
    started = time.perf_counter()
    outcome = heal_request(request, SilentSearch())
    seconds = time.perf_counter() - started
    start = HealedModel(request.graph, request.calibration)
    shipped, healed = (_scores(request, item) for item in (start, outcome.repaired))
    floats = _float_scores(request)
    tuned = tuple(_tuned(request, kinds) for kinds in ("none", "all")) if options.tune else ()
    splits = request.splits
    planted = tuple(_planted(request, seed) for seed in range(options.seed, options.seed + options.planted))
    return Row(
        model=case.name,
        place=place,
        samples=len(splits.search),
        held=len(splits.holdout),
        float_score=floats[0],
        shipped=shipped[0],
        healed=healed[0],
        held_float=floats[1],
        held_shipped=shipped[1],
        held_healed=healed[1],
        repairs=_repairs(outcome),
        seconds=seconds,
        planted=planted,
        tuned=tuned,
    )


def request_of(case: Case, root: Path, place: str, goal: str) -> TuneRequest:
    """Return the question about a model with everything low at a place, with all repairs."""
    loaded = dovetail.normalize(dovetail.load_model(root / case.file, dovetail.LoadOptions(shapes=case.shapes)))
    lifted = dequantize(loaded) if is_quantized(loaded) else None
    graph: Graph = loaded if lifted is None else lifted.graph
    data = case.open(graph, root)
    calibration: Calibration = calibrate(graph, HeldSamples(data.calibration))
    samples = HeldSamples(data.samples, case.name)
    low = parse_placement(place)
    return TuneRequest(
        graph=graph,
        calibration=calibration if lifted is None else lifted.refine(calibration),
        samples=samples,
        splits=split_samples(samples),
        metric=data.metric,
        goal=parse_goal(goal),
        low=low,
        ladder=(parse_placement(f"{low.target}@i16"),),
        options=TuneOptions(repairs=CHOICES["all"]),
        costs=CostOptions(most_tests=0, vendor_s=0.0),
    )


def _data(request: TuneRequest, model: HealedModel) -> EvaluationData:
    source = request.graph if model.records else None
    samples = SampleSet(request.graph, request.samples)
    metric = request.metric
    return EvaluationData(model.graph, samples, metric, metric.name, request.options.policy.evaluation, source)


def _scores(request: TuneRequest, model: HealedModel) -> tuple[float, float]:
    space = make_space(model.graph, request.low, request.ladder, request.wishes, SpaceOptions(model.records))
    executor = fast_executor(model.graph, request.low.target, space.targets)
    evaluator = executor.evaluator(_data(request, model), model.calibration.ranges)
    search, held = (evaluator.evaluate(space.base, part).score for part in _parts(request))
    return abs(search), abs(held)


def _float_scores(request: TuneRequest) -> tuple[float, float]:
    space = make_space(request.graph, request.low, request.ladder)
    executor = fast_executor(request.graph, request.low.target, space.targets)
    evaluator = executor.evaluator(
        _data(request, HealedModel(request.graph, request.calibration)), request.calibration.ranges
    )
    search, held = (evaluator.evaluate(space.float_plan, part).score for part in _parts(request))
    return abs(search), abs(held)


def _parts(request: TuneRequest) -> tuple[Sequence[int], Sequence[int]]:
    return request.splits.search, request.splits.holdout


def _planted(request: TuneRequest, seed: int) -> Mapping[str, float]:
    """Return what planted scales do to everything low on the hold-out, and what is left of it after healing."""
    ties = find_ties(request.graph)
    free = ~ties.pinned
    for clamp in ties.clamps:
        free[ties.of(clamp.tensor)] &= not (math.isfinite(clamp.high) or clamp.low != 0)
    octaves = np.random.default_rng(seed).normal(0, SPREAD, ties.count) * free
    steps = np.rint(octaves * STEPS_PER_OCTAVE).astype(int)
    around = dict.fromkeys(name for view in ties.views for name in (view.node.inputs[0], view.node.outputs[0]))
    record = RepairRecord("equalise", {name: tuple(steps[ties.of(name)].tolist()) for name in around})
    graph = Equalise().apply(request.graph, record)
    carried = Equalise().carry(request.graph, request.calibration, record)
    calibration = replace(carried, ranges=replace(carried.ranges, graph_digest=graph.digest))
    broken = replace(request, graph=graph, calibration=calibration)
    outcome = heal_request(broken, SilentSearch())
    start = HealedModel(graph, calibration)
    scores = {name: _scores(broken, item)[1] for name, item in (("broken", start), ("healed", outcome.repaired))}
    return {"seed": seed, "classes": int(free.sum()), **scores}


def _repairs(outcome: HealingOutcome) -> str:
    trials = outcome.healing.trials
    return ", ".join(f"{item.kind} ({number(abs(item.score_without), 3)})" for item in trials) or "none"


def _tuned(request: TuneRequest, choice: str) -> Mapping[str, object]:
    started = time.perf_counter()
    options = replace(request.options, repairs=CHOICES[choice])
    result: TuneResult = tune(replace(request, options=options))
    proof = result.certificate
    return {
        "raised": len(result.raised),
        "units": result.unit_count,
        "accepted": result.accepted,
        "ms": None if proof is None else proof.cost.latency_ns / 1e6,
        "plans": result.cost.trials,
        "s": time.perf_counter() - started,
    }


def page(rows: Sequence[Row]) -> str:
    """Return the page."""
    cells = [
        (
            row.model,
            row.place,
            str(row.samples),
            number(row.float_score),
            number(row.shipped),
            number(row.healed),
            str(row.held),
            number(row.held_shipped),
            number(row.held_healed),
            row.repairs,
            f"{row.seconds:.0f}",
        )
        for row in sorted(rows, key=lambda item: (item.model, item.place))
    ]
    lines = [
        "# Repairs",
        "",
        "Made by `python benchmarks/repair_table.py --page docs/reference/repair.md`; do not edit. What repairs do"
        " before anything is raised: the scores of everything low as shipped, and with the repairs that a search keeps."
        " They are chosen on the search split (`as shipped`, `healed`); the columns `there` are of the hold-out, which"
        " chose nothing. The models are a collection that is not part of this repository.",
        "",
        *machine.facts(("dovetail", "onnxruntime", "numpy")),
        "",
        *_summary(rows),
        "",
        markdown((*_HEADS, *_MORE), cells),
        "",
        *_planted_lines(rows),
        *_tuned_lines(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    lost = [row for row in rows if row.held_float - row.held_shipped > 0.01]
    better = [row for row in lost if row.held_healed > row.held_shipped]
    worse = [row for row in rows if row.held_healed < row.held_shipped - 0.01]
    whole = sum(row.held_float - row.held_shipped for row in lost)
    left = sum(row.held_float - row.held_healed for row in lost)
    yield (
        f"{len(rows)} rows. On the hold-out {len(lost)} lose more than 0.01 as shipped; repairs make {len(better)} of "
        f"them better, and leave {left:.3g} of the {whole:.3g} that they lose together. {len(worse)} of all rows are "
        "worse by more than 0.01 with the repairs that were chosen."
    )


def _planted_lines(rows: Sequence[Row]) -> Iterator[str]:
    planted = [row for row in rows if row.planted]
    if not planted:
        return
    yield "## Planted scales"
    yield ""
    yield (
        "Channels of every class that may be scaled, clips excepted, are scaled by a power of two drawn with a "
        f"deviation of {SPREAD:g} octaves, and back where they are read: the float function stays. Scores of all at "
        "low precision on the hold-out."
    )
    yield ""
    cells = [
        (
            row.model,
            row.place,
            number(row.held_shipped),
            str(item["seed"]),
            number(item["broken"]),
            number(item["healed"]),
        )
        for row in sorted(planted, key=lambda item: (item.model, item.place))
        for item in row.planted
        if item["classes"]
    ]
    yield markdown(("model", "place", "as shipped", "seed", "planted", "healed"), cells)
    yield ""


def _tuned_lines(rows: Sequence[Row]) -> Iterator[str]:
    searched = [row for row in rows if row.tuned]
    if not searched:
        return
    yield "## Searched without repairs, and with them"
    yield ""
    cells = [_tuned_cells(row) for row in sorted(searched, key=lambda item: (item.model, item.place))]
    yield markdown(
        ("model", "place", "", "raised", "of", "accepted", "ms", "plans", "s"),
        [cell for pair in cells for cell in pair],
    )


def _tuned_cells(row: Row) -> list[tuple[str, ...]]:
    return [
        (
            row.model,
            row.place,
            title,
            str(item["raised"]),
            str(item["units"]),
            "yes" if item["accepted"] else "no",
            "-" if item["ms"] is None else f"{item['ms']:.2f}",
            str(item["plans"]),
            f"{item['s']:.0f}",
        )
        for title, item in zip(("without", "with"), row.tuned, strict=True)
    ]


def _kept(path: Path | None) -> dict[tuple[str, str], Row]:
    if path is None or not path.is_file():
        return {}
    rows = [Row(**json.loads(line)) for line in path.read_text().splitlines()]
    return {(row.model, row.place): row for row in rows}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[], choices=[case.name for case in CASES])
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--goal", default="1%")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--planted", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
