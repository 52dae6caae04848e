"""Run a test once where two runs on one machine would tell the same of it: CI runs what it can on a bare machine first.

`pytest --passed-to FILE` writes which tests passed, and `pytest --passed-in FILE` leaves them out. Tests of a file are
written where none of them was skipped and the room is none that looks for parts: those may go another way with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

LOOK_FOR_PARTS = frozenset(
    (
        "backends",
        "benchmarks",
        "cli",
        "contract",
        "cost",
        "docs",
        "environments",
        "examples",
        "exporters",
        "facade",
        "fit",
        "formats",
        "native",
        "report",
        "sdk",
        "testing",
    )
)
"""Rooms whose code finds a vendor's SDK, a compiler, an environment or a program by itself."""
ALIKE = frozenset(
    (
        "tests/benchmarks/test_fuzzing.py",
        "tests/cli/test_bad_input.py",
        "tests/cli/test_failing.py",
        "tests/cli/test_output.py",
        "tests/cli/test_person.py",
        "tests/cli/test_places.py",
        "tests/cli/test_show_python.py",
        "tests/contract/test_openvino.py",
        "tests/contract/test_wild.py",
        "tests/fit/test_media.py",
        "tests/fit/test_pictures.py",
    )
)
"""Files of these rooms to whose tests no part matters: signals, pipes, folders, pictures, what is always there."""


@dataclass(eq=False)
class Passed:
    """The tests that passed in files where nothing was skipped."""

    path: Path
    passed: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """Files in which a test was skipped, failed, or was expected to."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.others.add(report.nodeid.partition("::")[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed or hasattr(report, "wasxfail"):
            self.others.add(report.nodeid.partition("::")[0])
        elif report.when == "call":
            self.passed.append(report.nodeid)

    def tests(self) -> list[str]:
        """Return what need not be run again."""
        return [test for test in self.passed if not (_file(test) in self.others or _looks_for_parts(_file(test)))]

    def pytest_sessionfinish(self) -> None:
        self.path.write_text("".join(f"{test}\n" for test in self.tests()))


def _file(test: str) -> str:
    return test.partition("::")[0]


def _looks_for_parts(file: str) -> bool:
    return Path(file).parts[1] in LOOK_FOR_PARTS and file not in ALIKE


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--passed-to", type=Path, metavar="FILE", help="write which tests need not be run with more parts")
    parser.addoption("--passed-in", type=Path, metavar="FILE", help="leave out the tests that it lists")


def pytest_configure(config: pytest.Config) -> None:
    """Take notes in the process that reports."""
    path = config.getoption("passed_to")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Passed(path), "dovetail-once")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed."""
    path = config.getoption("passed_in")
    if path is None:
        return
    passed = set(path.read_text().splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]
