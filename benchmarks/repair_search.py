"""What searches with repairs end with: raised units, latency, evaluations. Write docs/reference/repair_search.md.

Each row is a search with all repairs, judged on the hold-out. Beside it is the same search without them, and what the
page of real models has: the search of before there were repairs. Searches are kept with their commit, so that they can
be measured one by one.

python benchmarks/repair_search.py [--model NAME ...] [--target PLACE ...] [--keep FILE] [--page [FILE]]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import zoo.machine as machine
from dovetail.errors import DovetailError
from dovetail.repair import CHOICES
from dovetail.search import CostOptions, TuneResult, tune
from repair_table import TARGETS, request_of
from zoo.case import Case
from zoo.catalogue import CASES, models_root
from zoo.table import markdown

GOAL = "3%"
_REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
_PAGE = _REFERENCE / "repair_search.md"
_SEARCH_S = 120.0
_VENDOR_S = 20.0
"""What the command line gives the vendor's model for prices."""
CHOSEN = ("all", "none")
_NOISE = 0.005
"""No price is more exact than this share."""
_SHARE = 0.8
"""Share of the units that a plan raises at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """One search; scores are on the hold-out."""

    model: str
    place: str
    choice: str
    """Which repairs were allowed."""
    commit: str
    verdict: str
    float_score: float
    low: float
    tuned: float
    raised: int
    units: int
    on_cpu: int
    ms: float | None
    low_ms: float | None
    """Everything low, whether it meets the goal or not."""
    evaluations: float
    plans: int
    wall_s: float
    repairs: tuple[str, ...]
    unpaid: tuple[str, ...]
    fewer: str
    """What became of the best plan tried that raises a fifth fewer units; empty where the answer raises few."""


def main() -> int:
    """Measure what is not kept, and write the page."""
    options = _arguments()
    rows = list(_kept(options.keep))
    known = {(row.model, row.place, row.choice) for row in rows}
    for case in CASES:
        for place, choice in product(options.target or TARGETS, CHOSEN):
            if (options.model and case.name not in options.model) or (case.name, place, choice) in known:
                continue
            try:
                row = None if options.kept else measure(case, models_root(), place, choice)
            except DovetailError as error:
                print(f"{case.name} {place} {choice}: {error}", file=sys.stderr, flush=True)
                continue
            if row is None:
                continue
            rows.append(row)
            print(json.dumps(asdict(row)), flush=True)
            if options.keep is not None:
                with options.keep.open("a") as stream:
                    stream.write(json.dumps(asdict(row)) + "\n")
    if options.page is not None:
        options.page.write_text(page(rows), encoding="utf-8")
    return 0


def measure(case: Case, root: Path, place: str, choice: str) -> Row:
    """Return the row of one search."""
    request = request_of(case, root, place, GOAL)
    started = time.perf_counter()
    options = replace(request.options, time_limit_s=_SEARCH_S, repairs=CHOICES[choice])
    result = tune(replace(request, options=options, costs=CostOptions(vendor_s=_VENDOR_S)))
    proof, healing = result.certificate, result.healing
    held = result.holdout
    priced = [(len(point.raised), point.chosen, point.latency_ns / 1e6) for point in result.front]
    chosen = next((ms for _, taken, ms in priced if taken), None)
    low = next((ms for count, _, ms in priced if not count), None)
    return Row(
        model=case.name,
        place=place,
        choice=choice,
        commit=machine.facts(())[0].removeprefix("commit: "),
        verdict=result.verdict.value,
        float_score=held.float_score,
        low=held.low,
        tuned=held.tuned,
        raised=len(result.raised),
        units=result.unit_count,
        on_cpu=sum(item.placement.target == "cpu" for item in result.raised),
        ms=chosen if proof is None else proof.cost.latency_ns / 1e6,
        low_ms=low if proof is None else proof.low_ns / 1e6,
        evaluations=result.cost.full_equivalents,
        plans=result.cost.trials,
        wall_s=time.perf_counter() - started,
        repairs=() if healing is None else tuple(item.kind for item in healing.trials),
        unpaid=() if healing is None else healing.unpaid,
        fewer=_fewer(result),
    )


def _fewer(result: TuneResult) -> str:
    """Return what became of the best plan that raises a fifth fewer units than an answer that raises most of them."""
    raised = len(result.raised)
    tried = [point for point in result.pareto if len(point.raised) <= _SHARE * raised]
    if raised <= _SHARE * result.unit_count:
        return ""
    if not tried:
        return "no plan with a fifth fewer was tried"
    best = max(tried, key=lambda point: (point.score if result.higher_is_better else -point.score, -len(point.raised)))
    passed = "meets the goal there" if best.meets_target else "misses there"
    score = f"has {best.score:.4f} on the search split and {passed}"
    return f"the best tried with a fifth fewer raises {len(best.raised)}, {score}"


def page(searches: Sequence[Row]) -> str:
    """Return the page."""
    before = _before()
    rows = sorted((row for row in searches if row.choice == "all"), key=lambda item: (item.place, item.model))
    bare = {(row.model, row.place): row for row in searches if row.choice == "none"}
    cells = [_cells(row, bare.get((row.model, row.place)), before.get((row.model, row.place))) for row in rows]
    heads = (
        *("model", "place", "verdict", "float", "low", "tuned", "raised", "on the CPU", "low ms", "ms", "evals"),
        *("plans", "s", "repairs", "without: verdict", "tuned", "raised", "ms", "s"),
        *("raised before", "evals before", "commit"),
    )
    lines = [
        "# Searches with repairs",
        "",
        "Made by `python benchmarks/repair_search.py --page docs/reference/repair_search.md`; do not edit. Each row is"
        f" a search with the metric of the collection: everything low first, all repairs, a loss of {GOAL} of float's"
        f" score allowed, {_SEARCH_S:.0f} s for evaluations. Scores are of the hold-out, which selects nothing; `low`"
        " is everything low with the repairs that cost nothing. `ms` is what the vendor's model says of the plan's"
        " units, fitted prices where it was not asked in time; `low ms` that of everything low. `evals` are all"
        " evaluated samples over those of the search split. `without` is the same search by bits alone. `before` are"
        " the searches of [real models](models.md), by bits alone, which allow a loss of 0.03 at once. The models are a"
        " collection that is not part of this repository; the hold-out has from 3 to 398 samples.",
        "",
        *machine.facts(("dovetail", "onnxruntime", "numpy")),
        "",
        *_summary(rows, bare, before),
        "",
        markdown(heads, cells),
        "",
        *_notes(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _cells(row: Row, bare: Row | None, before: tuple[int, str] | None) -> tuple[str, ...]:
    return (
        row.model,
        row.place,
        row.verdict,
        *(f"{score:.3f}" for score in (row.float_score, row.low, row.tuned)),
        f"{row.raised}/{row.units}",
        str(row.on_cpu),
        *(_ms(value) for value in (row.low_ms, row.ms)),
        f"{row.evaluations:.0f}",
        str(row.plans),
        f"{row.wall_s:.0f}",
        ", ".join(row.repairs) or "none",
        *(("-",) * 5 if bare is None else _bare_cells(bare)),
        *(("-", "-") if before is None else (str(before[0]), before[1])),
        row.commit,
    )


def _bare_cells(row: Row) -> tuple[str, ...]:
    return row.verdict, f"{row.tuned:.3f}", str(row.raised), _ms(row.ms), f"{row.wall_s:.0f}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _summary(
    rows: Sequence[Row], bare: Mapping[tuple[str, str], Row], before: Mapping[tuple[str, str], tuple[int, str]]
) -> Iterator[str]:
    both = [(row, before[row.model, row.place][0]) for row in rows if (row.model, row.place) in before]
    more = [f"{row.model} at {row.place}" for row, old in both if row.raised > old]
    crowded = [f"{row.model} at {row.place}" for row in rows if row.raised > _SHARE * row.units]
    yield (
        f"{len(rows)} rows; {sum(row.raised == 0 for row in rows)} raise nothing. In the {len(both)} that were searched"
        f" before, {sum(row.raised for row, _ in both)} units are raised instead of {sum(old for _, old in both)};"
        f" more than before in {', '.join(more) or 'none'}. More than {_SHARE:.0%} of the units are raised in"
        f" {', '.join(crowded) or 'none'}."
    )
    pairs = [(row, bare[row.model, row.place]) for row in rows if (row.model, row.place) in bare]
    alike = [(row, other) for row, other in pairs if row.verdict == other.verdict]
    for title, some in (("all", pairs), ("those that end in the same words", alike)):
        yield ""
        yield _against_bits(title, some)


def _against_bits(title: str, pairs: Sequence[tuple[Row, Row]]) -> str:
    priced = [(row, other, row.ms, other.ms) for row, other in pairs if row.ms is not None and other.ms is not None]
    slower = [f"{row.model} at {row.place}" for row, _, ms, old in priced if ms > old * (1 + _NOISE)]
    ours, theirs = (sum(item[place] for item in priced) for place in (2, 3))
    met = sum(row.verdict != "missed" for row, *_ in priced), sum(other.verdict != "missed" for _, other, *_ in priced)
    return (
        f"Against bits alone, {len(priced)} rows ({title}): {ours:.1f} ms instead of {theirs:.1f}"
        f" ({ours / theirs - 1:+.0%}), at least likely met in {met[0]} instead of {met[1]}; slower in"
        f" {', '.join(slower) or 'none'}."
    )


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    notes = [f"- {row.model} at {row.place}: {text}." for row in rows for text in row.unpaid]
    if notes:
        yield "## Repairs that cost latency and were not worth it"
        yield ""
        yield from notes
        yield ""
    crowded = [f"- {row.model} at {row.place}: {row.raised} of {row.units}; {row.fewer}." for row in rows if row.fewer]
    if crowded:
        yield "## Answers that raise most units"
        yield ""
        yield from crowded


def _before() -> dict[tuple[str, str], tuple[int, str]]:
    """Return raised units and evaluations of the searches before there were repairs, from the page that has them."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for line in (_REFERENCE / "models.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 12 and "/" in cells[6]:
            part, _, precision = cells[1].partition(" ")
            found[cells[0], f"vsi:{part}@{precision}"] = int(cells[6].partition("/")[0]), cells[9]
    return found


def _kept(path: Path | None) -> Iterator[Row]:
    for line in path.read_text().splitlines() if path is not None and path.is_file() else ():
        row = json.loads(line)
        yield Row(**{**row, "repairs": tuple(row["repairs"]), "unpaid": tuple(row["unpaid"])})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[], choices=[case.name for case in CASES])
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--kept", action="store_true", help="measure nothing, write what is kept")
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
