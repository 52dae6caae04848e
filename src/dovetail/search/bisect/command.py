"""A command as an oracle: its exit code, or a figure that it prints."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from dovetail.errors import SearchError
from dovetail.search.trial import Status

_KEPT_BYTES = 1 << 20
_NOTE_CHARS = 160
_STEP = re.compile(r"([^.\[\]]+)|\[(-?\d+)\]")


@dataclass(frozen=True, slots=True)
class MetricRule:
    """How a figure is found in what the command prints, and which figures pass.

    `pattern` is a regular expression whose first group is the figure; `json_path` such as `eval.map[0]` goes into the
    last line that is JSON, or into the whole of stdout. The last figure counts.
    """

    pattern: str = ""
    json_path: str = ""
    at_least: float | None = None
    at_most: float | None = None

    def check(self) -> None:
        """Raise SearchError when the rule makes no sense."""
        if bool(self.pattern) == bool(self.json_path):
            raise SearchError("a figure is found by a regular expression or by a JSON path.", hint="Give one of them.")
        if (self.at_least is None) == (self.at_most is None):
            raise SearchError(
                "it is not said which figures pass.", hint="Give the least or the most.", option="at_least"
            )
        bound = self.at_most if self.at_least is None else self.at_least
        if bound is None or not math.isfinite(bound):
            raise SearchError(f"{bound} bounds no figure.", hint="Give a finite number.")
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise SearchError(f"'{self.pattern}' is no regular expression: {error}.") from error
        if self.pattern and groups < 1:
            raise SearchError(f"'{self.pattern}' has no group.", hint="Put the figure in parentheses: mAP=([0-9.]+).")

    def read(self, text: str) -> float | None:
        """Return the figure, or None when there is none."""
        figures = re.findall(self.pattern, text) if self.pattern else _follow(text, self.json_path)
        if not figures:
            return None
        last = figures[-1][0] if isinstance(figures[-1], tuple) else figures[-1]
        try:
            value = float(last)  # type: ignore[arg-type]
        except (OverflowError, TypeError, ValueError):
            return None
        return value if value == value else None

    def passes(self, value: float) -> bool:
        """Tell whether a figure is good enough."""
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most


def _follow(text: str, path: str) -> list[object]:
    for part in (text, *reversed(text.splitlines())):
        try:
            value: object = json.loads(part)
            for name, index in _STEP.findall(path):
                value = value[int(index)] if index else value[name]  # type: ignore[index]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            continue
        return [value]
    return []


@dataclass(frozen=True, slots=True)
class CommandVerdict:
    """The verdict of a command on a candidate, with its figure and its last line."""

    status: Status
    metric: float | None
    note: str


@dataclass(frozen=True, slots=True)
class CommandOracle:
    """Run a command a candidate, as `git bisect run` does.

    0 passes, 1 to 124 fail, 125 cannot be tested; nor can what a signal ends or what takes longer than `timeout_s`.
    With a rule the command must end with 0, and the figure decides.
    """

    command: Sequence[str]
    rule: MetricRule | None = None
    timeout_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def ask(self) -> CommandVerdict:
        """Return the verdict on the candidate that is on disk; raise SearchError when the command cannot be started."""
        with tempfile.TemporaryFile() as output:
            code = self._run(output)
            text = _tail(output)
        note = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:_NOTE_CHARS]
        if code is None:
            return CommandVerdict(Status.CANNOT_TEST, None, f"took longer than {self.timeout_s:g} s")
        if code in (126, 127):
            raise SearchError(
                f"'{self.command[0]}' cannot be run (exit code {code}): {note or 'it says nothing'}.",
                hint="Try the command by hand; nothing was recorded.",
            )
        if code < 0 or code > 124:
            reason = "says that it cannot be tested" if code == 125 else f"was ended by a signal or by code {code}"
            return CommandVerdict(Status.CANNOT_TEST, None, f"{reason}: {note}")
        if self.rule is None:
            return CommandVerdict(Status.PASS if code == 0 else Status.FAIL, None, note)
        metric = self.rule.read(text) if code == 0 else None
        if metric is None:
            reason = f"exit code {code}" if code else "no figure in the output"
            return CommandVerdict(Status.CANNOT_TEST, None, f"{reason}: {note}")
        return CommandVerdict(Status.PASS if self.rule.passes(metric) else Status.FAIL, metric, note)

    def _run(self, output: IO[bytes]) -> int | None:
        """Return the exit code, or None after a time-out; the command and its children are gone then."""
        try:
            child = subprocess.Popen(
                list(self.command), stdout=output, env={**os.environ, **self.environment}, start_new_session=True
            )
        except OSError as error:
            raise SearchError(
                f"'{self.command[0]}' cannot be started: {error.strerror}.", hint="Give its path, after --."
            ) from error
        try:
            return child.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _KEPT_BYTES))
    return output.read().decode("utf-8", errors="replace")
