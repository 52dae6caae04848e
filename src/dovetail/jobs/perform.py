"""Do a job: every sample once, a profile, and the scores; what is done already is not done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import digest_bundle
from dovetail.data.sample import Sample, SampleSource
from dovetail.errors import DataError, DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.jobs.record import Beside, JobFigures, JobRecord, JobScore, UnitCounts
from dovetail.jobs.store import JobFolder
from dovetail.report.measured import scenarios
from dovetail.runtime.place import LoadedModel, LocalRuntime, Runtime
from dovetail.runtime.profiling import ProfileOptions, RunProfile
from dovetail.runtime.record import Run
from dovetail.runtime.recording import feed_digest

_THERE, _HERE = "there/", "here/"
_CPU = "CPU"


class JobScorer(Protocol):
    """Take the outputs of samples one by one, and score them in the end."""

    def add(self, outputs: Mapping[str, AnyArray], sample: Sample) -> None: ...

    def document(self) -> Mapping[str, float]: ...

    def higher_is_better(self, metric: str) -> bool: ...


@dataclass(frozen=True)
class JobWork:
    """What a job works with."""

    bundle: Bundle
    samples: SampleSource
    place: Runtime
    scorer: Callable[[], JobScorer]
    """Makes one for each side."""
    stage: Callable[[str, int], None] = field(default=lambda title, total: None)
    advance: Callable[[int], None] = field(default=lambda done: None)


@dataclass(slots=True)
class _Sides:
    """What the samples gave so far, where the job runs and in a run here."""

    there: JobScorer
    here: JobScorer | None
    equal: int = 0
    elements: int = 0
    samples: int = 0
    notes: list[str] = field(default_factory=list)


def perform_job(job: JobFolder, work: JobWork) -> JobRecord:
    """Do what is left of a job and return its record.

    Every sample is kept before the next one is run. Raises DataError where the bundle or the data are others than when
    it began or another process is at it, and what the place raises: the job is stopped then, and can be gone on with.
    """
    with job.alone():
        record = job.record
        if record.figures is not None:
            return record
        if digest_bundle(work.bundle) != record.bundle_digest:
            raise DataError(
                f"job {record.id}: {record.request.bundle} is another bundle than when it began.",
                hint="Start a new job.",
            )
        try:
            figures = _figures(job, record, work)
        except DovetailError as error:
            job.write(replace(record, reason=str(error)))
            raise
        done = replace(record, figures=figures, reason="")
        job.write(done)
        return done


def _figures(job: JobFolder, record: JobRecord, work: JobWork) -> JobFigures:
    with ExitStack() as stack:
        model = stack.enter_context(work.place.load(work.bundle))
        simulated, note = _simulated(record, work, stack)
        sides = _Sides(work.scorer(), None if simulated is None else work.scorer(), notes=[note] if note else [])
        work.stage("running", work.samples.count or 0)
        feeds: list[Mapping[str, AnyArray]] = []
        for index, sample in enumerate(work.samples):
            if len(feeds) < record.request.runs:
                feeds.append(sample.inputs)
            _take(sides, sample, _of_sample(job, index, sample, model, simulated), work.bundle)
            work.advance(index + 1)
        if not sides.samples:
            raise DataError(f"{record.request.data}: the data set is empty.", hint="Give at least one sample.")
        work.stage("timing", 2 * record.request.runs)
        profile = model.profile(feeds, ProfileOptions(runs=record.request.runs), work.advance)
        return _told(work.bundle, sides, profile)


def _simulated(record: JobRecord, work: JobWork, stack: ExitStack) -> tuple[LoadedModel | None, str]:
    """Return the bundle loaded here for what a board should give, or why it is not."""
    if record.request.on is None:
        return None, ""
    if not record.request.simulate:
        return None, "no score was predicted: it was not asked for."
    try:
        return stack.enter_context(LocalRuntime().load(work.bundle)), ""
    except DovetailError as error:
        return None, f"no score was predicted: the bundle does not run here: {error}"


def _of_sample(
    job: JobFolder, index: int, sample: Sample, model: LoadedModel, simulated: LoadedModel | None
) -> Mapping[str, AnyArray]:
    """Return the stored values that a sample gave, kept or run now; those of a run here where they differ."""
    digest = feed_digest(sample.inputs)
    known = job.outputs(index, digest)
    if known is None:
        there = model.run(sample.inputs).outputs
        arrays = {f"{_THERE}{name}": values for name, values in there.items()}
        if simulated is not None:
            here = simulated.run(sample.inputs).outputs
            arrays |= {f"{_HERE}{name}": values for name, values in here.items() if not _same(values, there[name])}
        job.keep(index, digest, arrays)
        known = arrays
    return known


def _take(sides: _Sides, sample: Sample, arrays: Mapping[str, AnyArray], bundle: Bundle) -> None:
    there = {name: arrays[f"{_THERE}{name}"] for name in bundle.outputs}
    here = {name: arrays.get(f"{_HERE}{name}", values) for name, values in there.items()}
    sides.samples += 1
    sides.there.add(_real(there, bundle), sample)
    if sides.here is not None:
        sides.here.add(_real(here, bundle), sample)
    for name, values in there.items():
        sides.elements += values.size
        sides.equal += _equal(values, here[name])


def _real(stored: Mapping[str, AnyArray], bundle: Bundle) -> dict[str, AnyArray]:
    run = Run(stored, {}, bundle.outputs)
    return {name: run.real(name) for name in stored}


def _same(one: AnyArray, other: AnyArray) -> bool:
    return one.shape == other.shape and _equal(one, other) == one.size


def _equal(one: AnyArray, other: AnyArray) -> int:
    """Return how many elements are equal, NaN among them; none where shapes differ."""
    if one.shape != other.shape:
        return 0
    return int(np.count_nonzero((one == other) | ((one != one) & (other != other))))


def _told(bundle: Bundle, sides: _Sides, profile: RunProfile) -> JobFigures:
    notes = list(sides.notes)
    predicted_ns, by = _predicted_time(bundle)
    if predicted_ns is None:
        notes.append("no time was predicted: units of the bundle have no price.")
    memory = profile.memory
    if memory is None or memory.added_bytes is None:
        notes.append("what the model added to the memory was not measured: the place does not tell it.")
    units = _units(bundle)
    if units is None:
        notes.append("units were not counted: the bundle was not made by 'dovetail compile' or 'tune'.")
    measured = sides.there.document()
    predicted = {} if sides.here is None else sides.here.document()
    return JobFigures(
        devices=profile.devices,
        samples=sides.samples,
        time_ns=Beside(predicted_ns, float(profile.percentile_ns(0.5))),
        predicted_by=by,
        memory_bytes=Beside(bundle.memory_bytes, None if memory is None else memory.added_bytes),
        process_bytes=None if memory is None else memory.peak_bytes,
        units=units,
        units_moved=_moved(bundle, profile),
        scores=tuple(
            JobScore(name, sides.there.higher_is_better(name), Beside(predicted.get(name), score))
            for name, score in measured.items()
        ),
        equal_share=None if sides.here is None else sides.equal / max(sides.elements, 1),
        scenarios=scenarios(profile),
        notes=tuple(notes),
    )


def _predicted_time(bundle: Bundle) -> tuple[float | None, str]:
    """Return what the units of all partitions should take; None where one with units has no price."""
    worked = [part for part in bundle.partitions if part.units != 0]
    times = [part.predicted_ns for part in worked]
    by = "; ".join(dict.fromkeys(part.predicted_by for part in worked if part.predicted_by))
    known = [time for time in times if time is not None]
    return (sum(known), by) if known and len(known) == len(times) else (None, "")


def _units(bundle: Bundle) -> UnitCounts | None:
    if any(part.units is None for part in bundle.partitions):
        return None
    engines = sum((Counter(dict(part.engines)) for part in bundle.partitions), Counter[str]())
    total = sum(part.units or 0 for part in bundle.partitions)
    return UnitCounts(total - engines[_CPU], engines[_CPU], dict(sorted(engines.items())))


def _moved(bundle: Bundle, profile: RunProfile) -> int | None:
    """Return the units of partitions of which a backend says that operators run elsewhere."""
    pairs = list(zip(bundle.partitions, profile.accounts, strict=False))
    if not any(account.operators for _, account in pairs):
        return None
    return sum(part.units or 0 for part, account in pairs if account.elsewhere)
