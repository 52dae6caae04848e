"""The options of commands that price placements."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.texts import one_of
from dovetail.cli.verb import Verb

if TYPE_CHECKING:
    from dovetail.backend.profiles.hosts import HostFacts
    from dovetail.cost import CostTable


@dataclass(frozen=True, kw_only=True)
class PriceVerb(Verb):
    """The options of commands that price placements."""

    costs: Annotated[
        list[Path], typer.Option("--costs", metavar="FILE", help="Measured latencies (JSON); repeatable, best first.")
    ] = field(default_factory=list)
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="CPU beside the NPU; the one on its chip.", show_default=False),
    ] = None

    def tables(self) -> tuple[CostTable, ...]:
        """Return the tables of measured latencies."""
        from dovetail.cost import load_cost_table

        return tuple(load_cost_table(path) for path in self.costs)

    def host_facts(self) -> HostFacts | None:
        """Return the CPU beside the NPU; raise DovetailError when the name is unknown."""
        from dovetail.backend.profiles.hosts import HOSTS

        return None if self.host is None else HOSTS[one_of("--host", self.host, sorted(HOSTS))]
