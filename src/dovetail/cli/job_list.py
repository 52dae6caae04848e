"""dovetail job list: the jobs of this user."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.jobs import JobsVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer


@dataclass(frozen=True, kw_only=True)
class JobList(JobsVerb):
    """List jobs, what each does, and what it measured."""

    def run(self, screen: Screen) -> Answer:
        from dovetail.jobs import job_document, jobs_page

        rows = [(job.record, job.state, job.samples_done) for job in self.store.all()]
        return Answer({"jobs": [job_document(one, state.value, done) for one, state, done in rows]}, jobs_page(rows))
