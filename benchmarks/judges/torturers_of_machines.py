"""Campaigns that torture the machine that commands run on: its clock, its memory, its disk."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np

from judges.tortured import Count, Workshop
from judges.torturers import answer_again, call_of, whole_answer

_KINDS = ("tune", "compile", "bisect")
_FEWEST_MB, _MOST_MB = 250, 1400
"""Memory beyond what a command has when it begins."""


def jump_clock(shop: Workshop, count: int, rng: np.random.Generator) -> Count:
    """Run commands while the clock on the wall is set forward and back, kill some, finish under another such clock."""
    found = Count()
    clock = jumping_clock(shop.folder)
    if clock is None:
        found.ended["(no compiler here: not tried)"] = count
        return found
    work = shop.folder / "clocks"
    expected = {kind: whole_answer(shop, kind, work / f"whole-{kind}") for kind in _KINDS}
    for case in range(count):
        kind = _KINDS[case % len(_KINDS)]
        place = _fresh(work / "case")
        if kind == "bisect":
            shop.run(*shop.bisect_start(place / "b"))
        call = call_of(shop, kind, place / kind[0])
        killed = rng.random() < 0.5
        for limit_s in (float(rng.uniform(0.5, 6)), None) if killed else (None,):
            every = int(rng.choice([1, 3, 20]))
            variables = {"LD_PRELOAD": str(clock), "JUMP_SEED": str(rng.integers(1 << 31)), "JUMP_EVERY": str(every)}
            ended = shop.run_anew(*call, variables=variables, kill_after=limit_s)
            if ended.broke and not (limit_s and ended.code == -signal.SIGKILL):
                found.bad(f"{kind}, case {case}: code {ended.code}: {ended.err[-300:]}")
        _compare(shop, kind, place / kind[0], expected[kind], found, f"case {case}", "killed between" if killed else "")
    return found


def jumping_clock(folder: Path) -> Path | None:
    """Make the library for LD_PRELOAD that lets the clock jump, and return it; None where there is no compiler."""
    library = folder / "jumping_clock.so"
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source = Path(__file__).with_name("jumping_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def limit_memory(shop: Workshop, count: int, rng: np.random.Generator) -> Count:
    """Give commands too little memory: they end with one line, and with enough the answer is the right one."""
    found = Count()
    work = shop.folder / "memory"
    expected = {kind: whole_answer(shop, kind, work / f"whole-{kind}") for kind in _KINDS}
    for case in range(count):
        kind = _KINDS[case % len(_KINDS)]
        place = _fresh(work / "case")
        if kind == "bisect":
            shop.run(*shop.bisect_start(place / "b"))
        more_mb = float(rng.uniform(_FEWEST_MB, _MOST_MB))
        ended = shop.run(*call_of(shop, kind, place / kind[0]), most_memory=int(more_mb * (1 << 20)))
        what = f"case {case}, {more_mb:.0f} MB more"
        if ended.broke or (ended.code == 2 and ended.err.count("\n") != 1):
            found.bad(f"{kind}, {what}: code {ended.code}: {ended.err[-300:]}")
            continue
        _compare(shop, kind, place / kind[0], expected[kind], found, what, "refused" if ended.code else "enough")
    return found


def _fresh(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


def _compare(shop: Workshop, kind: str, place: Path, expected: object, found: Count, case: str, how: str) -> None:
    """Give the same command once more, on a machine as it should be, and compare the answers."""
    try:
        same = answer_again(shop, kind, place) == expected
    except (OSError, AssertionError) as error:
        found.bad(f"{kind}, {case}: {str(error)[:300]}")
        return
    if same:
        found.add(f"{kind}: {how}, the same answer" if how else f"{kind}: the same answer")
    else:
        found.bad(f"{kind}, {case}, {how}: another answer")
