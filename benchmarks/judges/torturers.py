"""The campaigns of torture: each damages what commands work on, and looks whether the answer stays what it was."""

from __future__ import annotations

import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np

from judges.tortured import Ask, Count, Ended, Workshop, answer_of, copies, files_of, kill_family, untimed_text

_SERVE_SHARE = 10
"""One in so many kills is of a server, which takes longest to start."""


def kill_at_random(shop: Workshop, count: int, rng: np.random.Generator) -> Count:
    """Kill commands with SIGKILL at random moments, give them again, and compare with what nobody killed."""
    found = Count()
    work = shop.folder / "killed"
    expected: dict[str, object] = {}
    took: dict[str, float] = {}
    for kind in ("tune", "compile", "bisect"):
        start = time.monotonic()
        expected[kind] = whole_answer(shop, kind, work / f"whole-{kind}")
        took[kind] = time.monotonic() - start
    for case in range(count):
        kind = "serve" if case % _SERVE_SHARE == 0 else ("tune", "compile", "bisect")[case % 3]
        place = work / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        if kind == "serve":
            _kill_server(shop, place, rng, found)
            continue
        kills = int(rng.integers(1, 3))
        died = 0
        if kind == "bisect":
            shop.run(*shop.bisect_start(place / "b"))
        for _ in range(kills):
            ended = shop.run(*call_of(shop, kind, place / kind[0]), kill_after=float(rng.uniform(0, took[kind])))
            died += ended.code == -signal.SIGKILL
            if "Traceback" in ended.err:
                found.bad(f"{kind}, case {case}: {ended.err[-200:]}")
        try:
            same = answer_again(shop, kind, place / kind[0]) == expected[kind]
        except (OSError, AssertionError) as error:
            found.bad(f"{kind}, case {case}: {str(error)[:200]}")
            continue
        left = [path.name for path in place.iterdir() if path.name.startswith(".")]
        if same:
            found.add(f"{kind}: the same answer after {'a kill' if died else 'no kill in time'}")
        else:
            found.bad(f"{kind}, case {case}: another answer")
        if left:
            found.add(f"({kind}: a draft left over)")
    return found


def call_of(shop: Workshop, kind: str, place: Path) -> tuple[object, ...]:
    """Return the call of a kind that writes to a place."""
    return {"tune": shop.tune, "compile": shop.compile, "bisect": shop.bisect_run}[kind](place)


def whole_answer(shop: Workshop, kind: str, place: Path) -> object:
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "bisect":
        shop.run(*shop.bisect_start(place))
    return answer_again(shop, kind, place)


def answer_again(shop: Workshop, kind: str, place: Path) -> object:
    """Run a command to its end and return what it answers; raise AssertionError when it cannot."""
    ended = shop.run(*call_of(shop, kind, place))
    assert ended.code == 0, ended.err[-300:]
    if kind == "bisect":
        answer = untimed_text(ended.out)
        assert isinstance(answer, dict)
        return {name: answer.get(name) for name in ("culprits", "needed", "raised", "minimal")}
    return answer_of(place)


def _kill_server(shop: Workshop, place: Path, rng: np.random.Generator, found: Count) -> None:
    """Kill a server at a random moment; what it served is whole, and another one serves it."""
    served = copies(shop.bundle, place / "tiny")
    before = {path.name: path.read_bytes() for path in files_of(served)}
    call = ("serve", place, "--port", 0, "--grpc-port", 0)
    shop.run(*call, kill_after=float(rng.uniform(0.1, 4)))
    if {path.name: path.read_bytes() for path in files_of(served)} != before:
        found.bad("serve: what it served has changed")
        return
    child = os.fork()
    if child == 0:
        from judges.tortured import _become

        _become(call, place / "out", place / "err", None)
    try:
        where = ""
        deadline = time.monotonic() + 120
        while not where and time.monotonic() < deadline:
            time.sleep(0.1)
            said = (place / "err").read_text() if (place / "err").exists() else ""
            where = next((word for word in said.split() if word.startswith("http://")), "")
        with urllib.request.urlopen(f"{where}/v2/models/tiny/ready", timeout=30) as answer:
            ready = answer.status == 200
    except (OSError, ValueError) as error:
        found.bad(f"serve: {error}")
        return
    finally:
        kill_family(child)
        os.waitpid(child, 0)
    found.add("serve: ready again after a kill") if ready else found.bad("serve: not ready")


