"""What reads bytes from elsewhere: inputs that were findings once, new mutants of corpora, and the fuzzer itself."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import draws
import needs
import numpy as np
import pytest

from fuzzing.child import Notes, fuzz_blind, seeds_of
from fuzzing.names import TARGET_NAMES
from fuzzing.parser import Parser, attempt
from fuzzing.targets import TARGETS, parsers_of

FINDINGS = Path(__file__).parent / "findings"
SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage_fuzz.py"
MUTANTS = 25
"""Of each parser; `make fuzz-coverage` goes on for as long as one likes."""


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_what_was_a_finding_is_none_and_new_mutants_are_none(target: str, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    parsers = parsers_of(target, tmp_path / "files")
    by_name = {parser.name: parser for parser in parsers}
    for path in sorted((FINDINGS / target).glob("*.bin")):
        name, _, data = path.read_bytes().partition(b"\n")
        assert attempt(by_name[name.decode()], data) is None, path
    seed = draws.seed_of(__name__)
    sys.stdout.write(f"seed {seed}\n")
    notes = Notes(tmp_path, parsers)
    seeds = seeds_of(parsers)
    for number, parser in enumerate(parsers):
        own = [item for item in seeds if item[0] == number]
        rng = np.random.default_rng([seed, number])
        assert fuzz_blind(notes, own, rng, MUTANTS, time.monotonic()) == MUTANTS, parser
    assert not (tmp_path / "findings.jsonl").exists(), (tmp_path / "findings.jsonl").read_text()


def test_every_target_has_a_name() -> None:
    assert tuple(TARGETS) == TARGET_NAMES


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_a_target_that_is_done_leaves_nothing_open(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: left.append(repr(found.exc_value)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        parsers = parsers_of(target, tmp_path)
        assert parsers
        del parsers
        gc.collect()
    assert left == []


def test_a_finding_is_found_and_told_once(tmp_path: Path) -> None:
    def parse(data: bytes) -> object:
        return json.loads(data)["plan"]

    parser = Parser("careless", (b'{"plan": [1, 2]}',), parse, (ValueError,))
    notes = Notes(tmp_path, (parser,))
    assert fuzz_blind(notes, seeds_of((parser,)), np.random.default_rng(3), 300, time.monotonic()) == 300
    rows = [json.loads(line) for line in (tmp_path / "findings.jsonl").read_text().splitlines()]
    kinds = [row["what"].partition(":")[0] for row in rows]
    assert "KeyError" in kinds
    assert len(kinds) == len(set(kinds))
    for row in rows:
        finding = attempt(parser, Path(row["input"]).read_bytes()[1:])
        assert finding is not None
        assert finding.what == row["what"]


def test_the_fuzzer_is_guided_by_coverage(tmp_path: Path) -> None:
    needs.package("atheris")
    call = [sys.executable, str(SCRIPT), "plans", "--runs", "300", "--seed", "7", "--work", str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "plans: 30" in done.stdout
    assert "edges reached, 0 findings" in done.stdout


def test_without_atheris_it_says_what_to_do(tmp_path: Path) -> None:
    block = "import sys, runpy; sys.modules['atheris'] = None; sys.argv = sys.argv[1:]; "
    code = f"{block}runpy.run_path(sys.argv[0], run_name='__main__')"
    call = [sys.executable, "-c", code, str(SCRIPT), "plans", "--work", str(tmp_path)]
    variables = {**os.environ, "PYTHONPATH": ":".join([str(SCRIPT.parent), *filter(None, sys.path)])}
    done = subprocess.run(call, capture_output=True, text=True, env=variables)
    assert done.returncode == 2
    assert "pip install 'dovetail[fuzz]'" in done.stderr
    assert done.stderr.count("\n") == 1
    done = subprocess.run(
        [*call, "--blind", "--runs", "20", "--seed", "1"], capture_output=True, text=True, env=variables
    )
    assert "plans: 20 inputs" in done.stdout
