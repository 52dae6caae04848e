"""A search on many workers gives the answer of one, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import work

from dovetail.compare import load_metric
from dovetail.data import split_samples
from dovetail.errors import SearchError
from dovetail.plan import parse_placement
from dovetail.quantize import calibrate
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, TuneResult, tune
from dovetail.search.fanout import FanOut, Place, PoolOptions, dask_place, local_place
from dovetail.testing.planted import labelled_samples, planted_detector

METRIC = """
import numpy as np

def right(outputs, labels):
    off = np.abs(outputs[next(iter(outputs))] - labels["truth"])
    return ((off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)).astype(float)
"""


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> TuneRequest:
    """Return a search with one planted culprit and a metric from a file."""
    file = tmp_path_factory.mktemp("metric") / "metric.py"
    file.write_text(METRIC)
    graph = planted_detector(4)
    source = labelled_samples(graph, 300)
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=load_metric(f"{file}:right"),
        goal=Goal(0.1),
        low=parse_placement("vsi:v853@u8"),
        ladder=(parse_placement("vsi:v853@i16"),),
        costs=CostOptions(migrates=False),
    )


@pytest.fixture(scope="module")
def serial(request_: TuneRequest) -> TuneResult:
    """Return what the search finds in this process."""
    return tune(request_)


def _on(request_: TuneRequest, place: Place, journal: Path | None = None, **crew: object) -> TuneRequest:
    fanout = FanOut(place, PoolOptions(**crew))  # type: ignore[arg-type]
    return replace(request_, options=TuneOptions(journal=journal, fanout=fanout))


def _same(found: TuneResult, expected: TuneResult) -> None:
    assert found.plan == expected.plan
    assert found.culprits == expected.culprits
    assert found.evidence == expected.evidence
    assert found.certificate == expected.certificate
    assert found.cost.full_equivalents == expected.cost.full_equivalents
    assert found.cost.trials == expected.cost.trials


def _check_journal(path: Path) -> int:
    """Return the number of evaluations; nothing is under way, and every trial has its evaluations."""
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute("SELECT COUNT(*) FROM running").fetchone() == (0,)
        lost = "SELECT COUNT(*) FROM trial WHERE plan NOT IN (SELECT plan FROM evaluation)"
        assert database.execute(lost).fetchone() == (0,)
        (count,) = database.execute("SELECT COUNT(*) FROM evaluation").fetchone()
    return int(count)


def test_any_executor_gives_the_answer_of_the_serial_run(
    request_: TuneRequest, serial: TuneResult, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.sqlite"
    _same(tune(_on(request_, Place("threads", 3, lambda: ThreadPoolExecutor(3)), journal)), serial)
    _check_journal(journal)
    # What was evaluated on workers is not evaluated again without them.
    again = tune(replace(request_, options=TuneOptions(journal=journal)))
    assert again.plan == serial.plan
    assert again.cost.fresh_samples == 0


@pytest.mark.parametrize(("after_s", "goes"), [(1e9, False), (1e-9, True)])
def test_workers_start_once_evaluations_have_taken_a_while(
    request_: TuneRequest, serial: TuneResult, after_s: float, goes: bool
) -> None:
    submitted: list[object] = []

    class Noting(ThreadPoolExecutor):
        def submit(self, *arguments: object, **options: object) -> Future[object]:  # type: ignore[override]
            submitted.append(arguments)
            return super().submit(*arguments, **options)  # type: ignore[arg-type]

    fanout = FanOut(Place("threads", 2, lambda: Noting(2)), after_s=after_s)
    _same(tune(replace(request_, options=TuneOptions(fanout=fanout))), serial)
    assert bool(submitted) is goes


@dataclass
class Flaky(Executor):
    """An executor whose workers die, as a broken process pool shows it."""

    deaths: int

    def submit(self, fn, /, *args, **kwargs):
        from concurrent.futures import BrokenExecutor

        future: Future[object] = Future()
        if self.deaths > 0:
            self.deaths -= 1
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_workers_that_die_now_and_then_do_not_change_the_answer(request_: TuneRequest, serial: TuneResult) -> None:
    made: list[Flaky] = []

    def make() -> Flaky:
        made.append(Flaky(2 if len(made) < 2 else 0))
        return made[-1]

    _same(tune(_on(request_, Place("flaky", 2, make))), serial)
    assert len(made) == 3


_KILLED = """
import os, signal, sys
from pathlib import Path

sys.path.insert(0, {folder!r})
from plain import right as score

def right(outputs, labels):
    # The sixth score that a worker computes takes it along, once.
    folder = Path({folder!r})
    if os.getpid() != {parent}:
        with (folder / "scores").open("ab") as file:
            file.write(b".")
        if (folder / "scores").stat().st_size > 5:
            try:
                (folder / "killed").mkdir()
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
    return score(outputs, labels)
