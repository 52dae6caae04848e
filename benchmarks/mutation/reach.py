"""Which tests reach a mutant: measured for each test file, kept while the file and the package stay as they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mutation.child import Job
from mutation.pool import Ended, Slot, Task
from mutation.sites import Site

LONGEST_TEST_S = 20.0
"""Tests that take more processor time are left out."""
_TRACE_S = 900.0
_REVISION = 2
"""Part of what measurements are kept under: raised when they would come out differently."""


@dataclass(frozen=True)
class TestFile:
    """What was measured of a test file on the unchanged code."""

    __test__ = False

    name: str
    """Path below the repository, with slashes."""
    collect_s: float
    """Processor time of imports and collection."""
    setup_s: float
    """Processor time of the longest setup of a test."""
    tests: Mapping[str, float]
    """Tests that pass, with their processor time in seconds."""
    left_out: tuple[str, ...]
    """Tests that fail, are skipped or take too long."""
    lines: Mapping[str, Mapping[int, frozenset[str]]]
    """Tests that execute a line, by file of the package."""
    imported: frozenset[str]
    """Files of the package that are imported before the first test."""


@dataclass(frozen=True)
class Batch:
    """Tests that run in one process."""

    files: tuple[str, ...]
    limits: Mapping[str, float]
    """Tests with their limits of processor time in seconds."""
    collect_s: float
    """Limit of processor time for imports and collection."""


@dataclass(frozen=True)
class _Wanted:
    """Tests of a file that reach a site."""

    file: TestFile
    tests: Mapping[str, float]
    distance: int
    """-1 for a general file where the site runs at import: such files look at that, and the others may take all time; 0
    for the file that mirrors the module, 1 for its room's others, 2 for the rest."""

    @property
    def order(self) -> tuple[int, float]:
        """Nearest first, then quickest."""
        return self.distance, self.file.collect_s + sum(self.tests.values())


class Reach:
    """Test files by what they execute."""

    def __init__(self, files: Iterable[TestFile]) -> None:
        self.files = tuple(files)

    def batches(self, site: Site, cap_s: float, without: frozenset[str] = frozenset()) -> Iterator[Batch]:
        """Yield the tests that reach a site, ever more files at once, the nearest first.

        Ends where the tests would take more than `cap_s` of processor time on the unchanged code.
        """
        wanted = sorted(self._wanted(site, without), key=lambda entry: entry.order)
        left = cap_s
        first, size = 0, 1
        while first < len(wanted) and left > 0:
            chosen = wanted[first : first + size]
            limits: dict[str, float] = {}
            for entry in chosen:
                for test, cpu_s in sorted(entry.tests.items(), key=lambda pair: pair[1]):
                    if cpu_s <= left:
                        left -= cpu_s
                        limits[test] = limit_s(cpu_s + entry.file.setup_s)
            names = tuple(entry.file.name for entry in chosen if not limits.keys().isdisjoint(entry.tests))
            if names:
                yield Batch(names, limits, limit_s(sum(entry.file.collect_s for entry in chosen)))
            first, size = first + size, size * 2

    def alone(self, test: str) -> Batch:
        """Return the batch of one test."""
        file = next(file for file in self.files if test in file.tests)
        return Batch((file.name,), {test: limit_s(file.tests[test] + file.setup_s)}, limit_s(file.collect_s))

    def _wanted(self, site: Site, without: frozenset[str]) -> Iterator[_Wanted]:
        for file in self.files:
            tests = {test: file.tests[test] for test in self._reaching(file, site) - without if test in file.tests}
            if tests:
                yield _Wanted(file, tests, _distance(file, site))

    def _reaching(self, file: TestFile, site: Site) -> set[str]:
        """Return the tests of a file that execute a site; all of them where it runs at import.

        The header of a function is for those that execute the body, and for general files, which look at signatures.
        """
        is_imported = site.at_import and site.file in file.imported
        if is_imported and (site.body is None or _is_general(file)):
            return set(file.tests)
        reached = file.lines.get(site.file, {})
        return {test for line in site.body or site.lines for test in reached.get(line, ())}


def _is_general(file: TestFile) -> bool:
    """Tell whether a test file lies directly in `tests` and not in a room's folder."""
    return Path(file.name).parent == Path("tests")


def _distance(file: TestFile, site: Site) -> int:
    room, _, module = site.file.partition("/")
    if site.at_import and _is_general(file):
        return -1
    is_own = file.name.startswith(f"tests/{room}/")
    is_mirror = is_own and Path(file.name).name == f"test_{module}"
    return 2 - is_own - is_mirror


def limit_s(cpu_s: float) -> float:
    """Return how much processor time something may take on changed code, from what it takes on the unchanged."""
    return 10.0 + 5.0 * cpu_s


def kept_at(root: Path, name: str, store: Path) -> Path:
    """Return where the measurement of a test file is kept: under a digest of all that it depends on."""
    digest = hashlib.sha256(f"{_REVISION}|{name}".encode())
    parts = [*(root / "src" / "dovetail").rglob("*.py"), *(root / "tests").rglob("conftest.py"), root / name]
    for path in sorted(parts):
        digest.update(f"{path.relative_to(root)}|".encode() + path.read_bytes())
    return store / f"{digest.hexdigest()[:20]}.json"


def measure(name: str, kept: Path) -> Task[str]:
    """Return the task that measures a test file and keeps the result; it returns the file's name."""

    def task(slot: Slot) -> Generator[Job, Ended, str]:
        draft = slot.scratch.with_name("measured.json")
        draft.unlink(missing_ok=True)
        ended = yield Job(slot.copy, slot.scratch, (name,), None, _TRACE_S, draft)
        if not draft.is_file():
            end = f"exit code {ended.code}" if ended.signal is None else f"signal {ended.signal}"
            raise RuntimeError(f"{name}: cannot be measured: {end}.\n{ended.printed}")
        draft.replace(kept)
        return name

    return task


def read(name: str, kept: Path) -> TestFile:
    """Return a measurement that was kept."""
    document = json.loads(kept.read_text(encoding="utf-8"))
    names = [test for test, _, _ in document["tests"]]
    good = {test: cpu_s for test, cpu_s, passed in document["tests"] if passed and cpu_s <= LONGEST_TEST_S}
    lines = {
        file: {int(line): frozenset(names[number] for number in numbers) for line, numbers in reached.items()}
        for file, reached in document["lines"].items()
    }
    left_out = tuple(test for test in names if test not in good)
    imported = frozenset(document["imported"])
    return TestFile(name, document["collect_s"], document["setup_s"], good, left_out, lines, imported)
