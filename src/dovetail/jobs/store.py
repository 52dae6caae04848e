"""Where jobs are kept: a folder each, with the record and what every sample gave so far."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import numpy as np

from dovetail.errors import DataError, suggestion
from dovetail.files import read_file, write_file
from dovetail.ir.dtypes import AnyArray
from dovetail.jobs.record import JobRecord, JobRequest, record_from_document, record_to_document
from dovetail.runtime.rows import write_rows
from dovetail.sdk.location import data_folder
from dovetail.seal import sealed, unsealed

_RECORD, _SAMPLES, _LOCK = "job.json", "samples", "lock"
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH = 8
_ID = re.compile(f"[{_ALPHABET}]{{{_LENGTH}}}")
_MOST_BYTES = 64 << 20


class JobState(Enum):
    """What a job does now."""

    RUNNING = "running"
    STOPPED = "stopped"
    """It was interrupted, or the board was lost: it can be gone on with."""
    DONE = "done"


def default_jobs_folder() -> Path:
    """Return where the jobs of this user are kept."""
    return data_folder() / "jobs"


class JobFolder:
    """The folder of one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def record(self) -> JobRecord:
        """Return the record; raise DataError where it is damaged."""
        path = self.folder / _RECORD
        try:
            return record_from_document(unsealed(json.loads(read_file(path, _MOST_BYTES))))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"{path}: damaged: {error}.", hint="Start the job anew.") from error

    def write(self, record: JobRecord) -> None:
        """Keep a record, all or nothing."""
        text = json.dumps(sealed(record_to_document(record)), indent=1, ensure_ascii=False) + "\n"
        write_file(self.folder / _RECORD, text, replace=True)

    @property
    def state(self) -> JobState:
        """Return what the job does now."""
        if self.record.figures is not None:
            return JobState.DONE
        try:
            with self.alone():
                return JobState.STOPPED
        except DataError:
            return JobState.RUNNING

    @property
    def samples_done(self) -> int:
        """Return how many samples have been run."""
        return len(list((self.folder / _SAMPLES).glob("[0-9]*.npz")))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from this job while the body runs; raise DataError where one is at it."""
        with (self.folder / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DataError(f"job {self.folder.name} is running.", hint="Wait for it, or end it.") from error
            yield

    def outputs(self, index: int, digest: str) -> Mapping[str, AnyArray] | None:
        """Return what a sample gave; None where it was not run. Raises DataError where it was another sample."""
        path = self._sample(index)
        if not path.exists():
            return None
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                found = {name: archive[name][0] for name in archive.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path}: damaged: {error}.", hint="Delete it, and go on with the job.") from error
        if found.pop("digest", np.asarray("")).item() != digest:
            raise DataError(
                f"job {self.folder.name}: sample {index} is not the one that it has run.", hint="Start a new job."
            )
        return found

    def keep(self, index: int, digest: str, arrays: Mapping[str, AnyArray]) -> None:
        """Keep what a sample gave, all or nothing."""
        path = self._sample(index)
        path.parent.mkdir(exist_ok=True)
        write_rows(path, [{**arrays, "digest": np.asarray(digest)}])

    def _sample(self, index: int) -> Path:
        return self.folder / _SAMPLES / f"{index:06d}.npz"


class JobStore:
    """All jobs of a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = default_jobs_folder() if folder is None else folder

    def create(self, request: JobRequest, model: str, bundle_digest: str) -> JobFolder:
        """Make the folder of a new job; raise DataError where that cannot be."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        while True:
            name = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
            job = JobFolder(self.folder / name)
            try:
                job.folder.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise DataError(
                    f"{self.folder}: cannot be written: {error.strerror}.", hint="Choose another folder.", option="jobs"
                ) from error
            job.write(JobRecord(name, now, model, bundle_digest, request))
            return job

    def all(self) -> list[JobFolder]:
        """Return the jobs, oldest first; raise DataError where one is damaged, or the folder is none.

        A folder that is not there yet has no jobs.
        """
        try:
            names = sorted(name for name in os.listdir(self.folder) if _ID.fullmatch(name))
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise DataError(f"{self.folder}: no folder of jobs.", hint="Choose a folder.", option="jobs") from error
        except OSError as error:
            raise DataError(
                f"{self.folder}: cannot be read: {error.strerror}.", hint="Choose another folder.", option="jobs"
            ) from error
        jobs = [JobFolder(self.folder / name) for name in names if (self.folder / name / _RECORD).is_file()]
        return sorted(jobs, key=lambda job: job.record.created)

    def find(self, name: str) -> JobFolder:
        """Return a job by its id, or by the beginning of it; raise DataError where there is none, or several."""
        jobs = self.all()
        found = [job for job in jobs if job.folder.name.startswith(name)] if name else []
        if len(found) == 1:
            return found[0]
        if found:
            raise DataError(f"'{name}' begins the ids of {len(found)} jobs.", hint="Give more of it.")
        ids = [job.folder.name for job in jobs]
        hint = suggestion(name, ids) if ids else "'dovetail job run' starts one."
        raise DataError(f"there is no job '{name[:80]}' in {self.folder}.", hint=hint)

    def remove(self, job: JobFolder) -> None:
        """Delete a job; raise DataError where it is running."""
        with job.alone():
            shutil.rmtree(job.folder)
