"""Fuzz one target in this process: python -m fuzzing.child TARGET WORK SEED SECONDS RUNS MOST_MB HANGS_S [blind]."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fuzz_importers import mutate
from fuzzing.mutate import reshape
from fuzzing.parser import MOST_BYTES, Finding, Parser, attempt


class Notes:
    """Findings as they come, each defect once; the first byte of an input chooses the parser."""

    def __init__(self, work: Path, parsers: tuple[Parser, ...]) -> None:
        self._work = work
        self._parsers = parsers
        self._known: set[str] = set()

    def take(self, data: bytes) -> None:
        """Give an input to its parser, and write down what should not have come of it."""
        if not data:
            return
        finding = attempt(self._parsers[data[0] % len(self._parsers)], data[1:])
        if finding is not None and finding.key not in self._known:
            self._known.add(finding.key)
            self._write(finding, data)

    def _write(self, finding: Finding, data: bytes) -> None:
        path = self._work / f"finding-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        row = {"parser": finding.parser, "what": finding.what, "where": finding.where, "input": str(path)}
        with (self._work / "findings.jsonl").open("a") as stream:
            stream.write(json.dumps(row) + "\n")


def seeds_of(parsers: tuple[Parser, ...]) -> list[bytes]:
    """Return the whole inputs, each behind the number of its parser."""
    return [bytes([number]) + seed for number, parser in enumerate(parsers) for seed in parser.seeds]


def fuzz_blind(notes: Notes, seeds: list[bytes], rng: np.random.Generator, runs: int, until: float) -> int:
    """Give mutants of whole inputs in turn, for a count or until a time; return how many."""
    count = 0
    while count < runs if runs >= 0 else time.monotonic() < until:
        seed = seeds[count % len(seeds)]
        notes.take(seed[:1] + mutant_of(seed[1:], rng))
        count += 1
    return count


def mutant_of(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a mutant, of the same form where there is one."""
    mutant = reshape(data, rng) if rng.random() < 0.6 else None
    return mutate(data, rng) if mutant is None else mutant


def _guided(target: str, work: Path, words: list[str]) -> None:
    """Fuzz by coverage; does not return."""
    import atheris

    folder = tempfile.mkdtemp()
    with atheris.instrument_imports(include=["dovetail"]):
        from fuzzing.targets import parsers_of

        parsers = parsers_of(target, Path(folder))
        for parser in parsers:
            for seed in parser.seeds:
                # What a parser imports on first use is instrumented too.
                attempt(parser, seed)
    corpus, first = work / "corpus", work / "seeds"
    for place in (corpus, first):
        place.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds_of(parsers)):
        (first / f"seed-{number}").write_bytes(seed)
    notes = Notes(work, parsers)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        mutant = reshape(data[1:], rng) if data and rng.random() < 0.5 else None
        return atheris.Mutate(data, most) if mutant is None else (data[:1] + mutant)[:most]

    chosen, seconds, runs, most_mb, hangs_s = words
    bound = f"-runs={runs}" if int(runs) >= 0 else f"-max_total_time={seconds}"
    options: list[Any] = [f"-seed={max(1, int(chosen))}", bound, f"-rss_limit_mb={most_mb}", f"-timeout={hangs_s}"]
    options += [f"-max_len={MOST_BYTES}", f"-artifact_prefix={work}/", "-print_final_stats=1"]
    atheris.Setup(["fuzz", *options, str(corpus), str(first)], notes.take, custom_mutator=mutated)
    atheris.Fuzz()


def main() -> None:
    """Fuzz as the command line says."""
    target, work, *words = sys.argv[1:8]
    if sys.argv[8:] != ["blind"]:
        _guided(target, Path(work), words)
        return
    from fuzzing.targets import parsers_of

    seed, seconds, runs = map(int, words[:3])
    with tempfile.TemporaryDirectory() as folder:
        parsers = parsers_of(target, Path(folder))
        notes = Notes(Path(work), parsers)
        rng = np.random.default_rng([seed, *target.encode()])
        count = fuzz_blind(notes, seeds_of(parsers), rng, runs, time.monotonic() + seconds)
    print(f"stat::number_of_executed_units: {count}")


if __name__ == "__main__":
    main()