def owned(shop: Workshop) -> list[tuple[str, Path, Ask]]:
    """Return every file or folder that commands wrote, and what is asked of it."""
    out = shop.folder / "asked"

    def fresh(*call: object) -> Ended:
        shutil.rmtree(out, ignore_errors=True)
        return shop.run(*call)

    def compiled(ended: Ended) -> tuple[Ended, object]:
        return ended, answer_of(out) if ended.code == 0 else None

    def by_plan(path: Path) -> tuple[Ended, object]:
        return compiled(fresh("compile", shop.model, "--plan", path, "--ranges", shop.ranges, "-o", out))

    def by_ranges(path: Path) -> tuple[Ended, object]:
        return compiled(fresh("compile", shop.model, "--plan", shop.plan, "--ranges", path, "-o", out))

    def by_bundle(path: Path) -> tuple[Ended, object]:
        ended = fresh("run", path, "--data", shop.data, "--json")
        document = untimed_text(ended.out)
        return ended, document.get("tensors") if isinstance(document, dict) else None

    def by_folder(path: Path) -> tuple[Ended, object]:
        ended = shop.run(*shop.tune(path))
        kept = (
            {name: item for name, item in answer_of(path).items() if ".new." not in name} if ended.code == 0 else None
        )
        return ended, kept

    def by_log(path: Path) -> tuple[Ended, object]:
        ended = shop.run("replay", path, "--json")
        return ended, untimed_text(ended.out.replace(str(path), "LOG"))

    def by_state(path: Path) -> tuple[Ended, object]:
        ended = shop.run(*shop.bisect_run(path))
        document = untimed_text(ended.out)
        keys = ("culprits", "needed", "raised", "minimal")
        return ended, {name: document.get(name) for name in keys} if isinstance(document, dict) else None

    def by_promise(path: Path) -> tuple[Ended, object]:
        ended = shop.run("check", path / "plan.json", "--model", shop.model, "--data", shop.data, "--json")
        return ended, untimed_text(ended.out.replace(str(path), "FOLDER"))

    def by_report(path: Path) -> tuple[Ended, object]:
        ended = fresh("report", path, "-o", out / "report.html")
        return ended, (out / "report.html").read_text() if ended.code == 0 else None

    tuned = shop.tuned
    return [
        ("plan", shop.plan, by_plan),
        ("ranges", shop.ranges, by_ranges),
        ("bundle", shop.bundle, by_bundle),
        ("journal", tuned, by_folder),
        ("log", shop.log, by_log),
        ("bisection", shop.state, by_state),
        ("promise", tuned, by_promise),
        ("report", tuned, by_report),
    ]


_PARTS = {
    "journal": ("journal.sqlite", "request.json"),
    "promise": ("run.json", "plan.json", "ranges.json"),
    "report": ("report.json",),
}
"""Of folders with many files, those that the question is about."""


def _damageable(kind: str, place: Path) -> list[Path]:
    names = _PARTS.get(kind)
    return [path for path in files_of(place) if path.stat().st_size and (names is None or path.name in names)]


def flip_bytes(shop: Workshop, count: int, rng: np.random.Generator) -> Count:
    """Flip one bit of one file at a time: it is refused, or the answer is the same."""
    return _damaged(shop, count, rng, _flipped, strict=True)


def fuzz_parsers(shop: Workshop, count: int, rng: np.random.Generator) -> Count:
    """Damage files as fuzzers do: the command ends with 0, 1 or 2 and one line, never with a traceback."""
    from fuzz_importers import mutate

    return _damaged(shop, count, rng, mutate, strict=False)


