"""dovetail job resume: go on with a job that was stopped."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.jobs import JobArgument, JobsVerb, go_on
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer


@dataclass(frozen=True, kw_only=True)
class JobResume(JobsVerb):
    """Go on with a job that was interrupted or lost its board: samples that it has run are not run again.

    Bundle, data and labels have to be the same. A job that is done is shown.
    """

    job: JobArgument

    def run(self, screen: Screen) -> Answer:
        return go_on(self.store.find(self.job), screen)

    def resume_note(self) -> str:
        return "the job is kept: the same command goes on with it."
