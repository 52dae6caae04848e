"""A farm as a place to run one bundle on many samples: Dask gives them to boards, and again where one is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import bundle_to_files, digest_bundle
from dovetail.cluster import open_client
from dovetail.errors import DeviceLost, DeviceNotFound, DovetailError, RemoteError
from dovetail.ir.dtypes import AnyArray
from dovetail.remote.farm.offers import demands_of, lacking
from dovetail.remote.farm.status import TOPIC, FarmStatus, read_status
from dovetail.remote.farm.trial import BoardProfile, PieceRun, hold_bundle, run_piece, time_bundle
from dovetail.runtime.profiling import ProfileOptions

Arrays = Mapping[str, AnyArray]

_LARGE = {"distributed.admin.large-graph-warning-threshold": "4 GiB"}
"""Samples go with the tasks, so that none is lost with a worker: Dask warns of that from 10 MB on."""
_LOOK_S = 0.5
_QUEUED = 2
"""Pieces under way for each board: one that it runs, one that waits, so that it never does."""
_SENT = 3
"""How often a piece is sent at which Dask's workers died."""


@dataclass(frozen=True, slots=True)
class FarmOptions:
    """How a bundle is run in a farm."""

    retries: int = 0
    """How often a piece is tried again that a board refused."""
    patience_s: float = 60.0
    """How long pieces wait where no board is left that fits."""


@dataclass(frozen=True, slots=True)
class FarmTiming:
    """How every board that fits times a bundle, and on which inputs."""

    feeds: Sequence[Arrays]
    options: ProfileOptions


