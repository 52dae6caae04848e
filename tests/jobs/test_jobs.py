"""Jobs: predicted beside measured, kept sample by sample, gone on with after whatever ended them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import Served, served, small_bundle

import dovetail
from dovetail.cli.main import main
from dovetail.errors import DataError, DeviceLost
from dovetail.ir import AnyArray
from dovetail.jobs import JOB_SCHEMA, JobFolder, JobStore, JobWork, perform_job
from dovetail.jobs.record import (
    Beside,
    JobFigures,
    JobRecord,
    JobRequest,
    JobScore,
    UnitCounts,
    record_from_document,
    record_to_document,
)
from dovetail.runtime import LoadedModel, LocalRuntime

SAMPLES = 12
METRIC = '''
import numpy as np


def score(outputs, labels):
    """The share of samples whose largest output is that of the label."""
    return (outputs["y"].argmax(axis=1) == labels["label"]).astype(np.float64)
'''


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bundle, samples, labels and a metric."""
    folder = tmp_path_factory.mktemp("files")
    dovetail.save_bundle(small_bundle(), folder / "bundle")
    rng = np.random.default_rng(5)
    inputs, labels = rng.normal(size=(SAMPLES, 8)).astype(np.float32), rng.integers(0, 4, SAMPLES)
    np.savez(folder / "data.npz", x=inputs, label=labels)
    (folder / "metric.py").write_text(METRIC)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("board")) as found:
        yield found


def command(files: Path, jobs: Path, *more: object) -> int:
    words = ["job", "run", files / "bundle", "--data", files / "data.npz", "--metric", f"{files / 'metric.py'}:score"]
    return main([str(word) for word in (*words, "--jobs", jobs, "--runs", 20, *more)])


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(JOB_SCHEMA).validate(document)
    return document


