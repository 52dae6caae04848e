"""Fuzz every parser of bytes from elsewhere, guided by coverage (atheris), from small corpora of our own.

python benchmarks/coverage_fuzz.py [TARGET...] [--seconds 600] [--seed N] [--jobs 1] [--work build/fuzz] [--list]

Each target runs in a process of its own for the time given, or for a count of inputs (`--runs`); what it found stays
in `--work` and is where the next run begins. A new seed is drawn and printed where none is given. Findings are inputs
that end otherwise than by an answer or by one line of a DovetailError, or take more than five seconds of processor
time: each is written down once, and the run goes on. Exit code 1 says that there were some; `--replay` gives those
inputs again. Without atheris, `--blind` mutates without looking at coverage. `make fuzz-coverage` runs it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fuzzing.names import TARGET_NAMES

_ABSENT = (
    "error: atheris is not installed: run pip install 'dovetail[fuzz]' (Linux, Python 3.11 to 3.13), or give --blind, "
    "which mutates without looking at coverage.\n"
)
_MOST_MB, _HANGS_S = 4096, 600
"""Bounds of a process: more memory, or more seconds for one input, end it and are a finding."""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What came of one target: inputs tried, edges of the code that were reached, and findings."""

    target: str
    inputs: int
    reached: int
    seconds: float
    findings: tuple[str, ...]

    def text(self) -> str:
        """Return it on one line."""
        reached = f", {self.reached} edges reached" if self.reached else ""
        return f"{self.target}: {self.inputs} inputs in {self.seconds:.0f} s{reached}, {len(self.findings)} findings"


def fuzz_target(target: str, given: argparse.Namespace, seed: int) -> Fuzzed:
    """Fuzz one target in a process of its own."""
    work = given.work / target
    work.mkdir(parents=True, exist_ok=True)
    found = work / "findings.jsonl"
    found.unlink(missing_ok=True)
    module = "fuzzing.child" if given.blind else "fuzzing.guide"
    call = [sys.executable, "-m", module, target, str(work), str(seed), str(given.seconds), str(given.runs)]
    call += [str(_MOST_MB), str(_HANGS_S), *(["blind"] if given.blind else [])]
    began = time.monotonic()
    paths = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        call, capture_output=True, text=True, errors="replace", env={**os.environ, "PYTHONPATH": paths}
    )
    said = done.stdout + done.stderr
    (work / "said.txt").write_text(said)
    lines = found.read_text().splitlines() if found.exists() else []
    findings = [f"{row['parser']}: {row['what']} ({row['where']}) {row['input']}" for row in map(json.loads, lines)]
    if done.returncode:
        findings.append(f"the process ended with {done.returncode}: {' '.join(said[-300:].split())} ({work}/said.txt)")
    inputs = re.findall(r"stat::number_of_executed_units: *(\d+)", said)
    reached = re.findall(r"cov: (\d+)", said)
    return Fuzzed(
        target, *(int(item[-1]) if item else 0 for item in (inputs, reached)), time.monotonic() - began, tuple(findings)
    )


def replay(targets: list[str], work: Path) -> list[str]:
    """Give every input that was ever a finding again; return those that still are."""
    from fuzzing.parser import attempt
    from fuzzing.targets import parsers_of

    left = []
    for target in targets:
        inputs = sorted((work / target).glob("finding-*"))
        with tempfile.TemporaryDirectory() as folder:
            parsers = parsers_of(target, Path(folder)) if inputs else ()
            for path in inputs:
                data = path.read_bytes()
                finding = attempt(parsers[data[0] % len(parsers)], data[1:])
                if finding is not None:
                    left.append(f"{path}: {finding.parser}: {finding.what} ({finding.where})")
    return left


def main() -> int:
    """Fuzz the targets of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGET_NAMES)}")
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--runs", type=int, default=-1, help="inputs for each target, instead of a time")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=1, help="targets at once")
    parser.add_argument("--work", type=Path, default=Path("build/fuzz"), help="corpora, findings and logs")
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=Path, default=None, help="also write the counts there")
    given = parser.parse_args()
    targets = given.targets or list(TARGET_NAMES)
    if unknown := [name for name in targets if name not in TARGET_NAMES]:
        parser.error(f"no target '{unknown[0]}': {', '.join(TARGET_NAMES)}")
    if given.list:
        print("\n".join(TARGET_NAMES))
        return 0
    if given.replay:
        left = replay(targets, given.work)
        print("\n".join([*left, f"{len(left)} inputs are still findings"]))
        return 1 if left else 0
    if not given.blind and importlib.util.find_spec("atheris") is None:
        sys.stderr.write(_ABSENT)
        return 2
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    found = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for fuzzed in pool.map(lambda target: fuzz_target(target, given, seed), targets):
            found.append(fuzzed)
            print("\n  ".join((fuzzed.text(), *fuzzed.findings)), flush=True)
    if given.json is not None:
        rows = {one.target: {"inputs": one.inputs, "reached": one.reached, "findings": one.findings} for one in found}
        given.json.write_text(json.dumps({"seed": seed, "targets": rows}, indent=1))
    return 1 if any(one.findings for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
