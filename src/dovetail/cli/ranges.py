"""The ranges of commands that take a plan: a file that is named, or the one that tune left beside the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.cli.render import Screen
    from dovetail.ir import Graph
    from dovetail.plan import Plan

_NAME = "ranges.json"
"""As `tune` and `calibrate` call it."""


def ranges_file(given: Path | None, where: Path, graph: Graph, screen: Screen) -> Path | None:
    """Return the file of ranges: as given, else the one beside the plan's file `where`, which is said.

    None where nothing lies there for this graph.
    """
    beside = where.parent / _NAME
    if given is not None or not beside.is_file():
        return given
    import dovetail

    try:
        ranges = dovetail.load_ranges(beside)
    except DovetailError:
        return None
    if ranges.graph_digest != graph.digest:
        return None
    screen.note(f"the ranges are those beside the plan: {beside}.")
    return beside


def is_quantizing(plan: Plan) -> bool:
    """Tell whether a plan stores anything as integers."""
    places = (plan.default, *(override.placement for override in plan.overrides.values()))
    return any(place.precision.is_quantized for place in places)
