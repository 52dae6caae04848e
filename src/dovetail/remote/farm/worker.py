"""The worker that has a board: it offers what the board has, and leaves the farm while the board does not answer."""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from distributed import Reschedule, Status, Worker, WorkerPlugin

from dovetail._version import __version__
from dovetail.cluster import scheduler_keywords
from dovetail.errors import DovetailError, RemoteError
from dovetail.remote.farm.link import BoardLink
from dovetail.remote.farm.offers import offers_of, parts_of
from dovetail.remote.farm.status import TOPIC
from dovetail.remote.farm.trial import WORK, HeldBundle
from dovetail.remote.runtime import RemoteModel, RemoteRuntime
from dovetail.runtime.place import BackendPresence

_PROBE_S = 5.0
_AGAIN_S = 1.0
_LEAVING_S = 60.0
_CONNECT_S = 30.0


class BoardWork(WorkerPlugin):  # type: ignore[misc]
    """A board while its worker is in the farm: tasks on that worker find it here."""

    name = WORK

    def __init__(self, link: BoardLink, runtime: RemoteRuntime, backends: Sequence[BackendPresence]) -> None:
        self.board, self.url = link.name, link.access.url
        self.versions: Mapping[str, str] = {item.name: item.version for item in backends}
        self.lost = ""
        """Why the board is given up; empty as long as it answers."""
        self._runtime = runtime
        self._models: dict[str, RemoteModel] = {}
        self._worker: Any = None

    def setup(self, worker: Any) -> None:
        """Belong to a worker."""
        self._worker = worker

    def tell(self, event: str, reason: str = "") -> None:
        """Let the scheduler know of the board."""
        facts = {"event": event, "board": self.board, "url": self.url, "reason": reason, "worker": self._worker.address}
        self._worker.log_event(TOPIC, facts)

    def model(self, held: HeldBundle) -> RemoteModel:
        """Return a bundle that is loaded on the board; the last one is kept."""
        if held.digest not in self._models:
            self._models.clear()
            self._models[held.digest] = self._runtime.load(held.unpack())
        return self._models[held.digest]

    def give_up(self, error: DovetailError) -> NoReturn:
        """Take the worker out of the farm, and let the scheduler give the task that asks for it to another."""
        self.lost = self.lost or str(error)
        self._worker.loop.add_callback(self.leave)
        limit = time.monotonic() + _LEAVING_S
        # Not before the scheduler has taken the worker out: it would give it the same task again.
        while self._worker.status in (Status.running, Status.paused) and time.monotonic() < limit:
            time.sleep(0.01)
        raise Reschedule

    async def leave(self) -> None:
        """Drain the worker: what it has goes to others, and it ends."""
        self.tell("lost" if self.lost else "left", self.lost)
        await self._worker.close_gracefully(reason=self.lost or "asked to")

    async def probe(self) -> None:
        """Ask the board whether it is there, unless it is at work; leave where it is not."""
        if self._worker.state.executing_count:
            return
        try:
            await asyncio.to_thread(self._runtime.ping)
        except DovetailError as error:
            self.lost = self.lost or str(error)
            await self.leave()


@dataclass
class BoardService:
    """A board that is kept in a farm for as long as nobody asks to stop; it comes back when it answers again."""

    scheduler: str
    link: BoardLink
    say: Callable[[str], None]
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def run(self) -> int:
        """Serve until SIGINT or SIGTERM; return how often the board joined.

        Raises RemoteError where board or scheduler do not answer at first, or the scheduler is lost.
        """
        return asyncio.run(self._run())

    async def _run(self) -> int:
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        joined = 0
        with RemoteRuntime(self.link.access, run_s=self.link.run_s) as runtime:
            while not self._stop.is_set():
                backends = await self._backends(runtime, patient=joined > 0)
                if backends is None:
                    break
                joined += 1
                lost = await self._serve(BoardWork(self.link, runtime, backends), backends)
                if not lost and not self._stop.is_set():
                    raise RemoteError(
                        f"{self.scheduler}: board {self.link.name} left: the scheduler is gone, or retired it.",
                        hint="Start the worker again.",
                    )
                if lost:
                    self.say(f"board {self.link.name} is drained: {lost}")
        return joined

    async def _backends(self, runtime: RemoteRuntime, *, patient: bool) -> Sequence[BackendPresence] | None:
        """Return the backends of the board, once it answers; None where it was asked to stop before."""
        while not self._stop.is_set():
            try:
                return await asyncio.to_thread(runtime.devices)
            except DovetailError:
                if not patient:
                    raise
            await self._pause(_AGAIN_S)
        return None

    async def _serve(self, work: BoardWork, backends: Sequence[BackendPresence]) -> str:
        """Be a worker until the board is lost, and return why; empty where the farm or a person ended it."""
        parts = self.link.parts or parts_of(backends)
        facts = {
            "url": work.url,
            "parts": list(parts),
            "backends": {item.name: item.version for item in backends if item.available},
            "dovetail": __version__,
        }
        with tempfile.TemporaryDirectory(prefix="dovetail-farm-") as folder:
            worker = await self._join(
                nthreads=1,
                name=self.link.name,
                resources=offers_of(backends, parts),
                startup_information={"board": lambda _: facts},
                plugins=(work,),
                local_directory=folder,
            )
            work.tell("joined")
            self.say(f"board {self.link.name} ({work.url}) is in the farm at {worker.scheduler.address}")
            try:
                while worker.status not in (Status.closed, Status.closing, Status.closing_gracefully):
                    await self._pause(_PROBE_S, worker)
                    if self._stop.is_set():
                        await work.leave()
                    else:
                        await work.probe()
                await worker.finished()
            finally:
                await worker.close()
        return work.lost

    async def _join(self, **options: Any) -> Any:
        where = scheduler_keywords(self.scheduler, address="scheduler_ip")
        try:
            return await Worker(**where, **options, death_timeout=_CONNECT_S, silence_logs=logging.WARNING)
        except (OSError, ValueError, RuntimeError) as error:
            cause = error.__cause__ or error
            raise RemoteError(
                f"{self.scheduler}: board {self.link.name} cannot join the farm: {str(cause)[:160]}.",
                hint="Does the scheduler run? Is another worker there of that name?",
            ) from error

    async def _pause(self, most_s: float, worker: Any = None) -> None:
        """Wait, but not longer than until it is asked to stop, or the worker has ended."""
        ends = [asyncio.ensure_future(self._stop.wait())]
        if worker is not None:
            ends.append(asyncio.ensure_future(worker.finished()))
        await asyncio.wait(ends, timeout=most_s, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
