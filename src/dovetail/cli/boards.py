"""The options of commands that ask a vendor's performance model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.options import one_of
from dovetail.cli.verb import Verb
from dovetail.errors import CostError

if TYPE_CHECKING:
    from dovetail.backend.modelled import BoardSettings
    from dovetail.cost import ModelledPartition, ModelRequest
    from dovetail.ir import Graph
    from dovetail.plan import Plan
    from dovetail.quantize import Ranges

_WHOLE = ("ddr_latency_cycles", "vip_sram_kib", "axi_sram_kib")


@dataclass(frozen=True, kw_only=True)
class BoardVerb(Verb):
    """Hold whether the vendor's model is asked, and what it is told about the board."""

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

    def model_request(self, targets: Sequence[str], ranges: Ranges | None = None) -> ModelRequest:
        """Return what the model is told; raise CostError for settings that do not exist."""
        from dovetail.cost import ModelRequest

        return ModelRequest(self.boards(targets), ranges)

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
        from dovetail.cost import model_plan

        request = self.model_request([name for name in plan.targets if name != "cpu"], ranges)
        return model_plan(graph, plan, request) if self.vendor else ()


def _changed(board: BoardSettings, name: str, value: str, text: str) -> BoardSettings:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    whole = name in _WHOLE
    if not math.isfinite(number) or number < 0 or (not whole and number == 0) or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number above 0"
        raise CostError(f"--board '{text}': {kind} is expected.")
    match name:
        case "clock_mhz":
            return replace(board, clock_mhz=number)
        case "ddr_bytes_per_cycle":
            return replace(board, ddr_bytes_per_cycle=number)
        case "ddr_latency_cycles":
            return replace(board, ddr_latency_cycles=int(number))
        case "vip_sram_kib":
            return replace(board, vip_sram_kib=int(number))
        case _:
            return replace(board, axi_sram_kib=int(number))
