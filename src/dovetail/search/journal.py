"""The journal: every evaluation is on disk before the next starts, so that a killed search resumes.

SQLite in WAL mode. The key is (context, plan digest, block of samples); the context is a digest of everything else
that the scores depend on: graph, ranges, samples, metric and simulator.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dovetail.errors import SearchError
from dovetail.ir.dtypes import AnyArray

if TYPE_CHECKING:
    from dovetail.search.log import SearchLog

_SCHEMA = """
CREATE TABLE IF NOT EXISTS evaluation (
  context TEXT NOT NULL, plan TEXT NOT NULL, block TEXT NOT NULL,
  score REAL, scores BLOB, failure TEXT NOT NULL, elapsed_ns INTEGER NOT NULL,
  PRIMARY KEY (context, plan, block)
);
CREATE TABLE IF NOT EXISTS flight (
  context TEXT NOT NULL, plan TEXT NOT NULL, block TEXT NOT NULL, PRIMARY KEY (context, plan, block)
);
CREATE TABLE IF NOT EXISTS trial (
  id INTEGER PRIMARY KEY, context TEXT NOT NULL, plan TEXT NOT NULL, stage TEXT NOT NULL, status TEXT NOT NULL,
  score REAL, float_score REAL, samples INTEGER NOT NULL, samples_total INTEGER NOT NULL, raised TEXT NOT NULL,
  reason TEXT NOT NULL, UNIQUE (context, plan, stage)
);
"""


@dataclass(frozen=True, slots=True)
class Scores:
    """Hold the scores of a block of samples; `per_sample` is None for metrics that exist only for a set."""

    score: float
    per_sample: AnyArray | None
    failure: str = ""


class Journal:
    """Keep evaluations of one search context; `path` None keeps them in memory."""

    def __init__(self, path: Path | None, context: str, log: SearchLog | None = None) -> None:
        self._context = context
        self._log = log
        self.closed_to_new = False
        """Tells that what is not on record must not be evaluated."""
        self._where = str(path) if path is not None else ":memory:"
        try:
            self._database = sqlite3.connect(self._where, timeout=30.0, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise SearchError(
                f"{self._where}: not a usable journal: {error}.", hint="Delete it, or name another.", option="journal"
            ) from error

    def recall(self, plan: str, block: str) -> Scores | None:
        """Return the scores of an evaluation that was made before, or None."""
        row = self._execute(
            "SELECT score, scores, failure FROM evaluation WHERE context=? AND plan=? AND block=?", (plan, block)
        ).fetchone()
        if row is None:
            return None
        score, blob, failure = row
        try:
            per_sample = None if blob is None else np.frombuffer(blob, dtype="<f8").astype(np.float64)
            return Scores(float("nan") if score is None else float(score), per_sample, str(failure))
        except (ValueError, TypeError) as error:
            raise SearchError(
                f"{self._where}: the journal is damaged: {error}.", hint="Delete it, or name another.", option="journal"
            ) from error

    def record(self, plan: str, block: str, scores: Scores, elapsed_ns: int) -> None:
        """Write an evaluation; it is durable when this returns."""
        blob = None if scores.per_sample is None else scores.per_sample.astype("<f8").tobytes()
        score = None if scores.score != scores.score else scores.score
        self._execute(
            "INSERT OR REPLACE INTO evaluation (context, plan, block, score, scores, failure, elapsed_ns) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (plan, block, score, blob, scores.failure, elapsed_ns),
        )
        self.land(plan, block)

    def take_off(self, plan: str, block: str) -> None:
        """Write that an evaluation is under way."""
        self._execute("INSERT OR REPLACE INTO flight (context, plan, block) VALUES (?, ?, ?)", (plan, block))

    def land(self, plan: str, block: str) -> None:
        """Write that an evaluation is no longer under way."""
        self._execute("DELETE FROM flight WHERE context=? AND plan=? AND block=?", (plan, block))

    def under_way(self) -> list[tuple[str, str]]:
        """Return plans and blocks whose evaluation has begun and not ended: those that a killed run has lost."""
        return self._execute("SELECT plan, block FROM flight WHERE context=? ORDER BY plan, block", ()).fetchall()

    def close_to_new(self, known: Iterable[tuple[str, str, Scores]]) -> None:
        """Take in evaluations that are known, and no others."""
        for plan, block, scores in known:
            self.record(plan, block, scores, 0)
        self.closed_to_new = True

    def used(self, plan: str, block: str, scores: Scores) -> None:
        """Hear that the search has used an evaluation for the first time."""
        if self._log is not None:
            self._log.evaluation(plan, block, scores)

    def log_trial(self, stage: str, plan: str, fields: tuple[object, ...]) -> None:
        """Write the verdict on a plan: `fields` are status, score, float score, samples, total, raised, reason."""
        if self._log is not None:
            names = ("status", "score", "float_score", "samples", "samples_total", "raised", "reason")
            self._log.write("trial", split=stage, plan=plan, **dict(zip(names, fields, strict=True)))
        self._execute(
            "INSERT OR REPLACE INTO trial (context, plan, stage, status, score, float_score, samples, samples_total, "
            "raised, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (plan, stage, *fields),
        )

    def entries(self) -> list[tuple[str, str]]:
        """Return the plans and blocks that are on record."""
        return self._execute("SELECT plan, block FROM evaluation WHERE context=?", ()).fetchall()

    def evaluation_count(self) -> int:
        """Return how many evaluations of this context are on record."""
        row = self._execute("SELECT COUNT(*) FROM evaluation WHERE context=?", ()).fetchone()
        return int(row[0])

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _execute(self, statement: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, (self._context, *values))
        except sqlite3.Error as error:
            raise SearchError(
                f"{self._where}: the journal cannot be used: {error}.",
                hint="Delete it, or name another.",
                option="journal",
            ) from error


def block_key(kind: str, indices: Sequence[int]) -> str:
    """Return the name of a block of samples, for one kind of measurement."""
    digest = hashlib.sha256(np.asarray(indices, dtype="<i8").tobytes()).hexdigest()[:16]
    return f"{kind}:{len(indices)}:{digest}"
