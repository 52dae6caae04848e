"""What differs between two plans: placements by unit, and repairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.repairs import RepairRecord


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """Nodes that two plans place differently.

    `unit` names the unit that they are of, or the node where no unit is known; `reason` is the second plan's, and the
    first one's where the second has the node at its default.
    """

    unit: str
    nodes: tuple[str, ...]
    before: Placement
    after: Placement
    reason: str


@dataclass(frozen=True, slots=True)
class RepairChange:
    """A repair of one tensor that only one plan has, or that has other numbers in the other; None where it is not."""

    kind: str
    tensor: str
    before: tuple[int, ...] | None
    after: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """What differs between two plans; `moved` holds the nodes that either plan names, by unit."""

    graphs: tuple[str, str]
    """The digests of the graphs that they are for."""
    defaults: tuple[Placement, Placement]
    moved: tuple[PlacementChange, ...]
    repairs: tuple[RepairChange, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether the plans say the same."""
        first, second = self.defaults
        return self.graphs[0] == self.graphs[1] and first == second and not self.moved and not self.repairs


def compare_plans(first: Plan, second: Plan, unit_of: Mapping[str, str]) -> PlanDifference:
    """Return what differs between two plans; `unit_of` maps nodes to their units as far as these are known."""
    groups: dict[tuple[str, Placement, Placement], list[str]] = {}
    for node in dict.fromkeys((*first.overrides, *second.overrides)):
        before, after = first.placement(node), second.placement(node)
        if before != after:
            groups.setdefault((unit_of.get(node, node), before, after), []).append(node)
    moved = tuple(
        PlacementChange(unit, tuple(nodes), before, after, _reason(first, second, nodes[0]))
        for (unit, before, after), nodes in groups.items()
    )
    repairs = tuple(_repair_changes(first.repairs, second.repairs))
    graphs = first.graph_digest, second.graph_digest
    return PlanDifference(graphs, (first.default, second.default), moved, repairs)


def _reason(first: Plan, second: Plan, node: str) -> str:
    return second.reason(node) if node in second.overrides else f"before: {first.reason(node)}"


def _repair_changes(first: tuple[RepairRecord, ...], second: tuple[RepairRecord, ...]) -> Iterator[RepairChange]:
    before, after = _by_tensor(first), _by_tensor(second)
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield RepairChange(key[0], key[1], old, new)


def _by_tensor(records: tuple[RepairRecord, ...]) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the numbers of repairs by kind and tensor; what a kind does again to a tensor is appended."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for record in records:
        for tensor, numbers in record.channels.items():
            key = record.kind, tensor
            found[key] = (*found.get(key, ()), *numbers)
    return found
