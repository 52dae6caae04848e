"""The options of commands that evaluate plans: on how many workers, where, how long, how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.verb import Verb
from dovetail.errors import SearchError

if TYPE_CHECKING:
    from dovetail.search.fanout import FanOut


@dataclass(frozen=True, kw_only=True)
class CrewVerb(Verb):
    """Hold where plans are evaluated."""

    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Evaluate plans in N processes; 0: in this one.")
    ] = 0
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS",
            help="Evaluate plans on a Dask cluster: tcp://host:port, or a scheduler file.",
            show_default=False,
        ),
    ] = None
    resources: Annotated[
        list[str],
        typer.Option("--resource", metavar="NAME=X", help="Only on Dask workers that have this; repeatable: npu=1."),
    ] = field(default_factory=list)
    trial_timeout: Annotated[
        float | None,
        typer.Option(
            "--trial-timeout",
            metavar="S",
            help="A plan that takes longer cannot be tested; needs workers.",
            show_default=False,
        ),
    ] = None
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", help="Try a plan that cannot be tested N times more.")
    ] = 0

    def fan_out(self) -> FanOut:
        """Return where plans are evaluated; raise SearchError when the options make no sense or nobody answers."""
        from dovetail.search.fanout import FanOut, PoolOptions, dask_place, local_place

        if self.workers < 0 or self.retries < 0:
            raise SearchError("--workers and --retries are 0 or more.")
        if self.dask is not None and self.workers:
            raise SearchError("give either --workers or --dask.")
        if self.resources and self.dask is None:
            raise SearchError("--resource is for --dask.")
        timeout_s = self.trial_timeout
        if timeout_s is not None:
            if not 0 < timeout_s < float("inf"):
                raise SearchError(f"--trial-timeout {timeout_s:g} is no time.", hint="Seconds, more than 0.")
            if self.dask is None and not self.workers:
                raise SearchError("--trial-timeout can stop only other processes.", hint="Add --workers 1.")
        options = PoolOptions(timeout_s, self.retries)
        if self.dask is not None:
            return FanOut(dask_place(self.dask, self._wanted()), options)
        return FanOut(local_place(self.workers) if self.workers else None, options)

    def fan_out_lines(self) -> Sequence[str]:
        """Return the lines of Python that say where plans are evaluated, as `fanout`."""
        place = "None"
        if self.dask is not None:
            place = f"dask_place({self.dask!r}, {self._wanted()!r})"
        elif self.workers:
            place = f"local_place({self.workers})"
        return (
            "from dovetail.search.fanout import PoolOptions, FanOut, dask_place, local_place",
            "",
            f"fanout = FanOut({place}, PoolOptions({self.trial_timeout!r}, {self.retries!r}))",
        )

    def _wanted(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for text in self.resources:
            name, _, amount = text.partition("=")
            try:
                found[name] = float(amount)
            except ValueError as error:
                raise SearchError(f"--resource {text} is not NAME=NUMBER.", hint="For example npu=1.") from error
            if not name or not 0 < found[name] < float("inf"):
                raise SearchError(f"--resource {text} is not NAME=NUMBER.", hint="For example npu=1.")
        return found
