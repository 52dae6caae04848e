"""A small piece of torture with a new seed: no other answer, no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import draws
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
def test_a_piece_of_torture(tmp_path: Path) -> None:
    seed, counts = draws.seed_of(__name__), tmp_path / "counts.json"
    sys.stdout.write(f"seed {seed}\n")
    counts_of = ["--kills", "4", "--flips", "8", "--files", "16", "--disks", "4", "--fuzz", "6"]
    counts_of += ["--clocks", "2", "--ceilings", "4"]
    call = [sys.executable, str(BENCHMARKS / "torture.py"), *counts_of]
    done = subprocess.run([*call, "--seed", str(seed), "--json", str(counts)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(counts.read_text())
    assert found.pop("seed") == seed
    assert len(found) == 7
    assert all(item["ended"] and not item["problems"] for item in found.values())
    # It is no torture where nothing was killed in time and nothing was refused.
    assert any("after a kill" in how for how in found["kill -9, then the same command"]["ended"])
    assert "refused" in found["one flipped byte"]["ended"]


def test_a_child_is_killed_before_it_is_a_group_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from judges.tortured import kill_family

    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    kill_family(child)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
