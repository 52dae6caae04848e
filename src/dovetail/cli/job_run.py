"""dovetail job run: a bundle run, timed and scored, beside what was predicted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.jobs import JobsVerb, go_on
from dovetail.cli.on import OnVerb
from dovetail.cli.options import DataVerb, LabelsOption
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import DataError


@dataclass(frozen=True, kw_only=True)
class JobRun(JobsVerb, OnVerb, DataVerb):
    """Run a bundle over samples, time it and score it, and show what was predicted beside what was measured.

    First come time, peak memory, units on NPU and CPU, and the score on the task. The job has an id: what every sample
    gave is kept, so that a job that was interrupted or lost its board goes on where it was (`dovetail job resume`).
    With --on the bundle is run here too, for the score that it should have.
    """

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    labels: LabelsOption = None
    metric: Annotated[
        list[str],
        typer.Option("--metric", metavar="NAME", help="Score it by labels: top1, file.py:function; repeatable."),
    ] = field(default_factory=list)
    limit: Annotated[
        int | None, typer.Option("--samples", metavar="N", help="Use only the first N samples.", show_default=False)
    ] = None
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Runs that are timed.")] = 100
    simulate: Annotated[
        bool, typer.Option("--simulate/--no-simulate", help="Run the bundle here too, beside the board.")
    ] = True

    @property
    def planned_by(self) -> Path | None:
        return self.bundle

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.bundle import digest_bundle
        from dovetail.cli.scoring import RunScores
        from dovetail.jobs import JobRequest

        if self.runs < 1 or (self.limit is not None and self.limit < 1):
            raise DataError("--runs and --samples are counts.", hint="Give 1 or more.")
        RunScores(self.metric)  # what is wrong with a metric is said before there is a job
        bundle = dovetail.load_bundle(self.bundle)
        request = JobRequest(
            bundle=str(self.bundle.absolute()),
            data=str(Path(self.data).absolute()) if Path(self.data).exists() else self.data,
            on=None if self.on is None else _place(self.on),
            labels=None if self.labels is None else str(self.labels.absolute()),
            preprocess=None if self.preprocess is None else str(self.preprocess.absolute()),
            metrics=tuple(map(_metric, self.metric)),
            samples=self.limit,
            runs=self.runs,
            simulate=self.simulate,
        )
        return go_on(self.store.create(request, bundle.name, digest_bundle(bundle)), screen)

    def resume_note(self) -> str:
        return "the job is kept: 'dovetail job list' names it, 'dovetail job resume' goes on."


def _place(on: str) -> str:
    """Return a board as it was named; the folder of a kit's result by its whole path."""
    return str(Path(on).absolute()) if Path(on).is_dir() else on


def _metric(name: str) -> str:
    """Return a metric's name; one of a file by its whole path."""
    file, colon, function = name.rpartition(":")
    return f"{Path(file).absolute()}:{function}" if colon and file.endswith(".py") else name
