"""dovetail env list: the converters' environments on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class EnvList(Verb):
    """List the environments of converters: what each reads, whether it is there, and what it takes.

    Models of PyTorch, TensorFlow and Paddle are converted in an environment that is made when it is first needed.
    Nothing of it enters the Python that runs Dovetail.
    """

    def run(self, screen: Screen) -> Answer:
        from dovetail.environments import ENVIRONMENTS, State, converted_bytes, state_of
        from dovetail.report.page import Facts, Page, Table, flexible, left, right

        found = [state_of(environment, measure=True) for environment in ENVIRONMENTS]
        kept = converted_bytes()
        rows = tuple(
            (
                one.environment.name,
                one.state.value,
                f"{(one.size_bytes or one.environment.size_bytes) / 1e6:.0f}",
                one.environment.purpose,
            )
            for one in found
        )
        document = {
            "environments": [
                {
                    "name": one.environment.name,
                    "state": one.state.value,
                    "folder": str(one.folder),
                    "size_bytes": one.size_bytes if one.state is not State.ABSENT else None,
                    "needs_bytes": one.environment.size_bytes,
                    "packages": list(one.environment.packages),
                    "purpose": one.environment.purpose,
                }
                for one in found
            ],
            "converted_bytes": kept,
        }
        table = Table("Environments", (left("name"), left("state"), right("MB"), flexible("reads")), rows)
        facts = Facts("", (("folder", str(found[0].folder.parent)), ("converted models kept", f"{kept / 1e6:.1f} MB")))
        return Answer(document, Page("Environments of converters", (table, facts)))
