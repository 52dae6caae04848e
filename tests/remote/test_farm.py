"""A farm of real servers, their workers, a scheduler and a simulator: what dies loses nothing, answers name boards.

Every test leaves the farm as it is; the next starts again what it needs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import boards
import needs
import numpy as np
import onnx
import pytest
import work
from served import inputs_for, slow_bundle, small_bundle

import dovetail
from dovetail.bundle import Bundle
from dovetail.cli.main import main
from dovetail.errors import DeviceLost, DeviceNotFound, RemoteError
from dovetail.exporters.onnx import to_onnx
from dovetail.fit import BoardRequest, Fit, FitRequest, PriceRequest, WorkerRequest, fit
from dovetail.fit.farm import check_farm
from dovetail.fit.listener import SilentFit
from dovetail.ir import AnyArray
from dovetail.remote import BoardAccess
from dovetail.remote.farm import BoardLink, BoardState, Farm, FarmOptions, FarmRun, FarmTiming, serve_board
from dovetail.runtime import ProfileOptions
from dovetail.search.fanout import dask_place
from zoo.farms import FarmSite, farm_site

BOARDS = ("left", "middle", "right")
PIECES = 12
Outputs = list[Mapping[str, AnyArray]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarmSite]:
    with farm_site(tmp_path_factory.mktemp("farm")) as found:
        found.start_simulator("sim")
        found.add_boards(*BOARDS)
        yield found


def have(site: FarmSite, *names: str) -> None:
    """Have these boards in the farm, whatever earlier tests did to them."""
    site.revive(*names)
    with Farm(site.scheduler) as farm:
        site.until(lambda: all(states(farm).get(name) is BoardState.FREE for name in names), "scheduler")


@pytest.fixture(scope="module")
def busy() -> Bundle:
    """A bundle that has work for a while."""
    return slow_bundle()


def batches(bundle: Bundle, count: int = PIECES, rows: int = 16) -> list[dict[str, AnyArray]]:
    return [inputs_for(bundle, rows, seed) for seed in range(count)]


def here(bundle: Bundle, feeds: list[dict[str, AnyArray]]) -> Outputs:
    with dovetail.open_session(bundle) as session:
        return [session.run(feed).outputs for feed in feeds]


def check_same(found: FarmRun, expected: Outputs) -> None:
    """Every piece is there, in its place, with the bytes of a run here."""
    assert len(found.pieces) == len(expected)
    for piece, outputs in zip(found.pieces, expected, strict=True):
        theirs = {name: value.tobytes() for name, value in piece.outputs.items()}
        assert theirs == {name: value.tobytes() for name, value in outputs.items()}


def states(farm: Farm) -> dict[str, BoardState]:
    return {board.name: board.state for board in farm.status().boards}


class UnderWay:
    """A run of which a piece is done, and that goes on until it is told to end."""

    def __init__(self, farm: Farm, bundle: Bundle, threads: ThreadPoolExecutor) -> None:
        self.sent: list[dict[str, AnyArray]] = []
        self._bundle, self._enough, begun = bundle, threading.Event(), threading.Event()
        self.running = threads.submit(
            farm.run, bundle, self._batches(), None, lambda done: begun.set() if done else None
        )
        while not begun.wait(0.1):
            assert not self.running.done(), self.running.result()

    def __enter__(self) -> UnderWay:
        return self

    def __exit__(self, *exception: object) -> None:
        self._enough.set()

    def _batches(self) -> Iterator[dict[str, AnyArray]]:
        while not self._enough.is_set():
            self.sent.append(inputs_for(self._bundle, 16, len(self.sent)))
            yield self.sent[-1]

    def end(self) -> FarmRun:
        """Return what came of it."""
        self._enough.set()
        return self.running.result(work.PATIENCE_S)


METRIC = (
    "def score(outputs, labels):\n    return 1 - abs(next(iter(outputs.values())) - labels['y']).mean(axis=(1, 2, 3))\n"
)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> FitRequest:
    """Return a search over three convolutions whose samples go one by one; labels are what float gives."""
    folder = tmp_path_factory.mktemp("task")
    graph = boards.small_network()
    onnx.save(to_onnx(graph), folder / "model.onnx")
    x = np.random.default_rng(1).normal(size=(40, 3, 16, 16)).astype(np.float32)
    plan = dovetail.make_plan(
        graph, dovetail.Recipe(dovetail.parse_placement("cpu@fp32")), {"cpu": dovetail.find_target("cpu")}
    )
    parts = dovetail.partition(dovetail.quantize(graph, plan, dovetail.Ranges(graph.digest, "none", 0, {})))
    with dovetail.open_session(dovetail.compile_model(parts)) as session:
        y = np.concatenate([next(iter(session.run({"x": row[None]}).outputs.values())) for row in x])
    np.savez(folder / "x.npz", x=x, y=y)
    (folder / "metric.py").write_text(METRIC)
    stays = PriceRequest(migrates=False)
    return FitRequest(folder / "model.onnx", folder / "x.npz", metric=f"{folder / 'metric.py'}:score", price=stays)


class Killing(SilentFit):
    """Kill a process of the farm once the boards have given some of the samples."""

    def __init__(self, site: FarmSite, victim: str) -> None:
        self._site, self._victim = site, victim
        self._on_boards = self.killed = False

    def stage(self, title: str, total: int | None = None) -> None:
        self._on_boards = title.startswith("on the boards of")

    def advance(self, done: int) -> None:
        if self._on_boards and done and not self.killed:
            self.killed = True
            self._site.kill(self._victim)


def check_shares(found: Fit, alone: Fit) -> dict[str, str]:
    """The answer is that without a farm, every sample of the hold-out is of one board; return why boards were lost."""
    assert found.result.plan == alone.result.plan
    assert found.result.evidence == alone.result.evidence
    board = found.report.board
    assert board is not None
    assert (board.failure, board.accepted, found.accepted) == ("", True, True)
    given = [sample for one in board.boards for sample in one.samples]
    assert sorted(given) == sorted(set(given))
    assert len(given) == board.samples == found.report.scores[1].samples
    return {one.board: one.lost for one in board.boards if one.lost}


@pytest.mark.slow
def test_boards_share_the_batches_and_each_is_timed(site: FarmSite, capsys: pytest.CaptureFixture[str]) -> None:
    have(site, *BOARDS)
    bundle = small_bundle()
    feeds = batches(bundle)
    with Farm(site.scheduler) as farm:
        found = farm.run(bundle, feeds, FarmTiming(feeds[:2], ProfileOptions(1, 3)))
    check_same(found, here(bundle, feeds))
    assert {piece.board for piece in found.pieces} <= {"left", "middle", "right"}
    assert [one.board for one in found.profiles] == ["left", "middle", "right"]
    assert all(len(one.profile.runs) == 3 for one in found.profiles)
    assert found.lost == ()
    assert main(["farm", "status", site.scheduler]) == 0
    said = capsys.readouterr().out
    assert "vsi:v853" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.slow
def test_a_farm_without_part_or_backend_is_refused_before_the_search(site: FarmSite) -> None:
    have(site, *BOARDS)
    check_farm(site.scheduler, {boards.NPU: "npusim"})
    for owners, what in (({boards.NPU: "timed"}, "backend 'timed'"), ({"vsi:none": "npusim"}, "vsi:none")):
        with pytest.raises(DeviceNotFound, match=f"no board of the farm can run the answer: left has no {what}; "):
            check_farm(site.scheduler, owners)


@pytest.mark.slow
def test_a_search_on_simulators_is_accepted_on_boards_of_which_one_is_killed(
    site: FarmSite, task: FitRequest, tmp_path: Path
) -> None:
    have(site, *BOARDS)
    place = dask_place(site.scheduler)
    # The boards are workers of the cluster too, and get none of the search.
    assert place.width == 1
    place.close()
    alone = fit(task)
    listener = Killing(site, "left")
    asked = replace(
        task,
        workers=WorkerRequest(dask=site.scheduler),
        board=BoardRequest(site.scheduler, 3),
        folder=tmp_path / "out",
    )
    found = fit(asked, listener)
    lost = check_shares(found, alone)
    assert listener.killed
    assert lost.keys() == {"left"}
    assert "UNAVAILABLE" in lost["left"]
    board = found.report.board
    assert board is not None
    timed = [one for one in board.boards if one.runs]
    assert {"middle", "right"} <= {one.board for one in timed} | {"left"}
    assert board.runs == 3 * len(timed)
    assert board.equal_share == 1.0
    assert all(one.equal_share == 1.0 for one in board.boards if one.samples)
    assert all(one.parts and one.median_ns for one in timed)
    files = found.save(tmp_path / "out")
    document = json.loads((tmp_path / "out" / "result.json").read_text())["board"]
    assert [(one["board"], tuple(one["samples"])) for one in document["boards"]] == [
        (one.board, one.samples) for one in board.boards
    ]
    text = files["report"].with_suffix(".txt").read_text()
    assert "Which board gave what" in text
    assert "lost: " in text
    assert max(map(len, text.splitlines())) <= 100
    # A board that answers again comes back by itself.
    site.start_server("left")
    with Farm(site.scheduler) as farm:
        site.until(lambda: states(farm).get("left") is BoardState.FREE, "left.worker")


@pytest.mark.slow
@pytest.mark.sdk
def test_the_vendor_s_simulator_is_the_npu_of_boards_of_which_one_is_killed(site: FarmSite, task: FitRequest) -> None:
    needs.verisilicon()
    have(site, "left", "middle")
    asked = replace(task, backends={boards.NPU: "vsi"})
    listener = Killing(site, "middle.worker")
    found = fit(replace(asked, board=BoardRequest(site.scheduler, 2)), listener)
    lost = check_shares(found, fit(asked))
    assert listener.killed
    assert lost.keys() == {"middle"}
    board = found.report.board
    assert board is not None
    assert {part.backend for one in board.boards for part in one.parts} >= {"vsi"}
    assert board.equal_share is not None
    assert board.equal_share > 0.9


@pytest.mark.slow
def test_boards_killed_in_mid_trial_are_drained_and_their_pieces_go_elsewhere(
    site: FarmSite, busy: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one board the server is killed, of another the worker that has it."""
    have(site, *BOARDS)
    with (
        Farm(site.scheduler) as farm,
        ThreadPoolExecutor(1) as threads,
        UnderWay(farm, busy, threads) as run,
    ):
        site.kill("left")
        site.kill("middle.worker")
        lost = {"left": BoardState.DRAINED, "middle": BoardState.GONE}
        site.until(lambda: states(farm).items() >= lost.items(), "scheduler")
        found = run.end()
        check_same(found, here(busy, run.sent))
        reasons = {lost.board: lost.reason for lost in found.lost}
        assert reasons.keys() == {"left", "middle"}
        assert "right" in {piece.board for piece in found.pieces}
        assert states(farm) == lost | {"right": BoardState.FREE}
        assert main(["farm", "status", site.scheduler, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        left, middle, right = document["boards"]
        assert (left["state"], left["reason"], left["worker"]) == ("drained", reasons["left"], None)
        assert "UNAVAILABLE" in left["reason"]
        assert (middle["state"], middle["reason"]) == ("gone", "its worker ended without a word")
        assert (right["state"], right["resources"]["npu"], right["resources"]["part:vsi:v853"]) == ("free", 1.0, 1.0)
        assert [worker["resources"] for worker in document["workers"]] == [{"sim": 1.0}]


@pytest.mark.slow
def test_where_no_board_fits_or_is_left_it_is_said(site: FarmSite, busy: Bundle) -> None:
    have(site, "right")
    small = small_bundle()
    other = replace(small, partitions=(replace(small.partitions[0], backend_version="0.0.1"),))
    with Farm(site.scheduler, FarmOptions(patience_s=1.0)) as farm, ThreadPoolExecutor(1) as threads:
        with pytest.raises(DeviceNotFound, match=r"right lacks backend:cpu@0\.0\.1"):
            farm.run(other, batches(other))
        with UnderWay(farm, busy, threads) as run:
            for name in BOARDS:
                if name in site.processes:
                    site.kill(name)
            with pytest.raises(DeviceLost, match=r"no board of the farm is left that fits, with pieces to go: left: "):
                run.running.result(work.PATIENCE_S)
        # Idle or not, a board that does not answer is found out.
        site.until(lambda: not any(board.is_there for board in farm.status().boards), "scheduler")
        with pytest.raises(DeviceNotFound, match=r"no board of the farm fits: left is drained: "):
            farm.run(small, batches(small))


@pytest.mark.slow
def test_a_board_leaves_when_it_is_asked_to_and_a_name_is_one_board_s(site: FarmSite) -> None:
    have(site, "left")
    access = BoardAccess(f"grpc://127.0.0.1:{site.ports['left']}")
    with pytest.raises(RemoteError, match=r"board left cannot join the farm: .*name taken"):
        serve_board(site.scheduler, BoardLink("left", access), print)
    with Farm(site.scheduler) as farm:
        worker = site.processes.pop("left.worker")
        worker.terminate()
        assert worker.wait(work.PATIENCE_S) == 0
        assert "left" not in states(farm)
