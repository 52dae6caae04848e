"""What a farm loses when its processes are killed at random: searches on simulators, and a bundle on boards.

python benchmarks/farm.py [--kills 50] [--seed N] [--mean-s 2.0] [--json]

Two simulators, three boards with their servers and workers, and a scheduler run in processes of their own. While
searches run, simulators are killed; while a bundle runs, servers and workers of boards are: only what is in the farm
at that moment, and every victim is started again. Nothing is lost where each answer is that of a run without kills,
and every piece came once, from a board.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import dovetail
import zoo.machine as machine
from dovetail.bundle import Bundle
from dovetail.compare import load_metric
from dovetail.compile import CompileRequest
from dovetail.data import split_samples
from dovetail.errors import DovetailError
from dovetail.ir import AnyArray
from dovetail.plan import parse_placement
from dovetail.quantize import calibrate
from dovetail.remote.farm import Farm, FarmOptions
from dovetail.search import Goal, TuneOptions, TuneRequest, TuneResult, tune
from dovetail.search.fanout import FanOut, dask_place
from dovetail.testing.networks import Network
from dovetail.testing.planted import labelled_samples, planted_detector
from zoo.farms import FarmSite, farm_site
from zoo.shares import clopper_pearson

SIMULATORS, BOARDS = ("sim1", "sim2"), ("left", "middle", "right")
PLACE = "vsi:v853"
METRIC = """
import numpy as np

def right(outputs, labels):
    off = np.abs(outputs[next(iter(outputs))] - labels["truth"])
    return ((off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)).astype(float)
"""


@dataclass
class Killer:
    """Kills one of the victims after a random time, again and again, and starts it anew."""

    site: FarmSite
    victims: Mapping[str, Callable[[], None]]
    """By name, how each is started."""
    rng: random.Random
    mean_s: float
    most: int
    killed: list[str] = field(default_factory=list)
    at_tasks: int = 0
    """Kills of what had tasks at that moment."""

    def _in_the_farm(self) -> dict[str, int]:
        """Return the victims that are in the farm by now, and how many tasks each has."""
        with Farm(self.site.scheduler) as farm:
            status = farm.status()
        tasks = {one.name: one.tasks for one in status.workers}
        for board in status.boards:
            if board.is_there:
                tasks |= {board.name: board.tasks, f"{board.name}.worker": board.tasks}
        return {name: count for name, count in tasks.items() if name in self.victims}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Kill while the body runs."""
        stop = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            killing = threads.submit(self._kill, stop)
            try:
                yield
            finally:
                stop.set()
                killing.result()

    def _kill(self, stop: threading.Event) -> None:
        while len(self.killed) < self.most and not stop.wait(self.rng.expovariate(1 / self.mean_s)):
            tasks = self._in_the_farm()
            if tasks:
                name = self.rng.choice(sorted(tasks))
                self.site.kill(name)
                self.killed.append(name)
                self.at_tasks += tasks[name] > 0
                self.victims[name]()
            for other, start in self.victims.items():
                # A worker whose board does not answer when it starts ends: a service manager would start it again.
                if self.site.processes[other].poll() is not None:
                    start()


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work: the kills, the runs in which they were, and the runs that lost something, with what."""

    work: str
    kills: int
    at_tasks: int
    """Kills of what had tasks at that moment."""
    runs: int
    wall_s: float
    lost: tuple[str, ...]
    killed: Mapping[str, int]


def main() -> int:
    """Run both kinds of work until there were enough kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--mean-s", type=float, default=2.0, help="mean time between two kills")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    first = options.kills * 2 // 5
    with tempfile.TemporaryDirectory() as folder, farm_site(Path(folder)) as site:
        for name in SIMULATORS:
            site.start_simulator(name)
        site.add_boards(*BOARDS)
        simulators = {name: lambda name=name: site.start_simulator(name) for name in SIMULATORS}
        servers = {name: lambda name=name: site.start_server(name) for name in BOARDS}
        workers = {f"{name}.worker": lambda name=name: site.start_worker(name) for name in BOARDS}
        rows = [
            searches(Killer(site, simulators, rng, options.mean_s, first), Path(folder)),
            bundles(Killer(site, {**servers, **workers}, rng, options.mean_s, options.kills - first)),
        ]
    total, bad = sum(row.kills for row in rows), sum(len(row.lost) for row in rows)
    low, high = clopper_pearson(max(total - bad, 0), total)
    if options.json:
        facts = {"facts": machine.facts(), "seed": options.seed, "kills": total, "lost": bad, "interval": [low, high]}
        print(json.dumps({**facts, "rows": [asdict(row) for row in rows]}))
    else:
        print("\n".join(machine.facts()))
        for row in rows:
            told = f"{row.kills} kills, {row.at_tasks} of what had tasks, in {row.runs} runs of {row.wall_s:.0f} s"
            print(f"{row.work}: {told}: {dict(row.killed)}")
            print("\n".join(f"LOST: {what}" for what in row.lost) or "  nothing lost")
        print(f"seed {options.seed}: {total - bad} of {total} kills cost nothing, 95 %: {low:.3f} to {high:.3f}")
    return 1 if bad else 0


