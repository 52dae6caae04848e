"""The journal: every evaluation is on disk before the next starts, so that a killed search resumes.

SQLite in WAL mode. The key is (context, plan digest, block of samples); the context is a digest of everything else
that the scores depend on: graph, ranges, samples, metric and simulator. Every row that is read back carries a checksum:
a damaged journal is an error, never another answer.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dovetail.cost.unit_prices import ProbedPrices, prices_from
from dovetail.errors import SearchError
from dovetail.search.log import SearchLog, trial_fields
from dovetail.search.trial import Scores, Trial

_SCHEMA = """
CREATE TABLE IF NOT EXISTS evaluation (
  context TEXT NOT NULL, plan TEXT NOT NULL, block TEXT NOT NULL,
  score REAL, scores BLOB, failure TEXT NOT NULL, elapsed_ns INTEGER NOT NULL, checksum BLOB NOT NULL,
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
  context TEXT NOT NULL, question TEXT NOT NULL, prices TEXT NOT NULL, checksum BLOB NOT NULL,
  PRIMARY KEY (context, question)
);
"""
_HINT = "Delete it, or name another journal."
_ROOM = "Make room, then give the same command again: it goes on from what is written."
_FULL = (
    "SQLITE_FULL",
    "SQLITE_IOERR_WRITE",
    "SQLITE_IOERR_FSYNC",
    "SQLITE_IOERR_SHMSIZE",
    "SQLITE_IOERR_TRUNCATE",
)
_ROWS = (("evaluation", "checksum"), ("price", "checksum"))


class Journal:
    """The evaluations of one search context; `path` None keeps them in memory.

    The file is closed by `close`, or when nobody has the journal any more.
    """

    def __init__(self, path: Path | None, context: str, log: SearchLog | None = None) -> None:
        self.context = context
        self._log = log
        self.is_closed_to_new = False
        """Tells that what is not on record must not be evaluated."""
        self._where = str(path) if path is not None else ":memory:"
        try:
            # Whichever thread is the last to have it closes it.
            self._database = sqlite3.connect(self._where, timeout=30.0, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._database.close)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
            unsealed = [table for table, column in _ROWS if column not in self._columns(table)]
        except (UnicodeDecodeError, sqlite3.Error) as error:
            raise self._unusable("not a usable journal", error) from error
        if unsealed:
            self._database.close()
            raise SearchError(
                f"{self._where}: the journal is of an older version, whose rows carry no checksum.",
                hint=_HINT,
                option="journal",
            )

    def recall(self, plan: str, block: str) -> Scores | None:
        """Return the scores of an evaluation that was made before, or None."""
        row = self._row(
            "SELECT score, scores, failure, elapsed_ns, checksum FROM evaluation "
            "WHERE context=? AND plan=? AND block=?",
            (plan, block),
        )
        if row is None:
            return None
        score, blob, failure, elapsed_ns, checksum = row
        self._check_seal(checksum, plan, block, score, blob, failure, elapsed_ns)
        try:
            per_sample = None if blob is None else np.frombuffer(blob, dtype="<f8").astype(np.float64)
            return Scores(float("nan") if score is None else float(score), per_sample, str(failure))
        except (ValueError, TypeError) as error:
            raise self._damaged(error) from error

    def record(self, plan: str, block: str, scores: Scores, elapsed_ns: int) -> None:
        """Write an evaluation; it is durable when this returns."""
        blob = None if scores.per_sample is None else scores.per_sample.astype("<f8").tobytes()
        # SQLite keeps no sign of a zero.
        score = None if scores.score != scores.score else float(scores.score) + 0.0
        values = (plan, block, score, blob, scores.failure, elapsed_ns)
        self._execute(
            "INSERT OR REPLACE INTO evaluation (context, plan, block, score, scores, failure, elapsed_ns, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, self._seal(*values)),
        )
        self.end(plan, block)

    def elapsed_ns(self, plan: str, block: str) -> int:
        """Return how long an evaluation took that is on record; 0 for one that is not."""
        statement = "SELECT elapsed_ns FROM evaluation WHERE context=? AND plan=? AND block=?"
        row = self._row(statement, (plan, block))
        return 0 if row is None or not isinstance(row[0], int) else row[0]

    def recall_prices(self, question: str) -> ProbedPrices | None:
        """Return the prices that an earlier run of this search went by, or None."""
        row = self._row("SELECT prices, checksum FROM price WHERE context=? AND question=?", (question,))
        if row is None:
            return None
        self._check_seal(row[1], question, row[0])
        try:
            return prices_from(json.loads(row[0]))
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise self._damaged(error) from error

    def record_prices(self, question: str, prices: ProbedPrices) -> None:
        """Write the prices that this search goes by; they are durable when this returns."""
        text = json.dumps(prices.record())
        self._execute(
            "INSERT OR REPLACE INTO price (context, question, prices, checksum) VALUES (?, ?, ?, ?)",
            (question, text, self._seal(question, text)),
        )

    def begin(self, plan: str, block: str) -> None:
        """Write that an evaluation is under way."""
        self._execute("INSERT OR REPLACE INTO running (context, plan, block) VALUES (?, ?, ?)", (plan, block))

    def end(self, plan: str, block: str) -> None:
        """Write that an evaluation is no longer under way."""
        self._execute("DELETE FROM running WHERE context=? AND plan=? AND block=?", (plan, block))

    def running(self) -> list[tuple[str, str]]:
        """Return plans and blocks whose evaluation has begun and not ended: those that a killed run has lost."""
        return self._execute("SELECT plan, block FROM running WHERE context=? ORDER BY plan, block", ())

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
        return self._execute("SELECT plan, block FROM evaluation WHERE context=?", ())

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _columns(self, table: str) -> set[str]:
        return {str(row[1]) for row in self._database.execute(f"PRAGMA table_info({table})")}

    def _seal(self, *values: object) -> bytes:
        """Return the checksum of a row of this context."""
        return hashlib.sha256(repr((self.context, *values)).encode()).digest()[:16]

    def _check_seal(self, checksum: object, *values: object) -> None:
        if checksum != self._seal(*values):
            raise self._damaged(ValueError("a row does not have its checksum"))

    def _damaged(self, error: Exception) -> SearchError:
        return SearchError(f"{self._where}: the journal is damaged: {error}.", hint=_HINT, option="journal")

    def _unusable(self, what: str, error: Exception) -> SearchError:
        """Return what to say of an error; a full disk is no reason to delete what was found."""
        full = getattr(error, "sqlite_errorname", "") in _FULL
        hint = _ROOM if full else _HINT
        return SearchError(f"{self._where}: {what}: {error}.", hint=hint, option=None if full else "journal")

    def _row(self, statement: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        rows = self._execute(statement, values)
        return rows[0] if rows else None

    def _execute(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(statement, (self.context, *values)).fetchall()
        except (UnicodeDecodeError, sqlite3.Error) as error:
            raise self._unusable("the journal cannot be used", error) from error


def block_key(kind: str, indices: Sequence[int]) -> str:
    """Return the name of a block of samples, for one kind of measurement."""
    digest = hashlib.sha256(np.asarray(indices, dtype="<i8").tobytes()).hexdigest()[:16]
    return f"{kind}:{len(indices)}:{digest}"
