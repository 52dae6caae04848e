"""dovetail doctor: what is here, what is missing, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb


@dataclass(frozen=True, kw_only=True)
class Doctor(Verb):
    """Look at everything that VeriSilicon's tools need on this machine, and say what to do about what is missing."""

    test: Annotated[bool, typer.Option("--test/--no-test", help="Run one graph on the simulator too.")] = True

    def run(self, screen: Screen) -> Answer:
        from dovetail.report.page import Page, Table, left, wrapped
        from dovetail.sdk import Health, examine, self_test

        checks = examine(self_test if self.test else None)
        rows = tuple((check.name, check.health.value, check.found, check.advice) for check in checks)
        columns = (left("check"), left("state"), wrapped("found"), wrapped("what to do"))
        document = {
            "checks": [
                {"name": check.name, "state": check.health.value, "found": check.found, "advice": check.advice}
                for check in checks
            ]
        }
        broken = any(check.health is Health.BROKEN for check in checks)
        code = ExitCode.NO if broken else ExitCode.DONE
        return Answer(document, Page("Doctor", (Table("Checks", columns, rows),)), code)
