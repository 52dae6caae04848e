"""What the commands about jobs share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.on import open_place
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb

if TYPE_CHECKING:
    from dovetail.jobs import JobFolder, JobStore

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Id of a job, or the beginning of it.", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class JobsVerb(Verb):
    """The option of commands about jobs."""

    jobs: Annotated[
        Path | None,
        typer.Option("--jobs", metavar="FOLDER", help="Where jobs are kept; else in the user's data folder."),
    ] = None

    @property
    def store(self) -> JobStore:
        """Return where jobs are kept."""
        from dovetail.jobs import JobStore

        return JobStore(self.jobs)


def go_on(job: JobFolder, screen: Screen) -> Answer:
    """Do what is left of a job, and show it."""
    import dovetail
    from dovetail.cli.scoring import RunScores
    from dovetail.data import first_samples, load_preprocess
    from dovetail.jobs import JobWork, perform_job

    asked = job.record.request
    bundle = dovetail.load_bundle(asked.bundle)
    steps = None if asked.preprocess is None else load_preprocess(Path(asked.preprocess))
    labels = None if asked.labels is None else Path(asked.labels)
    samples = dovetail.open_samples(asked.data, dovetail.specs_of(bundle.inputs), steps, labels)
    screen.note(f"job {job.record.id}; if it is stopped: dovetail job resume {job.record.id}")
    with open_place(asked.on) as place, screen.progress("running") as bar:
        work = JobWork(
            bundle,
            first_samples(samples, asked.samples),
            place,
            lambda: RunScores(asked.metrics),
            bar.begin,
            bar.advance,
        )
        perform_job(job, work)
    return shown(job)


def shown(job: JobFolder) -> Answer:
    """Show a job."""
    from dovetail.jobs import job_document, job_page

    record, state, done = job.record, job.state, job.samples_done
    return Answer(job_document(record, state.value, done), job_page(record, state, done))
