"""Change single placements of a plan by hand; everything else stays as it is."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from dovetail.backend.target import Target
from dovetail.errors import PlanError, UnsupportedPlacement
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import HOST, Placement, parse_placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.resolve import placeable_units, unit_refusal

BY_HAND = "edited by hand"


@dataclass(frozen=True, slots=True)
class Edit:
    """Place the units of the nodes that a glob over names and source names matches."""

    node: str
    placement: Placement
    reason: str = BY_HAND


def parse_edit(text: str, default: Placement, reason: str = BY_HAND) -> Edit:
    """Return the edit that `NODE=PLACE` names; raise PlanError when it does not.

    PLACE is `TARGET@PRECISION`, a precision of the default's target (`i16`), or `cpu` for its float.
    """
    node, _, place = text.rpartition("=")
    if not node or not place:
        raise PlanError(
            f"'{text}' is no edit: NODE=PLACE is expected.",
            hint="For example 'head/conv_3=i16', 'head/*=cpu' or 'join=vsi:v853@i16'.",
            option="edits",
        )
    known = [item.value for item in Precision]
    if place == HOST:
        return Edit(node, Placement(HOST, Precision.FP32), reason)
    if place in known:
        return Edit(node, Placement(default.target, Precision(place)), reason)
    if "@" not in place:
        near = difflib.get_close_matches(place, [*known, HOST], n=1)
        raise PlanError(
            f"'{text}': '{place}' is no placement.",
            hint=(f"Did you mean '{near[0]}'? " if near else "")
            + "Write TARGET@PRECISION, a precision of the plan's own target, or cpu.",
            option="edits",
        )
    return Edit(node, parse_placement(place), reason)


def edit_plan(graph: Graph, plan: Plan, edits: Sequence[Edit], targets: Mapping[str, Target]) -> Plan:
    """Return the plan with some units placed otherwise; of several edits of one unit the last holds.

    `graph` is the one that the plan is for. Raises PlanError when an edit matches nothing or the plan is for another
    graph, UnsupportedPlacement when a target refuses what it is to take.
    """
    plan.check(graph)
    units = placeable_units(graph, plan.default, targets)
    overrides = dict(plan.overrides)
    for edit in edits:
        names = [node.name for node in graph.nodes if _matches(edit, (node.name, *node.origin))]
        if not names:
            raise _no_match(graph, edit)
        for unit in dict.fromkeys(units.of_node[name] for name in names):
            refused = unit_refusal(graph, unit, edit.placement, targets)
            if refused is not None:
                node = graph.node(refused.node)
                place = edit.placement
                raise UnsupportedPlacement(
                    node.label,
                    place.target,
                    place.precision.value,
                    refused.reason,
                    hint="Run 'dovetail explain' with this node to see who takes it.",
                )
            overrides.update(dict.fromkeys(unit.nodes, Override(edit.placement, edit.reason)))
    kept = {name: item for name, item in overrides.items() if item.placement != plan.default}
    return replace(plan, overrides=kept)


def _matches(edit: Edit, names: Sequence[str]) -> bool:
    # Names of nodes may hold what a glob takes for a sign of its own.
    return edit.node in names or any(fnmatchcase(name, edit.node) for name in names)


def _no_match(graph: Graph, edit: Edit) -> PlanError:
    known = list(dict.fromkeys(name for node in graph.nodes for name in (node.name, *node.origin)))
    near = difflib.get_close_matches(edit.node.strip("*"), known, n=3, cutoff=0.5)
    names = " or ".join(f"'{name}'" for name in near)
    return PlanError(
        f"'{edit.node}' matches no node of '{graph.name}'.",
        hint=f"Did you mean {names}?" if near else "Run 'dovetail explain' with all nodes ('*') to see the names.",
        option="edits",
    )
