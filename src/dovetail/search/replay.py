"""Replay: derive the answer of a search again from its log, without an evaluation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.search.context import Playback
from dovetail.search.fanout import FanOut
from dovetail.search.log import LogLine, read_search_log
from dovetail.search.policy import policy_of
from dovetail.search.recorded import NotOnRecord
from dovetail.search.request import SilentSearch, TuneListener, TuneRequest
from dovetail.search.result import TuneResult
from dovetail.search.tune import run_search

_COMPARED = ("evaluation", "trial", "answer")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The answer of a replay, and where it parts from the log."""

    result: TuneResult | None
    """None when the replay wanted what the log does not have."""
    deviations: tuple[str, ...]
    """Where the log and the replay part; nothing when both give the same answer."""
    evaluations: int
    trials: int

    @property
    def agrees(self) -> bool:
        """Tell whether the log and the replay agree."""
        return not self.deviations


def replay(request: TuneRequest, path: Path, listener: TuneListener | None = None) -> ReplayResult:
    """Return the answer that the log of a search leads to, by the policy of the log.

    Raises SearchError when the file is no log.
    """
    log = read_search_log(path)
    playback = Playback(log.evaluations(), log.prices(), log.ends())
    options = replace(
        request.options,
        journal=None,
        fanout=FanOut(),
        log=None,
        log_header={},
        policy=policy_of(log.header.get("policy")),
    )
    lost = ""
    try:
        result = run_search(replace(request, options=options), listener or SilentSearch(), playback)
    except NotOnRecord as missing:
        result, lost = None, str(missing)
    lines = playback.lines
    deviations = [*_other_question(log.header, lines[0] if lines else {}), *_first_difference(log.lines, lines, lost)]
    events = [line["event"] for line in log.lines]
    return ReplayResult(result, tuple(deviations), events.count("evaluation"), events.count("trial"))


def _other_question(logged: LogLine, now: LogLine) -> list[str]:
    """Return how the question of the log differs from the one that is put now."""
    names = [name for name in logged if name not in ("event", "arguments")]
    return [
        f"{name}: the log has {_short(logged[name])}, now it is {_short(now.get(name))}"
        for name in names
        if json.loads(json.dumps(now.get(name))) != logged[name]
    ]


def _first_difference(logged: Sequence[LogLine], now: Sequence[LogLine], lost: str) -> list[str]:
    old = [line for line in logged if line["event"] in _COMPARED]
    new = [json.loads(json.dumps(line)) for line in now if line["event"] in _COMPARED]
    for number, (was, is_now) in enumerate(itertools.zip_longest(old, new), 1):
        if was == is_now:
            continue
        if was is None:
            return [f"step {number}: the log ends, the search goes on with {_text(is_now)}"]
        if is_now is None:
            ends = f"the search wants what the log does not have: {lost}" if lost else "the search has ended"
            return [f"step {number}: the log has {_text(was)}, {ends}"]
        return [f"step {number}: the log has {_text(was)}, the search has {_text(is_now)}"]
    return [lost] if lost else []


def _text(line: Mapping[str, object]) -> str:
    plan = str(line.get("plan", ""))[:12]
    match line["event"]:
        case "evaluation":
            return f"an evaluation of plan {plan} on {line.get('block')} that scores {line.get('score')}"
        case "trial":
            return (
                f"the verdict {line.get('status')} on plan {plan} ({line.get('split')}, {line.get('samples')} samples)"
            )
    return f"the answer plan {plan}, {line.get('outcome')}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
