"""Run a test once where two runs on one machine would tell the same of it: CI runs what it can on a bare machine first.

`pytest --passed-to FILE` writes which tests passed, and `pytest --passed-in FILE` leaves them out. Tests of a file are
written where none of them was skipped and no part matters to them: with more parts others may go another way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

ALIKE = frozenset(
    [
        "tests/bundle",
        "tests/data",
        "tests/importers",
        "tests/inputs",
        "tests/ir",
        "tests/metrics",
        "tests/numerics",
        "tests/oip",
        "tests/outputs",
        "tests/partition",
        "tests/passes",
        "tests/plan",
        "tests/quantize",
        "tests/repair",
        "tests/search",
        "tests/serve",
        "tests/cli/test_bad_input.py",
        "tests/cli/test_failing.py",
        "tests/cli/test_output.py",
        "tests/cli/test_person.py",
        "tests/cli/test_places.py",
        "tests/compile/test_repair.py",
        "tests/contract/test_wild.py",
        "tests/fit/test_media.py",
        "tests/fit/test_pictures.py",
        "tests/remote/test_cuts.py",
    ]
)
"""Rooms and files to whose tests no part matters: what they run finds no SDK, environment or program by itself."""


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
        return [test for test in self.passed if _is_alike(_file(test)) and _file(test) not in self.others]

    def pytest_sessionfinish(self) -> None:
        self.path.write_text("".join(f"{test}\n" for test in self.tests()))


def _file(test: str) -> str:
    return test.partition("::")[0]


def _is_alike(file: str) -> bool:
    return file in ALIKE or "/".join(Path(file).parts[:2]) in ALIKE


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
