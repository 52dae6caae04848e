"""What a forked process does: pytest on some files of a copy, within limits of processor time for each test."""

from __future__ import annotations

import builtins
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# What is imported before pytest begins is said to be so, and a warning is an error in this repository.
_ALLOWED = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
_MEMORY_BYTES = 8 * 1024**3
"""What a process may hold: a mutant that collects without end is stopped before the machine swaps."""


@dataclass(frozen=True)
class Job:
    """Test files to run in a copy, and what to write about it."""

    copy: Path
    """The copy of the repository's files."""
    scratch: Path
    """A folder for temporary files, removed by the caller."""
    files: tuple[str, ...]
    """Test files below the copy, in order."""
    limits: Mapping[str, float] | None
    """Tests to run, each with its limit of processor time in seconds; None runs all and measures coverage."""
    collect_s: float
    """Limit of processor time for imports and collection."""
    out: Path
    """Where the results go: JSON, a line for each event, or one document for coverage."""


def run(job: Job) -> int:
    """Run the job in this process and return pytest's exit code. The process is of no other use afterwards."""
    _move_into(job)
    _limit_processor_time(job.collect_s)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    plugin: Any = Tracing(job) if job.limits is None else Selection(job.limits, job.out)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", "--tb=line", "-W", _ALLOWED]
    stop = [] if job.limits is None else ["-x"]
    return int(pytest.main([*options, *stop, *job.files], plugins=[plugin]))


class Selection:
    """Run some tests, quickest first in each file, and write which one runs and which one failed."""

    def __init__(self, limits: Mapping[str, float], out: Path) -> None:
        self._limits = limits
        self._out = out

    def pytest_configure(self) -> None:
        """Make Hypothesis repeatable."""
        _settle_hypothesis()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the wanted tests."""
        files = list(dict.fromkeys(item.path for item in items))
        wanted = [item for item in items if item.nodeid in self._limits]
        items[:] = sorted(wanted, key=lambda item: (files.index(item.path), self._limits[item.nodeid]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Say that a test begins, and bound it."""
        self._write({"begins": item.nodeid})
        _limit_processor_time(self._limits[item.nodeid])
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Say that a test failed."""
        if report.failed:
            self._write({"failed": report.nodeid})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say that a file cannot be imported."""
        if report.failed:
            self._write({"failed": f"import of {report.nodeid}"})

    def _write(self, event: Mapping[str, str]) -> None:
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


class Tracing:
    """Run all tests of the files and write which lines of the package each one executes, and its processor time."""

    def __init__(self, job: Job) -> None:
        import coverage

        self._package = job.copy / "src" / "dovetail"
        self._out = job.out
        self._coverage = coverage.Coverage(data_file=None, source=[str(self._package)], config_file=False)
        self._tests: dict[str, float] = {}
        self._failed: set[str] = set()
        self._collect_s = 0.0
        self._setup_s = 0.0
        self._coverage.start()

    def pytest_configure(self) -> None:
        """Make Hypothesis repeatable."""
        _settle_hypothesis()

    def pytest_collection_finish(self) -> None:
        """Note what imports and collection took."""
        self._collect_s = time.process_time()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test."""
        _limit_processor_time(3600.0)
        self._coverage.switch_context(item.nodeid)
        before = _processor_s()
        result = yield
        self._tests[item.nodeid] = _processor_s() - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Note the longest setup: shared fixtures are made in whichever test runs first."""
        before = _processor_s()
        result = yield
        self._setup_s = max(self._setup_s, _processor_s() - before)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails or is skipped: it can tell nothing of a mutant."""
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        """Write the results."""
        self._coverage.stop()
        names = {name: number for number, name in enumerate(self._tests)}
        data = self._coverage.get_data()
        lines: dict[str, dict[int, list[int]]] = {}
        imported: list[str] = []
        for path in data.measured_files():
            contexts = data.contexts_by_lineno(path)
            reached = {line: sorted(names[name] for name in tests if name in names) for line, tests in contexts.items()}
            file = Path(path).relative_to(self._package).as_posix()
            lines[file] = {line: tests for line, tests in reached.items() if tests}
            if any("" in tests for tests in contexts.values()):
                imported.append(file)
        tests = [[name, round(cpu, 4), name not in self._failed] for name, cpu in self._tests.items()]
        document = {
            "collect_s": self._collect_s,
            "setup_s": self._setup_s,
            "tests": tests,
            "lines": lines,
            "imported": imported,
        }
        self._out.write_text(json.dumps(document), encoding="utf-8")


def _move_into(job: Job) -> None:
    """Make the copy's package, tests and an empty home the ones that this process and its children see."""
    home = job.scratch / "home"
    home.mkdir(parents=True)
    unwanted = [name for name in os.environ if name.startswith(("DOVETAIL_", "XDG_", "PYTEST_"))]
    for name in unwanted:
        del os.environ[name]
    os.environ |= {
        "HOME": str(home),
        "TMPDIR": str(job.scratch),
        "PYTHONPATH": str(job.copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(job.scratch / "hypothesis"),
    }
    tempfile.tempdir = None
    # A mutant of the same size and second must not be taken for what was compiled before it.
    sys.dont_write_bytecode = True
    own = Path(__file__).resolve().parents[1]
    sys.path[:] = [str(job.copy / "src"), *(entry for entry in sys.path if Path(entry).resolve() != own)]
    # cosmic-ray puts this name where an exception's was; nothing raises it.
    builtins.CosmicRayTestingException = type("CosmicRayTestingException", (Exception,), {})  # type: ignore[attr-defined]
    os.chdir(job.copy)


def _settle_hypothesis() -> None:
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", database=None, deadline=None, phases=phases)
    settings.load_profile("mutants")


def _processor_s() -> float:
    """Return the processor time of this process and of those that it has waited for, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _limit_processor_time(seconds: float) -> None:
    """Let the kernel end this process when it has used that much more processor time."""
    used = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, hard))


def preload(names: Sequence[str]) -> None:
    """Import what most tests import and what no mutant is in, so that each fork has it already."""
    for name in names:
        __import__(name)
