"""How many samples the race needs, and how often it is wrong, on simulated plans; no model runs.

python benchmarks/racing.py [--plans 200] [--json]

Float is right on 90 % of the samples, one more wrong in a hundred is allowed, and a plan loses a share of what float
gets right. Beside it the rule that was there before: three standard errors, from 64 samples on.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

import zoo.machine as machine
from dovetail.search.oracle import Split
from dovetail.search.policy import RacePolicy
from dovetail.search.race import Race
from zoo.table import number, text

Floats = NDArray[np.float64]
_ALLOWED = 0.01


@dataclass(frozen=True, slots=True)
class Row:
    """Hold mean shares of the samples that were evaluated."""

    loses: float
    samples: int
    betting: float
    three_errors: float


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=200, help="plans a row (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = [
        _row(rng, loses, samples, options.plans)
        for loses in (0.8, 0.5, 0.3, 0.15, 0.08, 0.04)
        for samples in (72, 240, 600)
    ]
    if options.json:
        print(json.dumps({"facts": machine.facts(), "rows": [asdict(row) for row in rows]}))
    else:
        heads = ("plan loses", "samples", "evaluated: betting", "three errors")
        cells = [
            (f"{row.loses:.0%}", str(row.samples), number(row.betting, 3), number(row.three_errors, 3)) for row in rows
        ]
        print("\n".join(machine.facts()), text(heads, cells), sep="\n\n")
    return 0


def _row(rng: np.random.Generator, loses: float, samples: int, plans: int) -> Row:
    stops = np.cumsum([len(block) for block in Split("s", tuple(range(samples))).blocks(RacePolicy())])[:-1].tolist()
    spent: list[tuple[float, float]] = []
    for _ in range(plans):
        good = (rng.random(samples) < 0.9).astype(np.float64)
        scores = good * (rng.random(samples) > loses)
        race, lost = Race.against(good), good - scores
        bets = (stop for stop in stops if race.rejects(scores[:stop], _ALLOWED))
        errors = (stop for stop in stops if stop >= 64 and _three_errors(lost[:stop], samples))
        spent.append((next(bets, samples) / samples, next(errors, samples) / samples))
    means = np.mean(spent, axis=0)
    return Row(loses, samples, float(means[0]), float(means[1]))


def _three_errors(losses: Floats, total: int) -> bool:
    count = len(losses)
    variance = float(np.var(losses)) + max(float(np.abs(losses).max(initial=0.0)), 1e-12) ** 2 / count
    return float(losses.mean()) - _ALLOWED > 3.0 * math.sqrt(variance / count * (1 - count / total))


if __name__ == "__main__":
    raise SystemExit(main())