"""


def _killing(request_: TuneRequest, folder: Path) -> TuneRequest:
    """Return the search with a metric that kills one worker in the middle of a trial."""
    (folder / "plain.py").write_text(METRIC)
    (folder / "metric.py").write_text(_KILLED.format(folder=str(folder), parent=os.getpid()))
    return replace(request_, metric=load_metric(f"{folder / 'metric.py'}:right"))


@pytest.mark.slow
def test_processes_survive_a_kill(request_: TuneRequest, serial: TuneResult, tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    found = tune(_on(_killing(request_, tmp_path), local_place(2), journal))
    assert (tmp_path / "killed").exists()
    _same(found, serial)
    _check_journal(journal)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and five workers, each in a process of its own; the last has no NPU."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def start(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]]
        with (folder / f"{time.monotonic_ns()}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)

    scheduler = start("dask_scheduler", "--scheduler-file", str(file), "--port", "0", "--no-dashboard")
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(5):
            resources = ("--resources", "npu=1") if index < 4 else ()
            words = ("dask_worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard")
            workers.append(start(*words, "--local-directory", str(folder), *resources))
        _wait_for_workers(file, 5)
        yield file, workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
        for process in (*workers, scheduler):
            process.wait(work.PATIENCE_S)


def _wait_for_workers(file: Path, count: int) -> None:
    from distributed import Client

    limit = time.monotonic() + work.PATIENCE_S
    while not file.exists():
        assert time.monotonic() < limit
        time.sleep(0.1)
    with Client(scheduler_file=str(file)) as client:
        client.wait_for_workers(count, timeout=work.PATIENCE_S)


@pytest.mark.slow
def test_a_dask_run_with_a_worker_killed_in_mid_trial_gives_the_same_plan(
    request_: TuneRequest,
    serial: TuneResult,
    cluster: tuple[Path, list[subprocess.Popen[bytes]]],
    tmp_path: Path,
) -> None:
    file, workers = cluster
    journal = tmp_path / "journal.sqlite"
    place = dask_place(str(file), {"npu": 1})
    assert place.width == 4
    killing = _killing(request_, tmp_path)
    found = tune(_on(killing, place, journal))
    assert [worker.poll() for worker in workers].count(-signal.SIGKILL) == 1
    _same(found, serial)
    evaluations = _check_journal(journal)
    assert evaluations >= found.cost.trials
    again = tune(replace(killing, options=TuneOptions(journal=journal)))
    assert (again.plan, again.cost.fresh_samples) == (serial.plan, 0)


@pytest.mark.slow
def test_a_hanging_trial_on_a_cluster_is_killed_and_frees_its_worker(
    request_: TuneRequest, serial: TuneResult, tmp_path: Path
) -> None:
    """One worker with one thread: were it not freed, nothing else could ever be evaluated."""
    from distributed import LocalCluster

    asked = _troubled(request_, tmp_path, _HANG_ONCE)
    # With nannies workers are daemons, as those of `dask worker` are.
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        place = dask_place(cluster.scheduler_address)
        found = tune(_on(asked, place, tmp_path / "journal.sqlite", timeout_s=_LIMIT_S))
    assert found.plan == serial.plan
    assert f"longer than {_LIMIT_S:g} s" in found.gate.checks[0].trial.reason


@pytest.mark.slow
def test_a_cluster_without_what_is_wanted_is_refused(cluster: tuple[Path, list[subprocess.Popen[bytes]]]) -> None:
    with pytest.raises(SearchError, match="no worker with"):
        dask_place(str(cluster[0]), {"gpu": 1})


def test_no_cluster_is_refused() -> None:
    with pytest.raises(SearchError, match="no Dask scheduler answers: unknown address scheme 'nonsense'"):
        dask_place("nonsense://nowhere")


_LIMIT_S = 45.0
"""A trial takes a tenth of a second, and starting the process that runs it two: busy machines need some times that."""
_HANG_ONCE = "if not os.path.exists({mark!r}): open({mark!r}, 'w').close(); time.sleep(1e6)"
_TROUBLE = """
import os, time
import numpy as np

def right(outputs, labels):
    off = np.abs(outputs[next(iter(outputs))] - labels["truth"])
    good = (off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)
    if good.mean() < 0.5:
        {trouble}
    return good.astype(float)
"""


def _troubled(request_: TuneRequest, folder: Path, trouble: str) -> TuneRequest:
    """Return the search with a metric that makes trouble on plans that lose much."""
    file = folder / "metric.py"
    file.write_text(_TROUBLE.replace("{trouble}", trouble.replace("{mark!r}", repr(str(folder / "hung")))))
    return replace(request_, metric=load_metric(f"{file}:right"), costs=CostOptions(migrates=False, most_tests=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "width", "words"),
    [("os._exit(1)", 2, "the process that ran it died"), (_HANG_ONCE, 1, f"longer than {_LIMIT_S:g} s")],
    ids=["crashes", "hangs"],
)
def test_a_plan_that_crashes_or_hangs_cannot_be_tested_and_the_search_goes_on(
    request_: TuneRequest, serial: TuneResult, tmp_path: Path, trouble: str, width: int, words: str
) -> None:
    asked = _troubled(request_, tmp_path, trouble)
    found = tune(_on(asked, local_place(width), tmp_path / "journal.sqlite", timeout_s=_LIMIT_S))
    assert found.accepted
    # What fails in the serial run cannot be tested here; the plan is the same, and no such trial is called a pass.
    assert found.plan == serial.plan
    assert words in found.gate.checks[0].trial.reason
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as database, database:
        rows = database.execute("SELECT DISTINCT failure FROM evaluation WHERE failure != ''").fetchall()
    assert all(words in failure for (failure,) in rows)
