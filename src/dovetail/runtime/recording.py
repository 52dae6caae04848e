"""What a board without a network brings back: outputs, times and what it is, in one folder."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail._version import __version__
from dovetail.bundle.directory import digest_bundle
from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.memory import memory_peak
from dovetail.runtime.profiling import ProfileOptions, RunProfile
from dovetail.runtime.record import Run
from dovetail.runtime.rows import write_rows
from dovetail.runtime.session import Session

RESULT, OUTPUTS = "result.json", "outputs.npz"
SCHEMA = "dovetail.result/1"


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What is recorded besides outputs, and how often a profile runs the model (0 runs: no profile)."""

    layers: bool = False
    """Also every tensor inside that can be read here."""
    warm_ups: int = 2
    runs: int = 20


def record(
    session: Session, feeds: Sequence[Mapping[str, AnyArray]], folder: Path, options: RecordOptions | None = None
) -> None:
    """Run every sample once and then a profile, and write the folder; raise DeviceError, or DataError for the folder.

    `result.json` is written last: a folder without it is not whole.
    """
    how = options or RecordOptions()
    if not feeds:
        raise DeviceError("there are no samples to run.", hint="Give at least one.")
    taps = _readable(session, feeds[0]) if how.layers else ()
    rows: list[dict[str, AnyArray]] = []
    runs: list[Run] = []
    for feed in feeds:
        run = session.run(feed, taps)
        runs.append(run)
        rows.append({**run.taps, **run.outputs})
    profile = session.profile(feeds, ProfileOptions(how.warm_ups, how.runs)) if how.runs else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / OUTPUTS, rows)
        document = {
            "schema": SCHEMA,
            "bundle": digest_bundle(session.bundle),
            "dovetail": __version__,
            "machine": machine_facts(),
            "devices": list(session.devices),
            "samples": [feed_digest(feed) for feed in feeds],
            "taps": list(taps),
            "runs": [_times(run) for run in runs],
            "profile": None if profile is None else _profile(profile),
            "peak_bytes": memory_peak(),
        }
        (folder / RESULT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise DeviceError(f"{folder}: cannot be written: {error.strerror}.", hint="Choose another place.") from error


def feed_digest(feed: Mapping[str, AnyArray]) -> str:
    """Return the SHA-256 of the inputs of one sample: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(feed):
        array = feed[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def machine_facts() -> dict[str, object]:
    """Return what this machine is, for people who read a result later."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def _readable(session: Session, feed: Mapping[str, AnyArray]) -> tuple[str, ...]:
    """Return the tensors besides outputs that the devices tell: not all of them exist once a network is compiled."""
    names = tuple(name for name in session.bundle.tensors if name not in session.bundle.outputs)
    try:
        session.run(feed, names)
    except DeviceError:
        return tuple(name for name in names if _is_readable(session, feed, name))
    return names


def _is_readable(session: Session, feed: Mapping[str, AnyArray], name: str) -> bool:
    try:
        session.run(feed, (name,))
    except DeviceError:
        return False
    return True


def _times(run: Run) -> dict[str, object]:
    marks = [[index, start - run.started_ns, elapsed, moved] for index, start, elapsed, moved in sorted(run.marks)]
    return {"elapsed_ns": run.elapsed_ns, "marks": marks}


def _profile(profile: RunProfile) -> dict[str, object]:
    first = profile.starts_ns[0]
    return {
        "runs": [_times(run) for run in profile.runs],
        "starts_ns": [start - first for start in profile.starts_ns],
        "together_ns": profile.together_ns,
    }
