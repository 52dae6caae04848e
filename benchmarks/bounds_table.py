"""How often bounds of the loss cover it, by the number of samples and the true loss; write docs/reference/bounds.md.

python benchmarks/bounds_table.py [--json] [--page [FILE]]

Samples are lost or not, independently. A bound is then a function of how many are lost, which is binomial, so that the
figures are exact: no model runs and nothing is drawn.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats

import zoo.machine as machine
from dovetail.search import SearchPolicy
from dovetail.search.bounds import upper_bound
from zoo.table import markdown, text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "bounds.md"
_CONFIDENCE = SearchPolicy().acceptance.confidence
_COUNTS = (2, 10, 30, 60, 120, 400, 1000)
_LOSSES = (0.01, 0.02, 0.05)
_GOALS = (0.01, 0.03, 0.05)

Bound = Callable[[int, int], float]
"""Returns the bound for some lost samples of some."""


@cache
def _betting(lost: int, count: int) -> float:
    return upper_bound(np.arange(count) < lost, 1.0, _CONFIDENCE)


def _exact(lost: int, count: int) -> float:
    """Return the bound of Clopper and Pearson, which is for samples that are lost or not."""
    return float(stats.beta.ppf(_CONFIDENCE, lost + 1, count - lost)) if lost < count else 1.0


def _normal(lost: int, count: int) -> float:
    """Return the interval of a normal approximation (Wald), which reports used to show."""
    share = lost / count
    return share + stats.norm.ppf(_CONFIDENCE) * math.sqrt(share * (1 - share) / max(1, count - 1))


_BOUNDS: tuple[tuple[str, Bound], ...] = (("betting", _betting), ("Clopper-Pearson", _exact), ("normal", _normal))


@dataclass(frozen=True, slots=True)
class Row:
    """The probability that each bound is at least the true loss."""

    samples: int
    loss: float
    betting: float
    clopper_pearson: float
    normal: float


def _coverage(bound: Bound, count: int, loss: float) -> float:
    covering = next((lost for lost in range(count + 1) if bound(lost, count) >= loss), count + 1)
    return float(1 - stats.binom.cdf(covering - 1, count, loss))


def rows() -> list[Row]:
    """Return the coverage of every bound."""
    return [
        Row(count, loss, *(_coverage(bound, count, loss) for _, bound in _BOUNDS))
        for count in _COUNTS
        for loss in _LOSSES
    ]


def needed(goal: float, lost: int) -> int:
    """Return how many samples it takes to be confident of a goal when some are lost."""
    count = lost + 1
    while _betting(lost, count) > goal:
        count = math.ceil(count * 1.02) + 1
    while _betting(lost, count - 1) <= goal:
        count -= 1
    return count


def _coverage_table(found: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    heads = ["samples", "true loss", *(name for name, _ in _BOUNDS)]
    return heads, [
        [
            str(row.samples),
            f"{row.loss:.0%}",
            *(f"{share:.3f}" for share in (row.betting, row.clopper_pearson, row.normal)),
        ]
        for row in found
    ]


def _needed_table() -> tuple[list[str], list[list[str]]]:
    heads = ["lost", *(f"goal {goal:.0%}" for goal in _GOALS)]
    return heads, [[str(lost), *(str(needed(goal, lost)) for goal in _GOALS)] for lost in (0, 1, 2, 4, 8)]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE, help="write the reference page")
    options = parser.parse_args()
    found = rows()
    if options.page is not None:
        _write_page(options.page, found)
    if options.json:
        print(json.dumps({"facts": machine.facts(), "rows": [asdict(row) for row in found]}))
    else:
        print(text(*_coverage_table(found)), text(*_needed_table()), sep="\n\n")
    return int(any(row.betting < _CONFIDENCE for row in found))


def _write_page(page: Path, found: Sequence[Row]) -> None:
    parts = [
        "# Bounds of the loss",
        "Made by `python benchmarks/bounds_table.py --page`; do not edit. Nothing is drawn: samples are lost or not, "
        "so that a bound is a function of how many are, and the figures are exact.",
        f"Upper bounds of {_CONFIDENCE:.0%} confidence (`dovetail.search.bounds`). *Betting* is a betting test, "
        "inverted: it holds for any losses of known range, graded ones too. *Clopper-Pearson* is the "
        "tightest bound where "
        "samples are lost or not, and is taken there; *normal* is there for comparison. A verdict takes half "
        "of the doubt "
        "that is left for each look at the hold-out, so that its bounds are wider ([verdicts](verdicts.md)).",
        "## How often the bound is at least the true loss",
        markdown(*_coverage_table(found)),
        "## Samples that it takes to be confident by betting, by how many of them are lost",
        markdown(*_needed_table()),
        "A bound is one of new samples only where the samples did not select the plan: the search split's did, unless "
        "nothing is raised.",
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
