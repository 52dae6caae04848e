"""Kill commands, flip bytes of what they wrote, take files away, fill the disk: is an answer ever silently another?

python benchmarks/torture.py [--kills 40] [--flips 100] [--fuzz 100] ... [--seed N] [--json FILE]

Without a seed a new one is drawn and printed. With `--json` counts are written as they come, and the same command goes
on from them. Exit code 1 says that something gave another answer, or a traceback. `make torture` runs it.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from judges.tortured import Count, Workshop
from judges.torturers import fill_disk, flip_bytes, fuzz_parsers, kill_at_random, take_away
from judges.torturers_of_machines import jump_clock, limit_memory

_USUAL = {"kills": 40, "flips": 100, "files": 1000, "disks": 8, "fuzz": 100, "clocks": 8, "ceilings": 8}
"""Cases of a campaign by its option."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """One kind of damage: how many cases, and how many of them are done and written down at a time."""

    name: str
    work: Callable[[Workshop, int, np.random.Generator], Count]
    cases: int
    piece: int = 16


def campaigns(given: argparse.Namespace) -> tuple[Campaign, ...]:
    """Return the campaigns with as many cases as were asked for."""
    return (
        Campaign("kill -9, then the same command", kill_at_random, given.kills),
        Campaign("one flipped byte", flip_bytes, given.flips),
        Campaign("unreadable, missing or empty files", take_away, given.files, max(1, given.files)),
        Campaign("a disk that is full", fill_disk, given.disks),
        Campaign("mutants of every file", fuzz_parsers, given.fuzz),
        Campaign("a clock that jumps", jump_clock, given.clocks),
        Campaign("a ceiling of memory", limit_memory, given.ceilings),
    )


def torture(folder: Path, seed: int, asked: tuple[Campaign, ...], record: Path | None) -> dict[str, Count]:
    """Return what came of each campaign, by name; pieces that are on record for this seed are not done again."""
    done = _recorded(record, seed)
    shop = Workshop(folder)
    for number, campaign in enumerate(asked):
        begin = time.monotonic()
        found = done.setdefault(campaign.name, Count())
        for piece in range(found.pieces, -(-campaign.cases // campaign.piece)):
            count = min(campaign.piece, campaign.cases - piece * campaign.piece)
            found.join(campaign.work(shop, count, np.random.default_rng([seed, number, piece])))
            found.pieces = piece + 1
            if record is not None:
                rows = {name: asdict(item) for name, item in done.items()}
                record.write_text(json.dumps({"seed": seed, **rows}, indent=1))
            print(f"{campaign.name}: {found.text()} ({time.monotonic() - begin:.0f} s)", flush=True)
        for problem in found.problems:
            print(f"  {problem}", flush=True)
    return done


def _recorded(record: Path | None, seed: int) -> dict[str, Count]:
    if record is None or not record.is_file():
        return {}
    rows = json.loads(record.read_text())
    return {name: Count(**item) for name, item in rows.items() if name != "seed"} if rows["seed"] == seed else {}


def main() -> int:
    """Run all campaigns and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in _USUAL.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None, help="write the counts there, and go on from them")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = torture(Path(folder), seed, campaigns(given), given.json)
    return 1 if any(item.problems for item in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
