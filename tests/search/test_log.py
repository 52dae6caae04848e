"""The log of a search: a place that cannot be written and a line that is none are said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import SearchError
from dovetail.seal import unsealed
from dovetail.search.log import SCHEMA, SearchLog, open_log, read_search_log
from dovetail.search.trial import Scores


def test_a_log_that_cannot_be_opened_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / "log.jsonl"
    with pytest.raises(SearchError) as caught:
        SearchLog(path)
    assert str(caught.value).startswith(f"{path}: cannot be written: ")


def test_evaluations_come_back_as_they_were_written(tmp_path: Path) -> None:
    log = SearchLog(tmp_path / "log.jsonl")
    log.write("search", schema=SCHEMA)
    log.evaluation("p", "b", Scores(0.75, np.array([1.0, 0.5])))
    log.evaluation("q", "b", Scores(0.25, None))
    log.evaluation("r", "b", Scores.failed("no memory"))
    log.close()
    (plan, block, each), (_, _, whole), (_, _, failed) = read_search_log(tmp_path / "log.jsonl").evaluations()
    assert (plan, block, each.score) == ("p", "b", 0.75)
    assert each.per_sample is not None
    assert each.per_sample.tolist() == [1.0, 0.5]
    assert (whole.score, whole.per_sample) == (0.25, None)
    assert np.isnan(failed.score)
    assert failed.failure == "no memory"


@pytest.mark.parametrize(
    "change",
    [
        {"score": "high"},
        {"scores": 1.0},
        {"scores": [[1.0]]},
        {"scores": ["x"]},
    ],
)
def test_a_damaged_evaluation_is_refused_by_its_line(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = SearchLog(path)
    log.write("search", schema=SCHEMA)
    log.evaluation("p", "b", Scores(1.0, np.ones(2)))
    log.close()
    header, line = path.read_text().splitlines()
    path.write_text("\n".join([header, json.dumps(unsealed(json.loads(line)) | change), ""]))
    with pytest.raises(SearchError, match=":2: no evaluation: ") as caught:
        read_search_log(path).evaluations()
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="-: there is no /dev/full")
def test_a_log_on_a_full_disk_is_said_once() -> None:
    with pytest.raises(SearchError, match="No space left"), open_log(Path("/dev/full")) as log:
        log.write("search")
