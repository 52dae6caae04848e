"""dovetail job schema: what the JSON of a job looks like."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class JobSchema(Verb):
    """Print the JSON schema of a job, as `job show --json` prints it."""

    def instead(self) -> str | None:
        from dovetail.jobs import schema_text

        return schema_text()

    def run(self, screen: Screen) -> Answer:
        raise AssertionError("what is printed instead is the schema")
