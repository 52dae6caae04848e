"""The record of a job: what was asked, and what was predicted and measured, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = "dovetail.job/1"
KIND = "dovetail-job"


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What a job is asked to do; paths are absolute, so that it can be gone on with from anywhere."""

    bundle: str
    data: str
    on: str | None = None
    """The board as it was named; None is this machine."""
    labels: str | None = None
    preprocess: str | None = None
    metrics: tuple[str, ...] = ()
    samples: int | None = None
    """How many of the data; None is all."""
    runs: int = 100
    """That are timed."""
    simulate: bool = True
    """Whether a bundle that a board runs is run here too, for what its score should be."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A figure as it was predicted and as it was measured; None where it is not known."""

    predicted: float | None = None
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """How many units run on the NPU and on the CPU, and on which engines."""

    npu: int
    cpu: int
    engines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobScore:
    """A score on the task, by the labels of all samples."""

    metric: str
    higher_is_better: bool
    score: Beside


@dataclass(frozen=True, slots=True)
class JobFigures:
    """What a job found."""

    devices: tuple[str, ...]
    """Of every partition."""
    samples: int
    time_ns: Beside
    """Of a request: what its units should take, and the median."""
    predicted_by: str
    memory_bytes: Beside
    """Constants and activations, and what the process had more than before the model was loaded."""
    process_bytes: int | None
    """At most, with the program and its libraries."""
    units: UnitCounts | None
    """As the plan has them."""
    units_moved: int | None
    """Of partitions whose backend says that some of their operators run elsewhere; None where no backend says."""
    scores: tuple[JobScore, ...]
    equal_share: float | None
    """Of the elements of all outputs, those that are what a run of the bundle here gives."""
    scenarios: Mapping[str, Mapping[str, object]]
    """LoadGen's, of `dovetail profile`."""
    notes: tuple[str, ...] = ()
    """What is not known, and why."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job: its id, what was asked, and what came of it so far."""

    id: str
    created: str
    """UTC, ISO 8601."""
    model: str
    bundle_digest: str
    request: JobRequest
    figures: JobFigures | None = None
    """None until it is done."""
    reason: str = ""
    """Why it stopped, where it did."""


def record_to_document(record: JobRecord) -> dict[str, object]:
    """Return a record as plain data."""
    return {"schema": SCHEMA, "kind": KIND, **asdict(record)}


def job_document(record: JobRecord, state: str, done: int) -> dict[str, object]:
    """Return a record with its state and how many samples are done, as `--json` prints it."""
    return {**record_to_document(record), "state": state, "samples_done": done}


def record_from_document(document: Mapping[str, Any]) -> JobRecord:
    """Return the record in plain data; raise KeyError, TypeError or ValueError where it is none."""
    if document["kind"] != KIND or document["schema"] != SCHEMA:
        raise ValueError(f"not a job of this version ({SCHEMA})")
    asked, found = dict(document["request"]), document["figures"]
    asked["metrics"] = tuple(asked["metrics"])
    return JobRecord(
        id=str(document["id"]),
        created=str(document["created"]),
        model=str(document["model"]),
        bundle_digest=str(document["bundle_digest"]),
        request=JobRequest(**asked),
        figures=None if found is None else _figures(found),
        reason=str(document["reason"]),
    )


def _figures(found: Mapping[str, Any]) -> JobFigures:
    scores = tuple(JobScore(one["metric"], one["higher_is_better"], Beside(**one["score"])) for one in found["scores"])
    return JobFigures(
        devices=tuple(found["devices"]),
        samples=found["samples"],
        time_ns=Beside(**found["time_ns"]),
        predicted_by=found["predicted_by"],
        memory_bytes=Beside(**found["memory_bytes"]),
        process_bytes=found["process_bytes"],
        units=None if found["units"] is None else UnitCounts(**found["units"]),
        units_moved=found["units_moved"],
        scores=scores,
        equal_share=found["equal_share"],
        scenarios=found["scenarios"],
        notes=tuple(found["notes"]),
    )
