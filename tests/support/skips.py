"""Compare the tests that a run skips with a list: `pytest --skips tests/skips/bare.txt`.

A line of the list is a part and a test without its parameters, `vsi tests/cost/test_modelled.py::test_one`. A part
with a question mark depends on the kernel or the processor: its tests may run as well. A run that skips another test,
or does not skip one that is listed, fails; with DOVETAIL_UPDATE_SKIPS=1 the list is written instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_MACHINE_S = ("cpuid-fault", "landlock")
"""Parts that are a kernel's or a processor's."""


@dataclass
class SkipList:
    """What a run skipped, beside what may be skipped."""

    path: Path
    skipped: dict[str, str] = field(default_factory=dict)
    """Test -> the part that it lacks."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report.nodeid, report.longrepr)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report.nodeid, report.longrepr)

    def _note(self, node: str, reason: object) -> None:
        text = str(reason[2] if isinstance(reason, tuple) else reason)
        part = text.removeprefix("Skipped: ").partition(": ")[0]
        self.skipped[node.partition("[")[0]] = part if part and " " not in part else "-"

    def lines(self) -> list[str]:
        """Return the list of what was skipped."""
        marked = ((f"{part}?" if part in _MACHINE_S else part, test) for test, part in self.skipped.items())
        return sorted(f"{part} {test}" for part, test in marked)

    def complaints(self) -> list[str]:
        """Return how the run differs from the list."""
        listed = [line for line in self.path.read_text().splitlines() if line.strip() and not line.startswith("#")]
        skipped = self.lines()
        more = [f"skipped and not listed: {line}" for line in skipped if line not in listed]
        less = [line for line in listed if line not in skipped and not line.partition(" ")[0].endswith("?")]
        return more + [f"listed and not skipped: {line}" for line in less]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if os.environ.get("DOVETAIL_UPDATE_SKIPS"):
            head = [line for line in self.path.read_text().splitlines() if line.startswith("#")]
            self.path.write_text("\n".join([*head, *self.lines()]) + "\n")
        elif self.complaints() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        complaints = self.complaints()
        if complaints:
            terminalreporter.section(f"skips differ from {self.path}")
            for line in complaints:
                terminalreporter.line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--skips", type=Path, metavar="FILE", help="fail unless the tests that it lists are skipped")


def pytest_configure(config: pytest.Config) -> None:
    """Take notes in the process that reports."""
    path = config.getoption("skips")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipList(path), "dovetail-skips")
