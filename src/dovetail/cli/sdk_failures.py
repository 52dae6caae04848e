"""dovetail sdk failures: what compilers were seen to crash or hang on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.reducing import user_memory
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.backend.failures import KnownFailure

_SHORT = 12
_ALL = "all"


@dataclass(frozen=True, kw_only=True)
class SdkFailures(Verb):
    """List what vendors' compilers were seen to crash or hang on; with --forget, try it again from now on.

    A part is remembered by its content, for one target and the very software that failed, once it has failed a second
    time, alone in a process of its own (a hang: at twice the time). Plans avoid it, and a partition that holds it is
    refused at once.
    """

    forget: Annotated[
        list[str],
        typer.Option("--forget", metavar="ID", help="Forget it, or all; the first digits are enough. Repeatable."),
    ] = field(default_factory=list)

    def run(self, screen: Screen) -> Answer:
        from dovetail.report.page import Facts, Page, Table, flexible, left, wrapped

        memory = user_memory()
        entries = memory.entries()
        chosen = self._chosen(entries)
        forgotten = [entry for entry in entries if entry.digest in chosen]
        memory.forget(forgotten)
        left_over = [entry for entry in entries if entry not in forgotten]
        rows = tuple(
            (entry.digest[:_SHORT], entry.scope.target, ", ".join(entry.ops), entry.failure.name.lower(), _told(entry))
            for entry in left_over
        )
        document = {
            "folder": str(memory.folder),
            "failures": [
                {
                    "id": entry.digest,
                    "backend": entry.scope.backend,
                    "version": entry.scope.version,
                    "software": entry.software,
                    "target": entry.scope.target,
                    "ops": list(entry.ops),
                    "failure": entry.failure.name.lower(),
                    "reason": entry.reason,
                }
                for entry in left_over
            ],
            "forgotten": [entry.digest for entry in forgotten],
        }
        facts = Facts("", (("folder", str(memory.folder)), ("forgotten", str(len(forgotten)))))
        columns = (left("id"), left("target"), flexible("operators"), left("compiler"), wrapped("what it said"))
        return Answer(document, Page("What compilers fail on", (facts, Table("Remembered", columns, rows))))

    def _chosen(self, entries: tuple[KnownFailure, ...]) -> frozenset[str]:
        """Return the digests that are to go; raise DovetailError for one that is none of them."""
        chosen: set[str] = set()
        for text in self.forget:
            found = {entry.digest for entry in entries if text == _ALL or (text and entry.digest.startswith(text))}
            if not found and text != _ALL:
                raise DovetailError(f"--forget '{text}': nothing of that id is remembered.", hint="List them first.")
            chosen |= found
        return frozenset(chosen)


def _told(entry: KnownFailure) -> str:
    return f"{entry.software or entry.scope.backend}: {entry.reason}"
