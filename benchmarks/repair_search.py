"""What searches with repairs end with: raised units, latency, evaluations. Write docs/reference/repair_search.md.

Each row is a search with all repairs, judged on the hold-out. Beside it is what the page of real models has: the search
of before there were repairs. Rows are kept with their commit, so that they can be measured one by one.

python benchmarks/repair_search.py [--model NAME ...] [--target PLACE ...] [--keep FILE] [--page [FILE]]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import zoo.machine as machine
from dovetail.errors import DovetailError
from dovetail.search import CostOptions, tune
from repair_table import TARGETS, request_of
from zoo.case import Case
from zoo.catalogue import CASES, models_root
from zoo.table import markdown

GOAL = "3%"
_REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
_PAGE = _REFERENCE / "repair_search.md"
_SEARCH_S = 120.0
_SHARE = 0.8
"""Share of the units that a plan raises at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """One search; scores are on the hold-out."""

    model: str
    place: str
    commit: str
    verdict: str
    float_score: float
    low: float
    tuned: float
    raised: int
    units: int
    on_cpu: int
    ms: float | None
    evaluations: float
    plans: int
    cpu_s: float
    repairs: tuple[str, ...]
    unpaid: tuple[str, ...]


def main() -> int:
    """Measure what is not kept, and write the page."""
    options = _arguments()
    rows = list(_kept(options.keep))
    known = {(row.model, row.place) for row in rows}
    for case in CASES:
        for place in options.target or TARGETS:
            if (options.model and case.name not in options.model) or (case.name, place) in known or options.kept:
                continue
            try:
                row = measure(case, models_root(), place)
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


def measure(case: Case, root: Path, place: str) -> Row:
    """Return the row of one search."""
    request = request_of(case, root, place, GOAL)
    started = time.process_time()
    options = replace(request.options, time_limit_s=_SEARCH_S)
    result = tune(replace(request, options=options, costs=CostOptions()))
    proof, healing = result.certificate, result.healing
    held = result.holdout
    return Row(
        model=case.name,
        place=place,
        commit=machine.facts(())[0].removeprefix("commit: "),
        verdict=result.verdict.value,
        float_score=held.float_score,
        low=held.low,
        tuned=held.tuned,
        raised=len(result.raised),
        units=result.unit_count,
        on_cpu=sum(item.placement.target == "cpu" for item in result.raised),
        ms=None if proof is None else proof.cost.latency_ns / 1e6,
        evaluations=result.cost.full_equivalents,
        plans=result.cost.trials,
        cpu_s=time.process_time() - started,
        repairs=() if healing is None else tuple(item.kind for item in healing.trials),
        unpaid=() if healing is None else healing.unpaid,
    )


def page(rows: Sequence[Row]) -> str:
    """Return the page."""
    before = _before()
    rows = sorted(rows, key=lambda item: (item.place, item.model))
    cells = [_cells(row, before.get((row.model, row.place))) for row in rows]
    heads = (
        *("model", "place", "verdict", "float", "low", "tuned", "raised", "on the CPU", "ms", "evals", "plans"),
        *("cpu s", "repairs", "raised before", "evals before", "commit"),
    )
    lines = [
        "# Searches with repairs",
        "",
        "Made by `python benchmarks/repair_search.py --page docs/reference/repair_search.md`; do not edit. Each row is"
        f" a search with the metric of the collection: everything low first, all repairs, a loss of {GOAL} of float's"
        f" score allowed, {_SEARCH_S:.0f} s for evaluations. Scores are of the hold-out, which selects nothing; `low`"
        " is everything low with the repairs that cost nothing. `ms` is what the fitted prices say of the plan, `evals`"
        " all evaluated samples over those of the search split. `before` are the searches of [real models](models.md),"
        " by bits alone, which allow a loss of 0.03 at once. The models are a collection that is not part of this"
        " repository; the hold-out has from 3 to 398 samples.",
        "",
        *machine.facts(("dovetail", "onnxruntime", "numpy")),
        "",
        *_summary(rows, before),
        "",
        markdown(heads, cells),
        "",
        *_notes(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _cells(row: Row, before: tuple[int, str] | None) -> tuple[str, ...]:
    return (
        row.model,
        row.place,
        row.verdict,
        *(f"{score:.3f}" for score in (row.float_score, row.low, row.tuned)),
        f"{row.raised}/{row.units}",
        str(row.on_cpu),
        "-" if row.ms is None else f"{row.ms:.2f}",
        f"{row.evaluations:.0f}",
        str(row.plans),
        f"{row.cpu_s:.0f}",
        ", ".join(row.repairs) or "none",
        *(("-", "-") if before is None else (str(before[0]), before[1])),
        row.commit,
    )


def _summary(rows: Sequence[Row], before: Mapping[tuple[str, str], tuple[int, str]]) -> Iterator[str]:
    both = [(row, before[row.model, row.place][0]) for row in rows if (row.model, row.place) in before]
    more = [f"{row.model} at {row.place}" for row, old in both if row.raised > old]
    crowded = [f"{row.model} at {row.place}" for row in rows if row.raised > _SHARE * row.units]
    yield (
        f"{len(rows)} rows; {sum(row.raised == 0 for row in rows)} raise nothing. In the {len(both)} that were searched"
        f" before, {sum(row.raised for row, _ in both)} units are raised instead of {sum(old for _, old in both)};"
        f" more than before in {', '.join(more) or 'none'}. More than {_SHARE:.0%} of the units are raised in"
        f" {', '.join(crowded) or 'none'}."
    )


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    notes = [f"- {row.model} at {row.place}: {text}." for row in rows for text in row.unpaid]
    if notes:
        yield "## Repairs that cost latency and were not worth it"
        yield ""
        yield from notes


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
