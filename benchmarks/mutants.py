"""Change the code in small ways and see whether a test notices: a seeded sample of the rooms of the core.

Run `make mutants` (`COUNT=300`, `SEED=1`). Each mutant is run against the tests that execute the changed lines, the
nearest first, until one fails. What was measured and judged is kept in `build/mutants`: after Ctrl-C the same command
goes on where it was. `--page` writes docs/reference/tests.md. Needs the extra `mutants`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mutation.child import preload
from mutation.equivalent import read_equivalents, stale
from mutation.page import Judged, Run, as_markdown, listing, rows
from mutation.session import Session
from mutation.sites import Mutant, Source, draw
from mutation.verdict import Verdict
from zoo.table import text

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dovetail"
PAGE = ROOT / "docs" / "reference" / "tests.md"
ROOMS = ("ir", "plan", "quantize", "partition", "search", "bundle", "cost")
_PRELOADED = ("numpy", "scipy.stats", "onnx", "onnxruntime", "hypothesis.strategies", "rich.console", "typer", "yaml")


def main() -> int:
    """Draw, run, and print the table and the survivors; the exit code is 1 where the list of equivalents is wrong."""
    options = _arguments()
    preload(_PRELOADED)
    session = Session(ROOT, ROOT / "build" / "mutants", options.cap_s, tuple(options.tests), _say)
    session.fill_slots(options.workers)
    sample = list(draw(_sources(options.rooms), options.seed, options.count))
    reach = session.reach()
    verdicts = session.verdicts(sample, reach)
    equivalents = read_equivalents()
    judged = [_judged(mutant, verdicts[mutant.key], mutant.key in equivalents) for mutant in sample]
    run = Run(options.seed, options.cap_s, reach, judged, tuple(options.rooms), tuple(options.tests))
    print(text(*rows(run)))
    print("\nSurvivors:\n\n" + "\n".join(listing([entry for entry in judged if entry.survived])))
    if options.page:
        PAGE.write_text(as_markdown(run), encoding="utf-8")
    wrong = [f"{entry.file}: {entry.key} is no mutant any more" for entry in stale(PACKAGE, equivalents.values())]
    wrong += [f"{key} is called equivalent, but {verdicts[key].by} fails" for key in _refuted(equivalents, verdicts)]
    print("\n".join(wrong))
    return 1 if wrong else 0


def _sources(rooms: Sequence[str]) -> list[Source]:
    paths = [path for room in rooms for path in sorted((PACKAGE / room).rglob("*.py"))]
    return [Source(PACKAGE, path.relative_to(PACKAGE).as_posix()) for path in paths]


def _judged(mutant: Mutant, verdict: Verdict, is_equivalent: bool) -> Judged:
    return Judged(mutant, "equivalent" if is_equivalent and not verdict.killed else verdict.how, verdict.by)


def _refuted(equivalents: Sequence[str], verdicts: dict[str, Verdict]) -> list[str]:
    return [key for key in equivalents if key in verdicts and verdicts[key].killed]


def _say(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS, metavar="ROOM", help="rooms to draw from")
    parser.add_argument("--tests", nargs="+", default=["tests/"], help="what paths of test files begin with")
    parser.add_argument("--cap-s", type=float, default=60.0, help="processor time that a mutant's tests take at most")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--page", action="store_true", help="write docs/reference/tests.md")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
