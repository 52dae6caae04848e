"""The journal: what is on record is not made again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.backend.costs import Figure, Quality
from dovetail.cost import ProbedPrices
from dovetail.errors import SearchError
from dovetail.ir import AnyArray
from dovetail.ir.precision import Precision
from dovetail.search import Journal
from dovetail.search.trial import Scores


@given(st.floats(allow_nan=True), st.one_of(st.none(), hnp.arrays(np.float64, st.integers(0, 9))), st.text(max_size=9))
def test_scores_come_back_as_they_were(score: float, per_sample: AnyArray | None, failure: str) -> None:
    journal = Journal(None, "c")
    journal.record("p", "b", Scores(score, per_sample, failure), 5)
    found = journal.recall("p", "b")
    assert found is not None
    np.testing.assert_equal(found.score, score + 0.0)  # the sign of a zero is lost
    np.testing.assert_equal(found.per_sample, per_sample)
    assert found.failure == failure
    journal.close()


def test_a_record_survives_a_process_that_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    first = Journal(path, "c")
    first.record("p", "b", Scores(0.5, None), 5)
    again = Journal(path, "c")
    assert again.recall("p", "b") == Scores(0.5, None)
    assert len(again.entries()) == 1


def test_contexts_plans_and_blocks_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    one, other = Journal(path, "one"), Journal(path, "other")
    one.record("p", "b", Scores(0.5, None), 5)
    assert other.recall("p", "b") is None
    assert one.recall("p", "c") is None
    assert one.recall("q", "b") is None
    other.record("p", "b", Scores(0.25, None), 5)
    assert (one.recall("p", "b"), other.recall("p", "b")) == (Scores(0.5, None), Scores(0.25, None))
    assert len(one.entries()) == len(other.entries()) == 1


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    path.write_bytes(b"holiday photos " * 1000)
    with pytest.raises(SearchError, match="not a usable journal") as caught:
        Journal(path, "c")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"holiday photos " * 1000


def test_a_damaged_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    journal = Journal(path, "c")
    for index in range(500):
        journal.record(f"p{index}", "b", Scores(0.5, np.zeros(50)), 5)
    journal.close()
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    path.write_bytes(bytes(raw))
    with pytest.raises(SearchError, match="journal"):
        _use(path)


def _use(path: Path) -> None:
    journal = Journal(path, "c")
    for index in range(500):
        journal.recall(f"p{index}", "b")
        journal.record(f"p{index}", "b", Scores(0.5, None), 5)


def test_a_journal_with_other_tables(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE evaluation (something INTEGER)")
    with pytest.raises(SearchError, match="journal"):
        Journal(path, "c").recall("p", "b")


def test_a_record_with_scores_of_a_broken_size(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    journal = Journal(path, "c")
    journal.record("p", "b", Scores(0.5, np.zeros(3)), 5)
    journal.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE evaluation SET scores = x'0102'")
    with pytest.raises(SearchError, match="journal"):
        Journal(path, "c").recall("p", "b")


def test_prices_come_back_for_their_question_and_context(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    figures = {
        ("n0", "vsi:v853", Precision.U8): Figure(0.1, Quality.MODELLED, "the vendor's model"),
        ("n1", "vsi:v853", Precision.I16): Figure(2e9, Quality.MODELLED, "another"),
        ("n0", "vsi:a311d", Precision.U8): Figure(0.0, Quality.MODELLED, "the vendor's model"),
    }
    journal = Journal(path, "c")
    journal.record_prices("q", ProbedPrices(figures))
    journal.record_prices("none", ProbedPrices())
    again = Journal(path, "c")
    assert again.recall_prices("q") == ProbedPrices(figures)
    assert again.recall_prices("none") == ProbedPrices()
    assert again.recall_prices("other") is None
    assert Journal(path, "other").recall_prices("q") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"sources": [], "units": [["n", "t", "u8", 1.0, 0]]}'])
def test_damaged_prices_are_not_gone_by(text: str, tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    journal = Journal(path, "c")
    journal.record_prices("q", ProbedPrices())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE price SET prices = ?", (text,))
    with pytest.raises(SearchError, match="the journal is damaged"):
        journal.recall_prices("q")


@pytest.mark.parametrize("name", ["", "none/j.sqlite"])
def test_a_place_that_cannot_hold_a_journal(tmp_path: Path, name: str) -> None:
    with pytest.raises(SearchError, match="not a usable journal"):
        Journal(tmp_path / name, "c")


def test_no_flipped_byte_changes_what_is_recalled(tmp_path: Path) -> None:
    path, damaged = tmp_path / "j.sqlite", tmp_path / "damaged.sqlite"
    journal = Journal(path, "context")
    kept = {f"plan{index}": Scores(index / 7, np.arange(5) * index / 3.0) for index in range(6)}
    for plan, scores in kept.items():
        journal.record(plan, "all:5:0123", scores, 5)
    journal.close()
    rng, whole = np.random.default_rng(11), path.read_bytes()
    places = rng.choice(len(whole), size=600, replace=False)
    answers = {"same": 0, "forgotten": 0, "refused": 0}
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        damaged.write_bytes(data)
        for plan, scores in kept.items():
            try:
                found = recalled(damaged, plan)
            except SearchError:
                answers["refused"] += 1
                continue
            answers["same" if found is not None else "forgotten"] += 1
            assert found is None or (found.score == scores.score and np.array_equal(bare(found), bare(scores)))
    assert answers["refused"] > 0


def bare(scores: Scores) -> AnyArray:
    """Return what an evaluation gives sample by sample."""
    assert scores.per_sample is not None
    return scores.per_sample


def recalled(path: Path, plan: str) -> Scores | None:
    """Return what a journal has of a plan, after it is opened anew."""
    for more in ("-wal", "-shm"):
        path.with_name(path.name + more).unlink(missing_ok=True)
    journal = Journal(path, "context")
    try:
        return journal.recall(plan, "all:5:0123")
    finally:
        journal.close()


def test_a_journal_of_rows_without_checksums_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE evaluation (context TEXT, plan TEXT, block TEXT, score REAL)")
    database.close()
    with pytest.raises(SearchError, match="older version"):
        Journal(path, "c")


def test_a_full_disk_is_no_reason_to_delete_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    journal = Journal(path, "c")
    journal.record("p", "b", Scores(0.5, None), 5)
    # SQLite's own bound on pages says SQLITE_FULL, as a full disk does.
    journal._database.execute("PRAGMA max_page_count=1")
    with pytest.raises(SearchError, match="Make room") as caught:
        journal.record("q", "b", Scores(0.5, np.zeros(50_000)), 5)
    assert "Delete" not in str(caught.value)
    journal.close()
    assert Journal(path, "c").recall("p", "b") == Scores(0.5, None)


_FULL_FROM_THE_START = """
import resource, signal, sys
from pathlib import Path
from dovetail.errors import SearchError
from dovetail.search.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    Journal(Path(sys.argv[1]), "c")
except SearchError as error:
    print(error)
"""


@pytest.mark.parametrize("most_bytes", [0, 1024, 16384, 32256])
def test_a_disk_that_is_full_from_the_start(most_bytes: int, tmp_path: Path) -> None:
    call = [sys.executable, "-c", _FULL_FROM_THE_START, str(tmp_path / "j.sqlite"), str(most_bytes)]
    said = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert "Make room" in said
    assert "Delete" not in said