def searches(killer: Killer, folder: Path) -> Row:
    """Search on the simulators, with a new journal each time, while they are killed."""
    asked = search_request(folder)
    expected = tune(asked)
    return _until_enough(
        "search on simulators", killer, lambda run: _search(asked, expected, killer, folder / f"{run}.sqlite")
    )


def _search(asked: TuneRequest, expected: TuneResult, killer: Killer, journal: Path) -> str:
    options = TuneOptions(journal=journal, fanout=FanOut(dask_place(killer.site.scheduler)))
    with killer.at_work():
        found = tune(replace(asked, options=options))
    with closing(sqlite3.connect(journal)) as database, database:
        (running,) = database.execute("SELECT COUNT(*) FROM running").fetchone()
    if running:
        return f"{running} evaluations are said to be under way"
    same = (found.plan, found.evidence, found.certificate) == (expected.plan, expected.evidence, expected.certificate)
    return "" if same else f"another answer: {found.plan.digest[:8]}, not {expected.plan.digest[:8]}"


def bundles(killer: Killer) -> Row:
    """Run a bundle on the boards while their servers and workers are killed."""
    bundle, feeds = heavy_bundle()
    with dovetail.open_session(bundle) as session:
        expected = [session.run(feed).outputs for feed in feeds]
    return _until_enough("bundle on boards", killer, lambda run: _run(bundle, feeds, expected, killer))


def _run(bundle: Bundle, feeds: list[dict[str, AnyArray]], expected: list[Any], killer: Killer) -> str:
    # A board that was killed is back in a minute, or in some on a busy machine.
    with Farm(killer.site.scheduler, FarmOptions(patience_s=900.0)) as farm:
        killer.site.until(lambda: any(board.is_there for board in farm.status().boards), "scheduler")
        with killer.at_work():
            found = farm.run(bundle, feeds)
    for index, (piece, outputs) in enumerate(zip(found.pieces, expected, strict=True)):
        if piece.board not in BOARDS or any(
            piece.outputs[name].tobytes() != outputs[name].tobytes() for name in outputs
        ):
            return f"piece {index} of board {piece.board!r} is another one"
    return ""


def _until_enough(work: str, killer: Killer, run: Callable[[int], str]) -> Row:
    lost: list[str] = []
    runs, start = 0, time.perf_counter()
    while len(killer.killed) < killer.most:
        runs += 1
        try:
            what = run(runs)
        except DovetailError as error:
            what = str(error)
        lost += [what] if what else []
    names = {name: killer.killed.count(name) for name in sorted(set(killer.killed))}
    return Row(work, len(killer.killed), killer.at_tasks, runs, time.perf_counter() - start, tuple(lost), names)


def search_request(folder: Path) -> TuneRequest:
    """Return a search with one planted culprit and a metric from a file."""
    (folder / "metric.py").write_text(METRIC)
    graph = planted_detector(4)
    source = labelled_samples(graph, 300)
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=load_metric(f"{folder / 'metric.py'}:right"),
        goal=Goal(0.1),
        low=parse_placement(f"{PLACE}@u8"),
        ladder=(parse_placement(f"{PLACE}@i16"),),
    )


def heavy_bundle(pieces: int = 48) -> tuple[Bundle, list[dict[str, AnyArray]]]:
    """Return twelve convolutions in 8 bits for exact simulation, and inputs for them."""
    net = Network(5)
    h = net.input("x", 1, 16, 64, 64)
    for _ in range(12):
        h = net.op("Relu", net.conv(h, 16, 3))
    graph = dovetail.normalize(net.graph(h))
    rng = np.random.default_rng(7)
    feeds: list[dict[str, AnyArray]] = [
        {"x": rng.normal(size=(1, 16, 64, 64)).astype(np.float32)} for _ in range(pieces)
    ]
    ranges = dovetail.calibrate(graph, dovetail.open_samples(feeds[:4], dovetail.specs_of(graph))).ranges
    plan = dovetail.make_plan(
        graph, dovetail.Recipe(parse_placement(f"{PLACE}@i8pc")), {PLACE: dovetail.find_target(PLACE)}
    )
    parts = dovetail.partition(dovetail.quantize(graph, plan, ranges))
    return dovetail.compile_model(parts, CompileRequest(backends={PLACE: "npusim"})), feeds


if __name__ == "__main__":
    raise SystemExit(main())
