"""Where tasks run: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field

from dovetail.cluster import SIMULATOR, open_client
from dovetail.errors import RemoteError, SearchError


@dataclass(frozen=True, slots=True)
class Place:
    """Where tasks run: makes executors of one kind; `width` is how many tasks run at once.

    An executor that breaks is made again. `kill` ends the workers of one at once; None where they are not ours: there
    `last`, where it is, makes what runs one call at a time in this process, for tasks under which workers die.
    """

    name: str
    width: int
    make: Callable[[], Executor]
    kill: Callable[[Executor], None] | None = None
    stop: Callable[[Executor], None] = field(default=lambda executor: executor.shutdown(False, cancel_futures=True))
    close: Callable[[], None] = field(default=lambda: None)
    last: Callable[[], Executor] | None = None


def local_place(workers: int) -> Place:
    """Return processes of this machine; raise SearchError for less than one."""
    if workers < 1:
        raise SearchError(f"{workers} workers can do nothing.", hint="Give at least 1; 0 works in this process.")
    # Not forked: ONNX Runtime's threads do not survive that.
    context = multiprocessing.get_context("spawn")
    before: dict[int, frozenset[int | None]] = {}

    def make() -> Executor:
        executor = ProcessPoolExecutor(workers, context)
        before[id(executor)] = frozenset(child.pid for child in multiprocessing.active_children())
        return executor

    def kill(executor: Executor) -> None:
        for child in multiprocessing.active_children():
            if child.pid not in before.get(id(executor), frozenset()):
                child.kill()

    return Place(f"{workers} processes", workers, make, kill)


def dask_place(where: str, resources: Mapping[str, float] | None = None) -> Place:
    """Return a Dask cluster: `where` is the scheduler's address (tcp://host:8786) or its scheduler file.

    Only workers with `resources` get tasks; without them, those that offer `sim`, where some do. Raises SearchError
    when `distributed` is missing or nobody answers.
    """
    try:
        client = open_client(where)
    except RemoteError as error:
        raise SearchError(error.message, hint=error.hint) from error
    demanded = dict(resources or {})
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if not demanded and any(SIMULATOR in worker["resources"] for worker in workers.values()):
            demanded = {SIMULATOR: 1.0}
        threads = _threads(workers, demanded)
        if not threads:
            need = f" with {demanded}" if demanded else ""
            raise SearchError(f"{where}: the cluster has no worker{need}.", hint=f"dask worker {where}")
    except BaseException:
        client.close()
        raise

    def make() -> Executor:
        keywords = {"resources": demanded} if demanded else {}
        executor: Executor = client.get_executor(pure=False, **keywords)
        return executor

    # Dask's executor has a shutdown of its own, without cancel_futures.
    return Place(
        f"Dask at {where}",
        threads,
        make,
        stop=lambda item: item.shutdown(False),
        close=client.close,
        last=lambda: ThreadPoolExecutor(1),
    )


def _threads(workers: Mapping[str, Mapping[str, object]], demanded: Mapping[str, float]) -> int:
    """Return how many tasks the workers that have what is demanded can do at once."""
    count = 0
    for worker in workers.values():
        threads = worker.get("nthreads", 1)
        offered = worker.get("resources", {})
        assert isinstance(threads, int)
        assert isinstance(offered, Mapping)
        room = [int(float(offered.get(name, 0)) / amount) for name, amount in demanded.items() if amount > 0]
        count += min([threads, *room])
    return count
