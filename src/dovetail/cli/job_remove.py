"""dovetail job remove: delete a job."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.jobs import JobArgument, JobsVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer


@dataclass(frozen=True, kw_only=True)
class JobRemove(JobsVerb):
    """Delete a job with what it kept."""

    job: JobArgument

    def run(self, screen: Screen) -> Answer:
        from dovetail.report.page import Facts, Page

        job = self.store.find(self.job)
        name = job.folder.name
        self.store.remove(job)
        return Answer({"removed": name}, Page("Jobs", (Facts("", (("removed", name),)),)))
