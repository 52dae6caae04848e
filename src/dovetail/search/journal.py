"""The journal: every evaluation is on disk before the next starts, so that a killed search resumes.

SQLite in WAL mode. The key is (context, plan digest, block of samples); the context is a digest of everything else
that the scores depend on: graph, ranges, samples, metric and simulator.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from dovetail.cost.unit_prices import ProbedPrices, prices_from
from dovetail.errors import SearchError
from dovetail.search.log import SearchLog, trial_fields
from dovetail.search.trial import Scores, Trial

_SCHEMA = """
CREATE TABLE IF NOT EXISTS evaluation (
  context TEXT NOT NULL, plan TEXT NOT NULL, block TEXT NOT NULL,
  score REAL, scores BLOB, failure TEXT NOT NULL, elapsed_ns INTEGER NOT NULL,
  PRIMARY KEY (context, plan, block)
);
CREATE TABLE IF NOT EXISTS running (
  context TEXT NOT NULL, plan TEXT NOT NULL, block TEXT NOT NULL, PRIMARY KEY (context, plan, block)
);
CREATE TABLE IF NOT EXISTS trial (
  id INTEGER PRIMARY KEY, context TEXT NOT NULL, plan TEXT NOT NULL, stage TEXT NOT NULL, status TEXT NOT NULL,
  score REAL, float_score REAL, samples INTEGER NOT NULL, samples_total INTEGER NOT NULL, raised TEXT NOT NULL,
  reason TEXT NOT NULL, UNIQUE (context, plan, stage)
);
CREATE TABLE IF NOT EXISTS price (
  context TEXT NOT NULL, question TEXT NOT NULL, prices TEXT NOT NULL, PRIMARY KEY (context, question)
);
"""
_HINT = "Delete it, or name another journal."


class Journal:
    """The evaluations of one search context; `path` None keeps them in memory."""

    def __init__(self, path: Path | None, context: str, log: SearchLog | None = None) -> None:
        self.context = context
        self._log = log
        self.is_closed_to_new = False
        """Tells that what is not on record must not be evaluated."""
        self._where = str(path) if path is not None else ":memory:"
        try:
            self._database = sqlite3.connect(self._where, timeout=30.0, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise SearchError(f"{self._where}: not a usable journal: {error}.", hint=_HINT, option="journal") from error

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
            raise self._damaged(error) from error

    def record(self, plan: str, block: str, scores: Scores, elapsed_ns: int) -> None:
        """Write an evaluation; it is durable when this returns."""
        blob = None if scores.per_sample is None else scores.per_sample.astype("<f8").tobytes()
        score = None if scores.score != scores.score else scores.score
        self._execute(
            "INSERT OR REPLACE INTO evaluation (context, plan, block, score, scores, failure, elapsed_ns) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (plan, block, score, blob, scores.failure, elapsed_ns),
        )
        self.end(plan, block)

    def recall_prices(self, question: str) -> ProbedPrices | None:
        """Return the prices that an earlier run of this search went by, or None."""
        row = self._execute("SELECT prices FROM price WHERE context=? AND question=?", (question,)).fetchone()
        try:
            return None if row is None else prices_from(json.loads(row[0]))
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise self._damaged(error) from error

    def record_prices(self, question: str, prices: ProbedPrices) -> None:
        """Write the prices that this search goes by; they are durable when this returns."""
        text = json.dumps(prices.record())
        self._execute("INSERT OR REPLACE INTO price (context, question, prices) VALUES (?, ?, ?)", (question, text))

    def begin(self, plan: str, block: str) -> None:
        """Write that an evaluation is under way."""
        self._execute("INSERT OR REPLACE INTO running (context, plan, block) VALUES (?, ?, ?)", (plan, block))

    def end(self, plan: str, block: str) -> None:
        """Write that an evaluation is no longer under way."""
        self._execute("DELETE FROM running WHERE context=? AND plan=? AND block=?", (plan, block))

    def running(self) -> list[tuple[str, str]]:
        """Return plans and blocks whose evaluation has begun and not ended: those that a killed run has lost."""
        return self._execute("SELECT plan, block FROM running WHERE context=? ORDER BY plan, block", ()).fetchall()

    def close_to_new(self, known: Iterable[tuple[str, str, Scores]]) -> None:
        """Take in evaluations that are known, and no others."""
        for plan, block, scores in known:
            self.record(plan, block, scores, 0)
        self.is_closed_to_new = True

    def log_use(self, plan: str, block: str, scores: Scores) -> None:
        """Write to the log that the search has used an evaluation for the first time."""
        if self._log is not None:
            self._log.evaluation(plan, block, scores)

    def log_trial(self, split: str, trial: Trial) -> None:
        """Write the verdict on a plan, over a split of this name."""
        fields = trial_fields(trial)
        if self._log is not None:
            self._log.write("trial", split=split, plan=trial.plan_digest, **fields)
        self._execute(
            "INSERT OR REPLACE INTO trial (context, plan, stage, status, score, float_score, samples, samples_total, "
            "raised, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (trial.plan_digest, split, *fields.values()),
        )

    def entries(self) -> list[tuple[str, str]]:
        """Return the plans and blocks that are on record."""
        return self._execute("SELECT plan, block FROM evaluation WHERE context=?", ()).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _damaged(self, error: Exception) -> SearchError:
        return SearchError(f"{self._where}: the journal is damaged: {error}.", hint=_HINT, option="journal")

    def _execute(self, statement: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, (self.context, *values))
        except sqlite3.Error as error:
            raise SearchError(
                f"{self._where}: the journal cannot be used: {error}.", hint=_HINT, option="journal"
            ) from error


def block_key(kind: str, indices: Sequence[int]) -> str:
    """Return the name of a block of samples, for one kind of measurement."""
    digest = hashlib.sha256(np.asarray(indices, dtype="<i8").tobytes()).hexdigest()[:16]
    return f"{kind}:{len(indices)}:{digest}"