def _flipped(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


_SAYING = ("log", "promise")
"""What is read by commands (`replay`, `check`) that end with 1 where the answer is not the one on record."""


def _damaged(
    shop: Workshop,
    count: int,
    rng: np.random.Generator,
    damage: Callable[[bytes, np.random.Generator], bytes],
    *,
    strict: bool,
) -> Count:
    found = Count()
    things = owned(shop)
    place = shop.folder / "damaged"
    expected = {kind: ask(copies(source, place))[1] for kind, source, ask in things}
    for case in range(count):
        kind, source, ask = things[case % len(things)]
        target = copies(source, place)
        files = _damageable(kind, target)
        path = files[int(rng.integers(len(files)))]
        data = path.read_bytes()
        path.write_bytes(damage(data, rng))
        ended, answer = ask(target)
        what = f"{kind}, {path.name}, case {case}"
        if ended.broke:
            found.bad(f"{what}: code {ended.code}: {ended.err[-300:]}")
        elif ended.code == 2:
            found.add("refused") if ended.err.count("\n") == 1 else found.bad(f"{what}: {ended.err[:300]}")
        elif answer == expected[kind]:
            found.add("the same answer")
        elif ended.code == 1 and kind in _SAYING:
            found.add("said to be another answer")
        elif strict:
            found.bad(f"{what}: another answer without a word (code {ended.code})")
        else:
            found.add("an answer of its own")
    return found


def take_away(shop: Workshop, count: int, rng: np.random.Generator) -> Count:
    """Make files empty, a folder, a loop of links, or take them away: one line, never a traceback."""
    found = Count()
    place = shop.folder / "damaged"

    def emptied(path: Path) -> None:
        path.write_bytes(b"")

    def folder(path: Path) -> None:
        path.unlink()
        path.mkdir()

    def loop(path: Path) -> None:
        path.unlink()
        path.symlink_to(path.name)

    def forbidden(path: Path) -> None:
        path.chmod(0)

    cases = [
        (kind, source, ask, number, spoil)
        for kind, source, ask in owned(shop)
        for number in range(len(_damageable(kind, source)))
        for spoil in (emptied, folder, loop, Path.unlink, forbidden)
    ]
    for case in sorted(rng.permutation(len(cases))[:count]):
        kind, source, ask, number, spoil = cases[case]
        target = copies(source, place)
        path = _damageable(kind, target)[number]
        spoil(path)
        ended, _ = ask(target)
        if ended.broke or ended.err.count("\n") > 1:
            found.bad(f"{kind}, {path.name}, {spoil.__name__}: code {ended.code}: {ended.err[-300:]}")
        else:
            found.add("refused" if ended.code == 2 else "an answer")
    return found


def fill_disk(shop: Workshop, count: int, rng: np.random.Generator) -> Count:
    """Let no file grow beyond a random size, as on a full disk; then, with room, the answer is the right one."""
    found = Count()
    work = shop.folder / "full"
    expected = {kind: whole_answer(shop, kind, work / f"whole-{kind}") for kind in ("tune", "compile")}
    largest = max(path.stat().st_size for path in files_of(work / "whole-tune"))
    for case in range(count):
        kind = ("tune", "compile")[case % 2]
        place = work / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        ended = shop.run(*call_of(shop, kind, place / "o"), most_bytes=int(rng.integers(1, largest)))
        what = f"{kind}, case {case}"
        if ended.broke:
            found.bad(f"{what}: code {ended.code}: {ended.err[-300:]}")
            continue
        try:
            same = answer_again(shop, kind, place / "o") == expected[kind]
        except AssertionError as error:
            found.bad(f"{what}: {error}")
            continue
        how = "refused" if ended.code == 2 else "there was room"
        found.add(f"{how}, then the same answer") if same else found.bad(f"{what}: another answer")
    return found
