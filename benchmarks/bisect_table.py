"""How many runs `dovetail bisect` takes on the digit detector, judged by a shell script around ONNX Runtime.

python benchmarks/bisect_table.py [--json]

With a model, the units are ordered by what noise shows; with lines alone, by their place in the file. Each once with a
judge that always answers and once with one that crashes (exit code 125) on every fifth run, which counts as a run.
`least` is what any method takes at worst that knows only n and k: it has to tell C(n, k) sets apart by yes and no.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

import zoo.machine as machine
from dovetail.search.bisect.strategy import bound
from zoo.table import text

_ROOT = Path(__file__).resolve().parents[1]
_MODEL = _ROOT / "examples" / "digits" / "digits.onnx"
_SCRIPT = """#!/bin/sh
count=$(($(cat count 2>/dev/null || echo 0) + 1)); echo $count > count
[ {crash} -gt 0 ] && [ $((count % {crash})) -eq 0 ] && exit 125
"{python}" "{judge}" "$1" quantised.onnx > said 2> errors || exit 125
cat said; awk '$1 == "score" {{ exit !($2 >= 0.965) }}' said
"""


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one bisection; `bound` is 2 log2(n) + 3 k for k culprits of n lines, `least` by counting (see above)."""

    start: str
    crashes: str
    lines: int
    culprits: tuple[str, ...]
    runs: int
    bound: int
    least: int


def main() -> int:
    """Bisect four times; the exit code is 1 when a bisection exceeds a bound that can be kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = [_bisect(lines, crash) for lines in (False, True) for crash in (0, 5)]
    if options.json:
        print(json.dumps({"facts": machine.facts(), "rows": [asdict(row) for row in rows]}))
    else:
        heads = ("start", "judge", "lines", "culprits", "runs", "2 log2(n) + 3 k", "least")
        cells = [
            (
                row.start,
                row.crashes,
                str(row.lines),
                str(len(row.culprits)),
                str(row.runs),
                str(row.bound),
                str(row.least),
            )
            for row in rows
        ]
        print("\n".join(machine.facts()), text(heads, cells), "culprits: " + ", ".join(rows[0].culprits), sep="\n\n")
    return int(any(row.runs > row.bound for row in rows if row.least <= row.bound))


def _bisect(by_lines: bool, crash: int) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        judge = folder / "judge.sh"
        words = {"crash": crash, "python": sys.executable, "judge": _ROOT / "benchmarks" / "judges" / "ort_score.py"}
        judge.write_text(_SCRIPT.format(**words))
        judge.chmod(0o755)
        start = ("--model", str(_MODEL))
        if by_lines:
            nodes = onnx.load(_MODEL).graph.node
            (folder / "names.txt").write_text("".join(f"{node.name}\n" for node in nodes))
            start = ("--lines", "names.txt")
        _say(folder, "start", *start)
        found = json.loads(_say(folder, "run", "--json", "--", "./judge.sh", "candidate.txt"))
    culprits = tuple(found["culprits"])
    crashes = f"exit code 125 on every run that {crash} divides" if crash else "always answers"
    most = bound(found["lines"], len(culprits))
    least = _least(found["lines"], len(culprits), crash)
    return Row(start[0], crashes, found["lines"], culprits, found["runs"], most, least)


def _least(lines: int, culprits: int, crash: int) -> int:
    """Return the runs of which enough answer to tell all sets of so many culprits apart."""
    answers = math.ceil(math.log2(math.comb(lines, culprits)))
    return next(runs for runs in itertools.count(answers) if runs - (runs // crash if crash else 0) >= answers)


def _say(folder: Path, *words: str) -> str:
    command = [sys.executable, "-c", "from dovetail.cli.main import main; main()", "bisect", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
