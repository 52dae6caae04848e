"""Compare the tests that a run skips with a list: `pytest --skips tests/skips/bare.txt`.

A line of the list is a part and a test without its parameters, `vsi tests/cost/test_modelled.py::test_one`. A part
with a question mark depends on the kernel or the processor: its tests may run as well. A run that skips another test,
or runs one that is listed, fails; with DOVETAIL_UPDATE_SKIPS=1 what it skips is added to the list instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_HEAD = "# Part and test, as `pytest --skips` compares them; a part with a question mark depends on the machine."
_MACHINE_S = (
    "boards",
    "cpuid-fault",
    "cross-compilers",
    "landlock",
    "netns",
    "python",
    "qemu",
    "root",
    "runner-libraries",
    "systemd",
    "tun",
)
"""Parts that are a kernel's, a processor's or the user's, and packages that tests take where they are."""


@dataclass(eq=False)
class SkipList:
    """What a run skipped, beside what may be skipped."""

    path: Path
    skipped: dict[str, str] = field(default_factory=dict)
    """Test -> the part that it lacks."""
    run: set[str] = field(default_factory=set)
    """Tests that were run, with some parameters at least."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report.nodeid, report.longrepr)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report.nodeid, report.longrepr)
        elif report.when == "call":
            self.run.add(report.nodeid.partition("[")[0])

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
        listed, skipped = self.listed(), self.lines()
        more = [f"skipped and not listed: {line}" for line in skipped if line not in listed]
        parts = {line.partition(" ")[2]: line.partition(" ")[0] for line in listed}
        gone = [test for test in parts if test in self.run and test not in self.skipped]
        return more + [f"listed and not skipped: {test}" for test in gone if not parts[test].endswith("?")]

    def listed(self) -> list[str]:
        """Return the lines of the list, without its head."""
        lines = self.path.read_text().splitlines() if self.path.is_file() else []
        return [line for line in lines if line.strip() and not line.startswith("#")]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if os.environ.get("DOVETAIL_UPDATE_SKIPS"):
            self.path.write_text("\n".join([_HEAD, *sorted({*self.listed(), *self.lines()})]) + "\n")
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
