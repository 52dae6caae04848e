"""The options of commands that ask a vendor's performance model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.options import HOST, whole_plan
from dovetail.cli.render import Screen
from dovetail.cli.texts import one_of
from dovetail.cli.verb import Verb
from dovetail.errors import CostError

if TYPE_CHECKING:
    from dovetail.backend.modelled import BoardSettings
    from dovetail.cost import ModelledPartition
    from dovetail.ir import Graph
    from dovetail.plan import Placement, Plan
    from dovetail.quantize import Ranges

_WHOLE = ("ddr_latency_cycles", "vip_sram_kib", "axi_sram_kib")


@dataclass(frozen=True, kw_only=True)
class BoardVerb(Verb):
    """The options of commands that can ask the vendor's model, and what it is told about the board."""

    vendor: Annotated[
        bool, typer.Option("--vendor", help="Ask the vendor's performance model too (needs its SDK; nothing is run).")
    ] = False
    board: Annotated[
        list[str],
        typer.Option(
            "--board",
            metavar="[TARGET:]NAME=VALUE",
            help="What a board has of its own: clock_mhz, ddr_bytes_per_cycle, ddr_latency_cycles, vip_sram_kib, "
            "axi_sram_kib; repeatable.",
        ),
    ] = field(default_factory=list)

    def boards(self, targets: Sequence[str]) -> Mapping[str, BoardSettings]:
        """Return the settings of each target; a setting without a target is for all of them."""
        from dovetail.backend.modelled import BoardSettings

        if self.board and not self.vendor:
            raise CostError("--board tells the vendor's model about a board.", hint="Add --vendor.")
        found = dict.fromkeys(targets, BoardSettings())
        known = [item.name for item in fields(BoardSettings)]
        for text in self.board:
            left, sign, value = text.partition("=")
            target, _, name = left.rpartition(":")
            if not sign:
                raise CostError(f"--board '{text}': [TARGET:]NAME=VALUE is expected.", hint="Such as clock_mhz=800.")
            one_of("--board", name, known)
            if target:
                one_of("--board", target, list(targets))
            for wanted in [target] if target else targets:
                found[wanted] = _changed(found[wanted], name, value, text)
        return found

    def modelled(self, graph: Graph, plan: Plan, ranges: Ranges | None = None) -> Sequence[ModelledPartition]:
        """Return what the vendor's model says of a plan; nothing where it is not asked."""
        from dovetail.cost import ModelRequest, model_plan

        request = ModelRequest(self.boards([name for name in plan.targets if name != HOST]), ranges)
        return model_plan(graph, plan, request) if self.vendor else ()

    def modelled_places(self, graph: Graph, places: Sequence[Placement], screen: Screen) -> list[ModelledPartition]:
        """Return what the vendor's model says of the whole graph at each placement; the CPU takes what is refused."""
        from dovetail.cost import ModelRequest, model_plan

        request = ModelRequest(self.boards([place.target for place in places if place.target != HOST]))
        asked = places if self.vendor else ()
        parts: list[ModelledPartition] = []
        with screen.progress("asking the vendor's model", len(asked) or None) as bar:
            for done, place in enumerate(asked):
                bar.advance(done)
                bar.rename(f"modelling {place}")
                plan = whole_plan(graph, place)
                if place.target in plan.targets:
                    parts += model_plan(graph, plan, request)
        return parts


def _changed(board: BoardSettings, name: str, value: str, text: str) -> BoardSettings:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    whole = name in _WHOLE
    if not math.isfinite(number) or number < 0 or (not whole and number == 0) or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number above 0"
        raise CostError(f"--board '{text}': {kind} is expected.")
    changed: dict[str, Any] = {name: int(number) if whole else number}
    return replace(board, **changed)