def test_a_job_on_a_board_has_predictions_beside_measurements(
    files: Path, server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(files, tmp_path, "--on", server.url, "--json") == 0
    job = said(capsys)
    found = job["figures"]
    assert job["state"] == "done"
    assert job["samples_done"] == found["samples"] == SAMPLES
    assert found["equal_share"] == 1.0
    (score,) = found["scores"]
    bundle = dovetail.load_bundle(files / "bundle")
    with np.load(files / "data.npz") as data, dovetail.open_session(bundle) as session:
        pairs = zip(data["x"], data["label"], strict=True)
        right = [session.run({"x": x[None]}).outputs["y"].argmax() == label for x, label in pairs]
    assert score["score"] == {"predicted": np.mean(right), "measured": np.mean(right)}
    assert found["time_ns"]["measured"] > 0
    assert found["process_bytes"] > found["memory_bytes"]["measured"] >= 0
    # 4 x 8 weights, and at most x, h and y of 8, 4 and 4 floats.
    assert 4 * 32 + 4 * 12 <= found["memory_bytes"]["predicted"] <= 4 * 32 + 4 * 16
    single = found["scenarios"]["SingleStream"]
    assert single["p50_ns"] <= single["p90_ns"] <= single["p99_ns"]
    assert single["p99_bound_ns"] is None, "twenty runs bound no 99 %"
    assert found["scenarios"]["Offline"]["samples_per_s"] > 0
    for verb in (["list"], ["show", job["id"][:5]], ["schema"]):
        assert main(["job", *verb, *([] if verb == ["schema"] else ["--jobs", str(tmp_path)])]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 100 or verb == ["schema"]
    assert main(["job", "remove", job["id"], "--jobs", str(tmp_path)]) == 0
    assert JobStore(tmp_path).all() == []


class Dying(LocalRuntime):
    """This machine, which is lost after some runs; it counts them."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self.left = runs
        self.ran = 0

    def load(self, bundle: dovetail.Bundle) -> Any:
        session = super().load(bundle)
        place = self

        class Model(LoadedModel):
            bundle = session.bundle
            devices = session.devices
            profile = session.profile
            close = session.close

            def run(self, inputs: Mapping[str, AnyArray], taps: Any = ()) -> Any:
                if place.left == 0:
                    raise DeviceLost("the cable was cut.")
                place.left -= 1
                place.ran += 1
                return session.run(inputs, taps)

            def __exit__(self, *exception: object) -> None:
                session.close()

        return Model()


class Sums:
    """Score by the sum of everything, which tells samples apart."""

    def __init__(self) -> None:
        self.total = 0.0

    def add(self, outputs: Mapping[str, AnyArray], sample: Any) -> None:
        self.total += float(np.sum(outputs["y"], dtype=np.float64))

    def document(self) -> dict[str, float]:
        return {"sum": self.total}

    def higher_is_better(self, metric: str) -> bool:
        return True


def work(files: Path, place: LocalRuntime) -> JobWork:
    bundle = dovetail.load_bundle(files / "bundle")
    samples = dovetail.open_samples(str(files / "data.npz"), dovetail.specs_of(bundle.inputs))
    return JobWork(bundle, samples, place, Sums)


def new_job(files: Path, folder: Path) -> JobFolder:
    from dovetail.bundle import digest_bundle

    bundle = dovetail.load_bundle(files / "bundle")
    request = JobRequest(str(files / "bundle"), str(files / "data.npz"), runs=5)
    return JobStore(folder).create(request, bundle.name, digest_bundle(bundle))


def test_a_job_goes_on_where_it_was_lost(files: Path, tmp_path: Path) -> None:
    """Lost twice, and gone on with: every sample ran once, and the score is that of one run."""
    straight = perform_job(new_job(files, tmp_path), work(files, LocalRuntime()))
    job, ran = new_job(files, tmp_path), 0
    for left, done in ((5, 5), (4, 9)):
        place = Dying(left)
        with pytest.raises(DeviceLost):
            perform_job(job, work(files, place))
        ran += place.ran
        assert job.samples_done == done
        assert job.state.value == "stopped"
        assert "cable" in job.record.reason
    last = Dying(100)
    record = perform_job(job, work(files, last))
    assert ran + last.ran == SAMPLES
    assert record.figures is not None
    assert straight.figures is not None
    assert record.figures.scores == straight.figures.scores
    assert record.reason == ""
    again = Dying(0)
    assert perform_job(job, work(files, again)) == record, "what is done is not done again"


def test_a_job_is_of_one_bundle_and_these_data(files: Path, tmp_path: Path) -> None:
    job = new_job(files, tmp_path / "jobs")
    with pytest.raises(DeviceLost):
        perform_job(job, work(files, Dying(3)))
    doing = work(files, LocalRuntime())
    with pytest.raises(DataError, match="another bundle"):
        perform_job(job, replace(doing, bundle=small_bundle(seed=2)))
    np.savez(tmp_path / "data.npz", x=np.ones((SAMPLES, 8), np.float32))
    others = dovetail.open_samples(str(tmp_path / "data.npz"), dovetail.specs_of(doing.bundle.inputs))
    with pytest.raises(DataError, match="not the one that it has run"):
        perform_job(job, replace(doing, samples=others))


def test_two_processes_are_not_at_one_job(files: Path, tmp_path: Path) -> None:
    job = new_job(files, tmp_path)
    with job.alone():
        assert job.state.value == "running"
        with pytest.raises(DataError, match="is running"):
            perform_job(job, work(files, LocalRuntime()))
        with pytest.raises(DataError, match="is running"):
            JobStore(tmp_path).remove(job)


def test_what_is_damaged_is_refused(files: Path, tmp_path: Path) -> None:
    job = new_job(files, tmp_path)
    with pytest.raises(DeviceLost):
        perform_job(job, work(files, Dying(3)))
    sample = job.folder / "samples" / "000001.npz"
    sample.write_bytes(sample.read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged"):
        perform_job(job, work(files, LocalRuntime()))
    record = job.folder / "job.json"
    record.write_text(record.read_text().replace('"runs": 5', '"runs": 6'))
    with pytest.raises(DataError, match="damaged"):
        JobStore(tmp_path).all()


def test_jobs_that_are_not_there_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("show", "resume", "remove"):
        assert main(["job", verb, "abc", "--jobs", str(tmp_path)]) == 2
        assert "there is no job 'abc'" in capsys.readouterr().err


BESIDE = st.builds(Beside, st.none() | st.floats(0, 1e12), st.none() | st.floats(0, 1e12))
COUNTS = st.integers(0, 1 << 40)
FIGURES = st.builds(
    JobFigures,
    devices=st.tuples(st.text(max_size=9)),
    samples=COUNTS,
    time_ns=BESIDE,
    predicted_by=st.text(max_size=20),
    memory_bytes=BESIDE,
    process_bytes=st.none() | COUNTS,
    units=st.none() | st.builds(UnitCounts, COUNTS, COUNTS, st.dictionaries(st.text(max_size=3), COUNTS, max_size=3)),
    units_moved=st.none() | COUNTS,
    scores=st.lists(st.builds(JobScore, st.text(max_size=9), st.booleans(), BESIDE), max_size=2).map(tuple),
    equal_share=st.none() | st.floats(0, 1),
    scenarios=st.just({"SingleStream": {"queries": 1}, "Offline": {"queries": 1}}),
    notes=st.lists(st.text(max_size=9), max_size=2).map(tuple),
)


@given(FIGURES, st.text(max_size=20))
def test_every_record_is_read_as_it_was_written_and_fits_the_schema(figures: JobFigures, reason: str) -> None:
    request = JobRequest("/b", "/d", on="board", metrics=("top1",), samples=3)
    record = JobRecord("abcdefgh", "2026-01-01T00:00:00+00:00", "m", "0" * 64, request, figures, reason)
    document = json.loads(json.dumps(record_to_document(record)))
    assert record_from_document(document) == record
    validator = jsonschema.Draft202012Validator(JOB_SCHEMA)
    validator.validate({**document, "state": "done", "samples_done": 3})
    assert not validator.is_valid(document)
