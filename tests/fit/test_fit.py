"""The whole chain as one call: its answer, its folder, its policies."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.backends.cpu.target import CPU
from dovetail.data import InputSpec, SplitOptions, split_samples
from dovetail.errors import DovetailError, SearchError
from dovetail.fit import CalibrationRequest, FitRequest, WorkerRequest, fit, logged_request, policy, replay_fit
from dovetail.fit.policy import choose_low
from dovetail.ir import save_graph
from dovetail.ir.precision import Precision
from dovetail.testing.networks import Network


@pytest.fixture
def request_(tmp_path: Path) -> FitRequest:
    """Return a small classifier with 60 samples that have no labels."""
    net = Network(3)
    hidden = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 6, 3))
    pooled = net.op("Flatten", net.op("GlobalAveragePool", hidden, shape=(1, 6, 1, 1)), shape=(1, 6))
    graph = net.graph(net.op("Softmax", pooled, axis=1))
    save_graph(graph, tmp_path / "model.dvg")
    images = np.random.default_rng(4).normal(size=(60, 2, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=images)
    return FitRequest(tmp_path / "model.dvg", tmp_path / "samples.npz", max_drop="20%")


class Recorder:
    """Keep what a fit tells."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.done: dict[str, int] = {}
        self.notes: list[str] = []

    def converting(self, what: str, share: float) -> None:
        raise AssertionError("nothing is converted")

    def stage(self, title: str, total: int | None = None) -> None:
        self.stages.append((title, total))

    def advance(self, done: int) -> None:
        self.done[self.stages[-1][0]] = done

    def note(self, text: str) -> None:
        assert not self.stages
        self.notes.append(text)


def test_a_fit_gives_and_saves_everything(request_: FitRequest, tmp_path: Path) -> None:
    recorder = Recorder()
    found = fit(request_, recorder)
    assert found.accepted
    assert recorder.stages[0] == ("calibrating", 36)
    assert recorder.notes == list(found.report.notes)
    assert recorder.notes[0].startswith("outputs: classification (probabilities), 9")
    assert len(recorder.notes) == 1
    assert [row.kind for row in found.report.outputs] == ["classification"]
    assert recorder.done["calibrating"] == 36
    # Where a vendor's SDK is installed, its model is asked for prices first.
    searched = [stage for stage in recorder.stages[1:] if "for prices" not in stage[0]]
    assert searched[0] == ("searching: gate", None)
    assert recorder.stages[-1] == ("compiling", None)
    assert not (tmp_path / "out").exists()
    files = found.save(tmp_path / "out")
    assert {path.name for path in files.values()} == {path.name for path in (tmp_path / "out").iterdir()} - {
        "request.json"
    }
    assert dovetail.load_plan(files["plan"]) == found.result.plan
    assert dovetail.load_ranges(files["ranges"]).digest == found.calibration.ranges.digest
    assert dovetail.load_recipe(files["recipe"]).default == found.result.plan.default
    assert dovetail.load_bundle(files["bundle"]).plan == found.result.plan
    assert files["report"].read_text() == str(found)
    assert json.loads(files["result"].read_text())["accepted"] is True
    assert json.loads((tmp_path / "out" / "request.json").read_text())["graph"] == found.graph.digest


def test_a_folder_keeps_the_journal_and_belongs_to_fits(request_: FitRequest, tmp_path: Path) -> None:
    inside = replace(request_, folder=tmp_path / "out")
    first, again = fit(inside), fit(inside)
    assert first.result.cost.fresh_samples > 0
    assert again.result.cost.fresh_samples == 0
    assert again.result.plan == first.result.plan
    with closing(sqlite3.connect(tmp_path / "out" / "journal.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM trial").fetchone()[0]
    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "one.txt").write_text("dear all")
    for attempt in (lambda: fit(replace(request_, folder=letters)), lambda: first.save(letters)):
        with pytest.raises(DovetailError, match="stays as it is"):
            attempt()
    assert [path.name for path in letters.iterdir()] == ["one.txt"]


