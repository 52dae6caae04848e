"""What `advise --rewrites` does to networks drawn from a seed: what is proved, what stays on the NPU, what it saves.

python benchmarks/rewrites_table.py [--count N] [--seed N] [--json] [--page [FILE]]
"""

from __future__ import annotations

import argparse
import json
import secrets
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import onnx

import zoo.machine as machine
from dovetail.fit.advice import AdviceRequest
from dovetail.fit.rewriting import TAKEN, TOGETHER, UNPROVED, try_rewrites
from zoo.rewritable import FAMILIES
from zoo.shares import clopper_pearson
from zoo.table import markdown, text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "rewrites.md"
_TARGETS = ("vsi:v853", "vsi:a311d", "vsi:imx8mp")
_HEADS = (
    *("networks", "target", "rewrite", "matches", "proved", "refused, then taken by the NPU"),
    *("saves", "latency after, of before: median", "least", "most"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What one rewrite did to one network."""

    family: str
    target: str
    rewrite: str
    proved: bool
    refused_before: int
    refused_after: int
    saves: bool
    ratio: float | None
    """Latency with it alone, of the latency without."""


def measure(count: int, seed: int) -> list[Found]:
    """Return what rewrites do to so many networks of each family on each target."""
    rows: list[Found] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.onnx"
        for number, (family, draw) in enumerate(FAMILIES.items()):
            for index in range(count):
                onnx.save(draw(np.random.default_rng([seed, number, index])), path)
                for target in _TARGETS:
                    rows += _of_one(path, family, target)
    return rows


def _of_one(path: Path, family: str, target: str) -> Iterable[Found]:
    for row in try_rewrites(AdviceRequest(path, targets=(target,))).rows:
        if row.name == TOGETHER:
            continue
        before, after = row.before.latency_ns, row.after.latency_ns
        ratio = None if before is None or after is None else after / before
        yield Found(
            *(family, target, row.name, row.outcome != UNPROVED, row.refused_before, row.refused_after),
            *(row.outcome == TAKEN, ratio),
        )


def cells(rows: Sequence[Found]) -> list[tuple[str, ...]]:
    """Return a line for each family, target and rewrite."""
    groups: dict[tuple[str, str, str], list[Found]] = {}
    for row in rows:
        groups.setdefault((row.family, row.target, row.rewrite), []).append(row)
    lines = []
    for key, found in groups.items():
        refused = [row for row in found if row.refused_before]
        ratios = [row.ratio for row in found if row.ratio is not None]
        figures = (f"{one:.2f}" for one in (median(ratios), min(ratios), max(ratios))) if ratios else ("-",) * 3
        cured = f"{sum(row.refused_after == 0 for row in refused)} of {len(refused)}" if refused else "-"
        proved, saves = sum(row.proved for row in found), sum(row.saves for row in found)
        lines.append((*key, str(len(found)), str(proved), cured, str(saves), *figures))
    return lines


def page(rows: Sequence[Found], count: int, seed: int) -> str:
    """Return the page."""
    proved = sum(row.proved for row in rows)
    refused = [row for row in rows if row.refused_before]
    cured = sum(row.refused_after == 0 for row in refused)
    low, high = clopper_pearson(proved, len(rows))
    least, most = clopper_pearson(cured, len(refused))
    return f"""# Rewrites

Made by `python benchmarks/rewrites_table.py --count {count} --seed {seed} --page`; do not edit.
[What rewrites are](../how-to/advise.md).

{"; ".join(machine.facts())}

{count} networks of each family are drawn from the seed {seed}: a convolution, what the family is named after with
random sizes, and mostly another convolution. Each rewrite that matches is tried alone on each target, everything in 8
bits, what the NPU refuses on the chip's CPU. Latencies are those of the [fitted prices](price.md), not of a board: what
is far below 1 is to be believed, what is near 1 is not. The families were chosen so that something matches; nothing was
chosen on their figures. A trial is a rewrite on a network on a target; trials on one network are alike, so that the
intervals are somewhat too narrow.

- {proved} of {len(rows)} trials are proved: float outputs of ONNX Runtime differ by at most 0.0001 of the largest value
  (95 %: {low:.3f} to {high:.3f}).
- Of {len(refused)} that match a node which the NPU refuses, {cured} leave nothing refused in its place
  (95 %: {least:.3f} to {most:.3f}).

{markdown(_HEADS, cells(rows))}

*saves* counts networks in which the rewrite was taken: it saved at least 0.5 %, upon those that save more. Where a
figure is above 1 the rewrite costs, and is not taken.
"""


def main() -> None:
    """Measure, and show or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5, help="networks of each family")
    parser.add_argument("--seed", type=int, help="a new one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", nargs="?", const=_PAGE, type=Path, metavar="FILE", help="write the page")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 16) if options.seed is None else options.seed
    rows = measure(options.count, seed)
    if options.page is not None:
        options.page.write_text(page(rows, options.count, seed), encoding="utf-8")
    elif options.json:
        print(json.dumps({"seed": seed, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(f"seed {seed}")
        print(text(_HEADS, cells(rows)))


if __name__ == "__main__":
    main()
