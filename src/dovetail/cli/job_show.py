"""dovetail job show: one job."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.jobs import JobArgument, JobsVerb, shown
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer


@dataclass(frozen=True, kw_only=True)
class JobShow(JobsVerb):
    """Show a job: what was predicted and what was measured, side by side; or how far it is."""

    job: JobArgument

    def run(self, screen: Screen) -> Answer:
        return shown(self.store.find(self.job))
