"""Searches whose answer a board accepts, refuses or gives otherwise, or that it does not live to see: real servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import needs
import numpy as np
import onnx
import pytest
import timed_board
from boards import NPU, small_network
from served import Served, served

import dovetail
from dovetail.errors import RemoteError
from dovetail.exporters.onnx import to_onnx
from dovetail.fit import BoardRequest, FitRequest, fit
from dovetail.fit.errand import equal_share
from dovetail.fit.listener import SilentFit

from .conftest import Said, Tiny

Run = Callable[..., Said]


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("board")) as found:
        yield found


def tuned(tiny: Tiny, out: Path, *more: object) -> tuple[object, ...]:
    return ("tune", tiny.model, "--data", tiny.data, "--metric", tiny.metric, "-o", out, "--stay", "--json", *more)


def test_the_answer_runs_on_the_board_that_is_named(tiny: Tiny, server: Served, run: Run, tmp_path: Path) -> None:
    assert run("board", "add", "bench", server.url).code == 0
    here = run(*tuned(tiny, tmp_path / "here"))
    there = run(*tuned(tiny, tmp_path / "there", "--on", "bench", "--board-runs", 5))
    assert (there.code, there.err) == (here.code, "") == (0, "")
    alone, document = json.loads(here.out), json.loads(there.out)
    assert alone["board"] is None
    assert document["plan"] == alone["plan"]
    board = document["board"]
    assert (board["board"], board["url"], board["accepted"], board["failure"]) == ("bench", server.url, True, "")
    holdout = document["scores"][1]
    assert (board["samples"], board["score"]) == (holdout["samples"], holdout["tuned_exact"])
    assert board["equal_share"] == 1.0
    assert board["assessment"] == document["assessment"]
    assert board["runs"] == 5
    assert 0 < board["median_ns"] <= board["p90_ns"] <= board["p99_ns"]
    parts = dovetail.load_bundle(tmp_path / "there" / "bundle").partitions
    assert [(item["target"], item["backend"]) for item in board["parts"]] == [
        (part.target, part.backend) for part in parts
    ]
    assert all(item["device"] and item["version"] for item in board["parts"])
    text = (tmp_path / "there" / "report.txt").read_text()
    assert "On board bench" in text
    assert max(map(len, text.splitlines())) <= 100
    again = json.loads(run(*tuned(tiny, tmp_path / "there", "--on", "bench")).out)
    assert (again["cost"]["fresh_samples"], again["plan"]) == (0, document["plan"])


def test_a_board_that_refuses_loses_nothing_of_the_search(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    with served(tmp_path / "board", ["--read-only"]) as closed:
        said = run(*tuned(tiny, tmp_path / "out", "--on", closed.url))
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "repeats no evaluation" in said.err
    document = json.loads(said.out)
    assert document["board"]["failure"] in said.err
    assert (document["accepted"], document["board"]["accepted"], document["board"]["score"]) == (False, False, None)
    assert document["cost"]["fresh_samples"] > 0
    assert dovetail.load_plan(tmp_path / "out" / "plan.json").digest == document["plan"]["digest"]
    with served(tmp_path / "board") as open_:
        again = run(*tuned(tiny, tmp_path / "out", "--on", open_.url))
    assert (again.code, again.err) == (0, "")
    repeated = json.loads(again.out)
    assert (repeated["cost"]["fresh_samples"], repeated["plan"]) == (0, document["plan"])
    assert repeated["board"]["accepted"] is True


class Killer(SilentFit):
    """Kill a server as soon as the answer is on its way to it."""

    def __init__(self, server: Served, at: str) -> None:
        self._server, self._at = server, at

    def stage(self, title: str, total: int | None = None) -> None:
        if title.startswith(self._at):
            os.kill(self._server.process.pid, signal.SIGKILL)
            self._server.process.wait()


@pytest.mark.parametrize("at", ["on board", "timing on board"])
def test_a_board_that_dies_loses_nothing_of_the_search(at: str, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    asked = FitRequest(tiny.model, tiny.data, metric=tiny.metric, folder=tmp_path / "out")
    with served(tmp_path / "board") as first:
        found = fit(replace(asked, board=BoardRequest(first.url)), Killer(first, at))
    board = found.report.board
    assert board is not None
    assert "UNAVAILABLE" in board.failure
    assert (found.accepted, found.report.accepted, found.result.accepted) == (False, False, True)
    assert board.failure.rstrip(".") in found.report.summary
    found.save(tmp_path / "out")
    with served(tmp_path / "board") as second:
        again = fit(replace(asked, board=BoardRequest(second.url)))
    assert again.result.cost.fresh_samples == 0
    assert again.result.plan == found.result.plan
    assert again.accepted


def test_a_board_that_is_not_there_is_an_error_before_the_search(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run(*tuned(tiny, tmp_path / "out", "--on", "grpc://127.0.0.1:1"))
    assert (said.code, "UNAVAILABLE" in said.err, said.err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "out").exists()
    with pytest.raises(RemoteError, match="UNAVAILABLE"):
        fit(FitRequest(tiny.model, tiny.data, metric=tiny.metric, board=BoardRequest("grpc://127.0.0.1:1")))


BAD = {
    "unknown board": (["--on", "nobody"], "board 'nobody' is unknown"),
    "runs": (["--on", "nobody", "--board-runs", "0"], "0 runs on a board"),
    "target": (["--backend", "vsi:a311d=npusim"], "where nothing may go"),
    "backend": (["--backend", "vsi:v853=cpu"], "does not compile for target"),
    "words": (["--backend", "npusim"], "--backend"),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_bad_input_is_one_line(what: str, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    options, expected = BAD[what]
    said = run(*tuned(tiny, tmp_path / "out", *options))
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert expected in said.err
    assert not (tmp_path / "out").exists()


def test_equal_shares_count_elements_and_take_nan_for_nan() -> None:
    ours = {"a": np.array([1.0, np.nan, 3.0]), "b": np.array([[1]])}
    theirs = {"a": np.array([1.0, np.nan, 4.0]), "b": np.array([[1]])}
    assert equal_share(ours, theirs) == 0.75


METRIC = (
    "def score(outputs, labels):\n    return 1 - abs(next(iter(outputs.values())) - labels['y']).mean(axis=(1, 2, 3))\n"
)


@dataclass(frozen=True)
class Plugged:
    """A board with a backend of its own, whose outputs are all 0, and a command that knows it too."""

    folder: Path
    url: str
    environment: dict[str, str]

    def tune(self, out: Path, *more: object) -> subprocess.CompletedProcess[str]:
        """Run the search in a process that has the backend."""
        words = (
            "tune",
            "model.onnx",
            "--data",
            "x.npz",
            "--metric",
            "metric.py:score",
            "--json",
            "--stay",
            "-o",
            out,
            *more,
        )
        command = [sys.executable, "-m", "dovetail.cli", *map(str, words)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, env=self.environment)


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugged]:
    folder = tmp_path_factory.mktemp("plugged")
    info = folder / "timed_board-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: timed-board\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.backends]\ntimed = timed_board:backend\n")
    onnx.save(to_onnx(small_network()), folder / "model.onnx")
    x = np.random.default_rng(1).normal(size=(40, 3, 16, 16)).astype(np.float32)
    graph = dovetail.normalize(dovetail.load_model(folder / "model.onnx"))
    plan = dovetail.make_plan(
        graph, dovetail.Recipe(dovetail.parse_placement("cpu@fp32")), {"cpu": dovetail.find_target("cpu")}
    )
    parts = dovetail.partition(dovetail.quantize(graph, plan, dovetail.Ranges(graph.digest, "none", 0, {})))
    with dovetail.open_session(dovetail.compile_model(parts)) as session:
        y = np.concatenate([next(iter(session.run({"x": row[None]}).outputs.values())) for row in x])
    np.savez(folder / "x.npz", x=x, y=y)
    (folder / "metric.py").write_text(METRIC)
    path = os.pathsep.join([str(folder), str(Path(timed_board.__file__).parent)])
    with ExitStack() as stack:
        # What is started later without it is another server.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", path)
            patch.setenv("TIMED_BOARD", "exact")
            server = stack.enter_context(served(tmp_path_factory.mktemp("board")))
            patch.delenv("TIMED_BOARD")
            environment = dict(os.environ)
        yield Plugged(folder, server.url, environment)


@pytest.mark.slow
def test_a_board_that_gives_other_outputs_does_not_accept(plugged: Plugged, tmp_path: Path) -> None:
    """By its clock the board takes planted times, and its zeros are another score."""
    said = plugged.tune(tmp_path / "out", "--on", plugged.url, "--backend", f"{NPU}=timed")
    assert said.returncode == 1, said.stderr
    document = json.loads(said.stdout)
    board = document["board"]
    assert document["verdict"] in ("met", "likely met")
    assert (document["accepted"], board["accepted"], board["failure"]) == (False, False, "")
    assert board["assessment"]["verdict"] == "missed"
    assert board["equal_share"] < 0.5
    assert board["score"] < document["scores"][1]["tuned_exact"] - 0.01
    bundle = dovetail.load_bundle(tmp_path / "out" / "bundle")
    (part,) = [part for part in bundle.partitions if part.target == NPU]
    assert part.backend == "timed"
    assert board["median_ns"] >= timed_board.OVERHEAD_NS


@pytest.mark.slow
def test_a_board_without_the_backend_is_an_error_before_the_search(
    plugged: Plugged, server: Served, tmp_path: Path
) -> None:
    said = plugged.tune(tmp_path / "out", "--on", server.url, "--backend", f"{NPU}=timed")
    assert (said.returncode, said.stdout) == (2, "")
    assert "its backend 'timed' is not installed there" in said.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.sdk
def test_the_vendor_s_simulator_as_the_board_that_accepts(plugged: Plugged, server: Served, tmp_path: Path) -> None:
    """Searched by our simulation, compiled to the vendor's binary, accepted by the vendor's simulator."""
    needs.verisilicon()
    said = plugged.tune(tmp_path / "out", "--on", server.url, "--backend", f"{NPU}=vsi", "--board-runs", 2)
    assert said.returncode == 0, said.stderr
    board = json.loads(said.stdout)["board"]
    assert board["failure"] == ""
    assert "vsi" in {item["backend"] for item in board["parts"]}
    assert board["equal_share"] > 0.9
