"""Replay: derive the answer of a search again from its log, without an evaluation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.search.fanout import FanOut
from dovetail.search.log import Line, read_search_log
from dovetail.search.recorded import NotOnRecord
from dovetail.search.result import TuneResult
from dovetail.search.tune import TuneListener, TuneRequest, tune

_COMPARED = ("evaluation", "trial", "answer")


@dataclass(frozen=True, slots=True)
class Replay:
    """Hold what a replay found; `result` is None when it had to ask for what the log does not have.

    `deviations` say where the log and the replay part; there are none when both give the same answer.
    """

    result: TuneResult | None
    deviations: tuple[str, ...]
    evaluations: int
    trials: int

    @property
    def agrees(self) -> bool:
        """Tell whether the log and the replay agree."""
        return not self.deviations


def replay(request: TuneRequest, path: Path, listener: TuneListener | None = None) -> Replay:
    """Return the answer that the log of a search leads to; raise SearchError when the file is no log."""
    log = read_search_log(path)
    heard: list[Line] = []
    options = replace(
        request.options, journal=None, fanout=FanOut(), log=None, log_header={}, recall=log.evaluations(), heard=heard
    )
    lost = ""
    try:
        result = tune(replace(request, options=options), listener)
    except NotOnRecord as missing:
        result, lost = None, str(missing)
    deviations = [*_other_question(log.header, heard[0] if heard else {}), *_first_difference(log.lines, heard, lost)]
    made = [line["event"] for line in log.lines]
    return Replay(result, tuple(deviations), made.count("evaluation"), made.count("trial"))


def _other_question(logged: Line, now: Line) -> list[str]:
    """Return how the question of the log differs from the one that is asked now."""
    names = [name for name in logged if name not in ("event", "arguments")]
    return [
        f"{name}: the log has {_short(logged[name])}, now it is {_short(now.get(name))}"
        for name in names
        if json.loads(json.dumps(now.get(name))) != logged[name]
    ]


def _first_difference(logged: Sequence[Line], now: Sequence[Line], lost: str) -> list[str]:
    old = [line for line in logged if line["event"] in _COMPARED]
    new = [json.loads(json.dumps(line)) for line in now if line["event"] in _COMPARED]
    for number, (was, is_now) in enumerate(itertools.zip_longest(old, new), 1):
        if was == is_now:
            continue
        if was is None:
            return [f"step {number}: the log ends, the search goes on with {_say(is_now)}"]
        if is_now is None:
            ends = f"the search asks for what the log does not have: {lost}" if lost else "the search has ended"
            return [f"step {number}: the log has {_say(was)}, {ends}"]
        return [f"step {number}: the log has {_say(was)}, the search has {_say(is_now)}"]
    return [lost] if lost else []


def _say(line: Mapping[str, object]) -> str:
    plan = str(line.get("plan", ""))[:12]
    match line["event"]:
        case "evaluation":
            return f"an evaluation of plan {plan} on {line.get('block')} that scores {line.get('score')}"
        case "trial":
            return (
                f"the verdict {line.get('status')} on plan {plan} ({line.get('split')}, {line.get('samples')} samples)"
            )
    verdict = "accepted" if line.get("accepted") else "not accepted"
    return f"the answer plan {plan}, {verdict}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