def test_ranges_come_from_what_the_search_may_see(request_: FitRequest, tmp_path: Path) -> None:
    with np.load(tmp_path / "samples.npz") as file:
        images = file["x"]
    samples = dovetail.open_samples(tmp_path / "samples.npz", [InputSpec("x", images.dtype, (1, 2, 4, 4))])
    splits = split_samples(samples, SplitOptions(seed=7))
    loud = images.copy()
    loud[list(splits.holdout)] *= 1000
    np.savez(tmp_path / "loud.npz", x=loud)
    quiet = fit(replace(request_, split=SplitOptions(seed=7)))
    found = fit(replace(request_, data=tmp_path / "loud.npz", split=SplitOptions(seed=7)))
    assert found.calibration.ranges.tensors == quiet.calibration.ranges.tensors
    other = fit(replace(request_, data=tmp_path / "loud.npz", split=SplitOptions(seed=8)))
    assert other.calibration.ranges.tensors != quiet.calibration.ranges.tensors


def test_samples_of_their_own_for_the_ranges_are_all_taken(request_: FitRequest, tmp_path: Path) -> None:
    own = CalibrationRequest(tmp_path / "samples.npz", limit=100)
    assert fit(replace(request_, calibration=own)).calibration.ranges.samples == 60
    assert fit(replace(request_, calibration=CalibrationRequest(limit=5))).calibration.ranges.samples == 5


def test_a_log_leads_to_the_request_and_to_its_answer(
    request_: FitRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    near = replace(request_, model="model.dvg", data="samples.npz", log="log.jsonl", folder="out")
    found = fit(near)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    logged = logged_request(tmp_path / "log.jsonl")
    assert logged == replace(request_, model=str(request_.model), data=str(request_.data))
    replayed = replay_fit(tmp_path / "log.jsonl")
    assert replayed.agrees
    assert replayed.result is not None
    assert replayed.result.plan == found.result.plan
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(("target", "low"), [("vsi:v853", "i8pc"), ("vsi:a311d", "u8"), ("vsi:imx8mp", "u8")])
def test_the_search_starts_at_the_first_eight_bits_that_are_cheaper_than_sixteen(target: str, low: str) -> None:
    assert str(choose_low(target, None)) == f"{target}@{low}"
    assert str(choose_low(target, "i16")) == f"{target}@i16"


def test_a_target_without_eight_bits_needs_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    floats = replace(CPU, precisions=(Precision.FP32,))
    monkeypatch.setattr(policy, "find_target", lambda name: floats)
    with pytest.raises(SearchError, match="no 8-bit precision") as caught:
        choose_low("cpu", None)
    assert caught.value.option == "low"


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"processes": -1}, "workers"),
        ({"retries": -1}, "workers"),
        ({"processes": 1, "dask": "tcp://host:1"}, "dask"),
        ({"resources": {"npu": 1.0}}, "dask"),
        ({"dask": "tcp://host:1", "resources": {"npu": 0.0}}, "resources"),
        ({"timeout_s": 1.0}, "workers"),
        ({"timeout_s": 0.0, "processes": 1}, "trial_timeout"),
    ],
)
def test_workers_that_make_no_sense_are_refused(fields: dict[str, object], option: str) -> None:
    with pytest.raises(SearchError) as caught:
        WorkerRequest(**fields)  # type: ignore[arg-type]
    assert caught.value.option == option


def test_wrong_requests_are_refused_before_the_folder_is_made(request_: FitRequest, tmp_path: Path) -> None:
    out = tmp_path / "out"
    wrong: list[dict[str, object]] = [
        {"target": "vsi:v583"},
        {"low": "i7"},
        {"ladder": ("vsi:none@i16",)},
        {"max_drop": "much"},
        {"recipe": tmp_path / "none.toml"},
        {"preprocess": tmp_path / "none.toml"},
        {"metric": "top"},
        {"data": tmp_path / "none.npz"},
        {"model": tmp_path / "none.onnx"},
        {"price": replace(request_.price, host="cortex-a8")},
        {"price": replace(request_.price, tables=(tmp_path / "none.json",))},
    ]
    for fields in wrong:
        with pytest.raises(DovetailError):
            fit(replace(request_, folder=out, **fields))  # type: ignore[arg-type]
        assert not out.exists(), fields
    with pytest.raises(SearchError, match="0 times or more"):
        replace(request_, confirm=-1)
