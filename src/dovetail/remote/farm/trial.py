"""What tasks do on a worker that has a board: they name the board, and one that is lost sends them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import bundle_from_files, digest_bundle
from dovetail.errors import DeviceLost, DovetailError, RemoteError
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.place import LoadedModel
from dovetail.runtime.profiling import ProfileOptions, RunProfile

WORK = "dovetail-board"
"""Under this name a worker keeps its board (`dovetail.remote.farm.worker.BoardWork`)."""


@dataclass(frozen=True, slots=True)
class PieceRun:
    """What a board gave for one batch of samples: outputs `[N, ...]`."""

    board: str
    url: str
    outputs: Mapping[str, AnyArray]


@dataclass(frozen=True, slots=True)
class BoardProfile:
    """How long a bundle takes on a board, by the board's clock, and the versions of its backends."""

    board: str
    url: str
    profile: RunProfile
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HeldBundle:
    """A bundle as tasks are given it: its files, which are checked where they are unpacked."""

    files: Mapping[str, bytes]
    digest: str

    def unpack(self) -> Bundle:
        """Return the bundle; raise BundleError when it is damaged."""
        bundle = bundle_from_files(self.files, "farm")
        if digest_bundle(bundle) != self.digest:
            raise RemoteError("the bundle came to the farm's worker as another one.", hint="Compile it again.")
        return bundle


class WorksOnBoard(Protocol):
    """What a worker knows of its board."""

    board: str
    url: str
    versions: Mapping[str, str]

    def model(self, held: HeldBundle) -> LoadedModel:
        """Return a bundle that is loaded on the board."""

    def give_up(self, error: DeviceLost) -> NoReturn:
        """Take the worker out of the farm, and raise Reschedule."""


def hold_bundle(files: Mapping[str, bytes], digest: str) -> HeldBundle:
    """Return a bundle that other tasks depend on: a worker that is lost with it computes nothing but this again."""
    return HeldBundle(files, digest)


def run_piece(held: HeldBundle, inputs: Mapping[str, AnyArray]) -> PieceRun:
    """Return what this worker's board gives for a batch; raise Reschedule where the board is lost."""
    work = _this_work()
    try:
        outputs = work.model(held).run(inputs).outputs
    except DeviceLost as error:
        work.give_up(error)
    except DovetailError as error:
        raise _named(work.board, error) from error
    return PieceRun(work.board, work.url, dict(outputs))


def time_bundle(held: HeldBundle, feeds: Sequence[Mapping[str, AnyArray]], options: ProfileOptions) -> BoardProfile:
    """Return how long a bundle takes on this worker's board; raise Reschedule where the board is lost."""
    work = _this_work()
    try:
        profile = work.model(held).profile(feeds, options)
    except DeviceLost as error:
        work.give_up(error)
    except DovetailError as error:
        raise _named(work.board, error) from error
    return BoardProfile(work.board, work.url, profile, work.versions)


def _this_work() -> WorksOnBoard:
    from distributed import get_worker

    work: WorksOnBoard = get_worker().plugins[WORK]
    return work


def _named(board: str, error: DovetailError) -> RemoteError:
    return RemoteError(f"board {board}: {error.message}", hint=error.hint)
