"""The log of a search: one JSON object a line, in the order in which the search used what it learnt.

It holds every figure that the answer rests on, so that the answer can be derived again without an evaluation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from dovetail.cost.unit_prices import ProbedPrices, prices_from
from dovetail.errors import SearchError
from dovetail.files import check_ours
from dovetail.seal import parse_json, sealed, unsealed
from dovetail.search.trial import Scores, Trial

SCHEMA = 4
_MOST_BYTES = 1 << 30

LogLine = Mapping[str, object]


class SearchLog:
    """A file of lines as they come; `lines` are kept too, for a replay to compare."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lines: list[LogLine] = []
        self._stream: IO[str] | None = None
        if path is not None:
            if path.is_file():
                check_ours(path)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._stream = path.open("w", encoding="utf-8")
            except OSError as error:
                raise SearchError(
                    f"{path}: cannot be written: {error.strerror}.", hint="Choose another log."
                ) from error

    def write(self, event: str, **fields: object) -> None:
        """Write one line."""
        line = {"event": event, **fields}
        self.lines.append(line)
        if self._stream is not None:
            try:
                self._stream.write(json.dumps(sealed(line), ensure_ascii=False) + "\n")
                self._stream.flush()
            except OSError as error:
                raise SearchError(f"{self._path}: cannot be written: {error.strerror}.") from error

    def evaluation(self, plan: str, block: str, scores: Scores) -> None:
        """Write what an evaluation gave."""
        each = None if scores.per_sample is None else [_number(float(value)) for value in scores.per_sample]
        score = None if math.isnan(scores.score) else scores.score
        self.write("evaluation", plan=plan, block=block, score=score, scores=each, failure=scores.failure)

    def prices(self, prices: ProbedPrices) -> None:
        """Write what a vendor's model said that units take."""
        self.write("prices", **prices.record())

    def close(self) -> None:
        """Close the file; what it could not take was said when it was written."""
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()


@contextmanager
def open_log(path: Path | None, lines: list[LogLine] | None = None) -> Iterator[SearchLog]:
    """Open the log of a search and close it in the end; `lines` is a list to collect them in."""
    log = SearchLog(path)
    if lines is not None:
        log.lines = lines
    try:
        yield log
    finally:
        log.close()


def trial_fields(trial: Trial) -> dict[str, object]:
    """Return a trial but for its plan as plain values, in the order of the journal's columns."""
    return {
        "status": trial.status.value,
        "score": None if math.isnan(trial.score) else trial.score,
        "float_score": trial.float_score,
        "samples": trial.samples,
        "samples_total": trial.samples_total,
        "raised": json.dumps(trial.raised),
        "reason": trial.reason,
    }


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


@dataclass(frozen=True, slots=True)
class ReadLog:
    """The lines of a log; `header` is the first, which says what was searched."""

    path: Path
    header: LogLine
    lines: tuple[LogLine, ...]

    def evaluations(self) -> list[tuple[str, str, Scores]]:
        """Return plan, block and scores of every evaluation; raise SearchError when a line is damaged."""
        entries: list[tuple[str, str, Scores]] = []
        for number, line in enumerate(self.lines, 1):
            if line["event"] != "evaluation":
                continue
            try:
                entries.append(_evaluation(line))
            except (KeyError, OverflowError, TypeError, ValueError) as error:
                raise SearchError(f"{self.path}:{number}: no evaluation: {str(error)[:80]}.") from error
        return entries

    def prices(self) -> ProbedPrices:
        """Return what a vendor's model said that units take; raise SearchError when a line is damaged."""
        for number, line in enumerate(self.lines, 1):
            if line["event"] == "prices":
                try:
                    return prices_from(line)
                except (KeyError, OverflowError, TypeError, ValueError) as error:
                    raise SearchError(f"{self.path}:{number}: no prices: {str(error)[:80]}.") from error
        return ProbedPrices()

    def ends(self) -> dict[float, int]:
        """Return how many evaluations had been used when shares of the time were spent; raise SearchError as above."""
        for number, line in enumerate(self.lines, 1):
            if line["event"] == "time":
                try:
                    return _ends(line["ends"])
                except (KeyError, OverflowError, TypeError, ValueError) as error:
                    raise SearchError(f"{self.path}:{number}: no end of time: {str(error)[:80]}.") from error
        return {}


def _ends(pairs: object) -> dict[float, int]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise TypeError("pairs of a share and a number")
    return {float(share): int(used) for share, used in pairs}


def _evaluation(line: LogLine) -> tuple[str, str, Scores]:
    score, each = line["score"], line["scores"]
    if not isinstance(score, int | float | None) or not isinstance(each, list | None):
        raise TypeError("scores are numbers")
    values = None if each is None else np.asarray(each, dtype=np.float64)
    if values is not None and values.ndim != 1:
        raise ValueError("scores are one number a sample")
    total = float("nan") if score is None else float(score)
    return str(line["plan"]), str(line["block"]), Scores(total, values, str(line["failure"]))


def read_search_log(path: Path) -> ReadLog:
    """Return a log; a line that a crash cut short at the end is left out. Raises SearchError when it is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SearchError(f"{path}: larger than {_MOST_BYTES >> 20} MiB: no log of a search.")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SearchError(f"{path}: cannot be read: {error}.") from error
    lines: list[LogLine] = []
    for number, row in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        try:
            line = parse_json(row)
            if not isinstance(line, dict) or not isinstance(line.get("event"), str):
                raise ValueError("no event")
            line = unsealed(line)
        except (ValueError, RecursionError) as error:
            raise SearchError(f"{path}:{number}: no line of a log: {str(error)[:80]}.") from error
        lines.append(line)
    if not lines or lines[0]["event"] != "search" or lines[0].get("schema") != SCHEMA:
        raise SearchError(
            f"{path}: no log of schema {SCHEMA}.", hint="A search writes one where it is told to.", option="log"
        )
    return ReadLog(path, lines[0], tuple(lines))