@dataclass(frozen=True, slots=True)
class LostBoard:
    """A board that was lost while a bundle ran in its farm."""

    board: str
    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class FarmRun:
    """What the boards of a farm gave: a piece for every batch, in their order."""

    pieces: tuple[PieceRun, ...]
    profiles: tuple[BoardProfile, ...]
    lost: tuple[LostBoard, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A batch that is under way."""

    index: int
    batch: Arrays
    sent: int = 1


class Farm:
    """The boards at a scheduler of Dask; a context manager.

    Raises RemoteError where nobody answers there, or `distributed` is not installed.
    """

    def __init__(self, scheduler: str, options: FarmOptions | None = None) -> None:
        self.scheduler = scheduler
        self._options = options or FarmOptions()
        self._client: Any = open_client(scheduler)

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the farm as it is, and close the connection."""
        self._client.close()

    def status(self) -> FarmStatus:
        """Return who is in the farm."""
        with self._reached():
            return read_status(self._client)

    def run(
        self,
        bundle: Bundle,
        batches: Iterable[Arrays],
        timing: FarmTiming | None = None,
        advance: Callable[[int], None] = lambda done: None,
    ) -> FarmRun:
        """Return what boards give for batches, each on any board that fits; `timing` is done on every board that fits.

        `advance` hears how many batches are done. Raises DeviceNotFound where no board fits, DeviceLost where none is
        left, or workers died under one batch more often than the scheduler allows; RemoteError for what a board
        refuses, with its name, and where the scheduler is lost.
        """
        import dask

        demands = demands_of(bundle)
        self._refuse_misfits(demands)
        with self._reached(), dask.config.set(_LARGE):
            since = self._now()
            pieces, held = self._pieces(bundle, batches, demands, advance)
            try:
                profiles = () if timing is None else self._time(held, timing, demands)
            finally:
                self._client.cancel([held], force=True)
            return FarmRun(pieces, profiles, self._lost(since))

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise RemoteError where the scheduler is lost; Dask's functions use this client and no other's."""
        try:
            with self._client.as_current():
                yield
        except (OSError, CancelledError) as error:
            raise RemoteError(
                f"{self.scheduler}: the scheduler of the farm is lost: {type(error).__name__}.",
                hint="Start it again, and the workers.",
            ) from error

    def _submit(self, function: Callable[..., object], *arguments: object, **options: object) -> Any:
        return self._client.submit(function, *arguments, pure=False, retries=self._options.retries, **options)

    def _refuse_misfits(self, demands: Mapping[str, float]) -> None:
        boards = self.status().boards
        there = [board for board in boards if board.is_there]
        reasons = [f"{board.name} is {board.state.value}: {board.reason}" for board in boards if not board.is_there]
        misfits = {board.name: lacking(demands, board.offers) for board in there}
        if there and not all(misfits.values()):
            return
        reasons = [f"{name} lacks {', '.join(what)}" for name, what in misfits.items()] + reasons
        raise DeviceNotFound(
            f"{self.scheduler}: no board of the farm fits: {'; '.join(reasons)[:400] or 'there is none'}.",
            hint="Look at 'dovetail farm status'.",
        )

    def _pieces(
        self, bundle: Bundle, batches: Iterable[Arrays], demands: Mapping[str, float], advance: Callable[[int], None]
    ) -> tuple[tuple[PieceRun, ...], Any]:
        """Return what boards give for batches, in their order, and the bundle as it is held in the farm.

        Dask counts a worker's death against every task that is queued there, and gives a task up at the fourth. So
        few are queued at a time, and one that was given up is sent anew before it is believed to be what kills.
        """
        source, found = enumerate(batches), dict[int, PieceRun]()
        under_way: dict[Any, _Piece] = {}
        held, seen = self._hold(bundle, demands), time.monotonic()
        try:
            while True:
                there = len(self._fitting(demands))
                seen = time.monotonic() if there else seen
                for index, batch in islice(source, max(0, _QUEUED * max(1, there) - len(under_way))):
                    piece = _Piece(index, dict(batch))
                    under_way[self._submit(run_piece, held, piece.batch, resources=demands)] = piece
                if not under_way:
                    return tuple(found[index] for index in sorted(found)), held
                ended = self._ended(under_way, seen)
                for future in ended:
                    piece = under_way.pop(future)
                    if not _is_killed(future) or piece.sent >= _SENT:
                        found[piece.index] = _result(future)
                        continue
                    held = self._hold(bundle, demands) if held.status == "error" else held
                    piece = replace(piece, sent=piece.sent + 1)
                    under_way[self._submit(run_piece, held, piece.batch, resources=demands)] = piece
                advance(len(found))
        except BaseException:
            self._client.cancel([held, *under_way], force=True)
            raise

    def _hold(self, bundle: Bundle, demands: Mapping[str, float]) -> Any:
        return self._submit(hold_bundle, bundle_to_files(bundle), digest_bundle(bundle), resources=demands)

    def _ended(self, under_way: Mapping[Any, _Piece], seen: float) -> list[Any]:
        """Return the pieces that have ended, or none after a while; raise DeviceLost where no board came for too long.

        `seen` is when a board that fits was there last.
        """
        from distributed import wait

        try:
            return list(wait(list(under_way), timeout=_LOOK_S, return_when="FIRST_COMPLETED").done)
        except TimeoutError:
            if time.monotonic() - seen < self._options.patience_s:
                return []
        raise DeviceLost(
            f"{self.scheduler}: no board of the farm is left that fits, with pieces to go: "
            f"{'; '.join(f'{one.name}: {one.reason}' for one in self.status().boards)[:300]}."
        )

    def _fitting(self, demands: Mapping[str, float]) -> dict[str, str]:
        """Return the workers of the boards that fit, by board."""
        boards = self.status().boards
        return {one.name: one.worker for one in boards if one.is_there and not lacking(demands, one.offers)}

    def _time(self, held: Any, timing: FarmTiming, demands: Mapping[str, float]) -> tuple[BoardProfile, ...]:
        """Return the profiles of all boards that fit and live to the end of it."""
        futures = {
            worker: self._submit(
                time_bundle,
                held,
                [dict(one) for one in timing.feeds],
                timing.options,
                resources=demands,
                workers=[worker],
            )
            for worker in self._fitting(demands).values()
        }
        found: list[BoardProfile] = []
        try:
            while futures:
                there = set(self._fitting(demands).values())
                for worker, future in list(futures.items()):
                    if future.done():
                        found.append(_result(future))
                    elif worker in there:
                        continue
                    del futures[worker]
                time.sleep(_LOOK_S / 10)
        finally:
            self._client.cancel(list(futures.values()), force=True)
        if not found:
            raise DeviceLost(f"{self.scheduler}: every board of the farm was lost before it was timed.")
        return tuple(sorted(found, key=lambda one: one.board))

    def _now(self) -> float:
        """Return the time by the scheduler's clock."""
        return float(self._client.run_on_scheduler(time.time))

    def _lost(self, since: float) -> tuple[LostBoard, ...]:
        """Return the boards that were lost since then: those that said so, and those whose workers were killed."""
        told = [(when, event) for when, event in self._client.get_events(TOPIC)]
        boards = {event["worker"]: event for _, event in told}
        lost = [(when, event, event["reason"]) for when, event in told if event["event"] == "lost"]
        lost += [
            (when, boards[event["worker"]], "its worker ended without a word")
            for when, event in self._client.get_events("all")
            if event.get("action") == "remove-worker" and event["worker"] in boards and not event["expected"]
        ]
        lost.sort(key=lambda item: item[0])
        return tuple(LostBoard(event["board"], event["url"], reason) for when, event, reason in lost if when >= since)


def _is_killed(future: Any) -> bool:
    """Tell whether Dask gave a task up because too many workers died that had it."""
    return type(future.exception()).__name__ == "KilledWorker"


def _result(future: Any) -> Any:
    """Return what a task gave; raise what a board raised as it is, and for workers that died DeviceLost."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, DovetailError):
        raise error
    if _is_killed(future):
        raise DeviceLost("every worker that ran a piece died with it.", hint="Look at 'dovetail farm status'.")
    raise RemoteError(
        f"a worker of the farm cannot do its task: {type(error).__name__}: {str(error)[:160]}."
    ) from error
