"""From a search space and a cost model to the placement problem, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dovetail.cost.model import OUTSIDE as OUTSIDE_PLACE
from dovetail.cost.model import CostModel
from dovetail.cost.wiring import WORLD, Wire
from dovetail.plan.placement import Placement
from dovetail.search.optimum.problem import OUTSIDE, Assignment, Demands, PricedWire, Problem
from dovetail.search.space import Space


@dataclass(frozen=True)
class PricedSpace:
    """The placement problem of a search space; `places` are what the problem's numbers stand for."""

    space: Space
    units: tuple[str, ...]
    places: tuple[Placement, ...]
    problem: Problem

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {unit: index for index, unit in enumerate(self.units)}

    def numbers(self, units: Iterable[str]) -> list[int]:
        """Return the numbers of units."""
        return [self._index[unit] for unit in units]

    def assignment(self, raised: Mapping[str, Placement]) -> Assignment:
        """Return the levels of a plan that raises some units."""
        levels = [0] * len(self.units)
        for unit, placement in raised.items():
            for part in self.space.parts(unit):
                index = self._index[part]
                levels[index] = self.problem.choices[index].index(self.places.index(placement))
        return tuple(levels)

    def raised(self, assignment: Assignment) -> dict[str, Placement]:
        """Return the units above their lowest level, with their placements."""
        return {
            self.name(index): self.places[self.problem.choices[index][level]]
            for index, level in enumerate(assignment)
            if level
        }

    def name(self, number: int) -> str:
        """Return the unit of the space that a number is, or is a part of."""
        unit = self.units[number]
        return self.space.bundle_of.get(unit, unit)


def price_space(space: Space, model: CostModel, demands: Demands | None = None, migrates: bool = False) -> PricedSpace:
    """Return the placement problem of a search space; raise CostError when nothing prices some placement.

    With `migrates` units without fault may leave the low target where that is cheaper.
    """
    units = model.wiring.order
    number = {unit: index for index, unit in enumerate(units)} | {WORLD: OUTSIDE}
    ladders = [placements_of(space, unit) for unit in units]
    places = tuple(dict.fromkeys((OUTSIDE_PLACE, *(place for ladder in ladders for place in ladder))))
    place_number = {place: index for index, place in enumerate(places)}
    targets = list(dict.fromkeys(place.target for place in places))
    members = model.units.by_name
    problem = Problem(
        choices=tuple(tuple(place_number[place] for place in ladder) for ladder in ladders),
        cost_ns=tuple(
            tuple(model.unit_figure(members[unit], place).latency_ns for place in ladder)
            for unit, ladder in zip(units, ladders, strict=True)
        ),
        wires=tuple(
            _wire(wire, model, _Numbering(number, dict(zip(units, ladders, strict=True)), place_number))
            for wire in model.wiring.wires
        ),
        target_of=tuple(targets.index(place.target) for place in places),
        home=place_number[OUTSIDE_PLACE],
        switch_ns=model.switch.latency_ns,
        weight_bytes=tuple(
            tuple(model.weight_bytes(members[unit], place) for place in ladder)
            for unit, ladder in zip(units, ladders, strict=True)
        ),
        demands=demands or Demands(),
        migrates=migrates,
    )
    return PricedSpace(space, units, places, problem)


def placements_of(space: Space, unit: str) -> tuple[Placement, ...]:
    """Return where a unit can be, lowest first; what cannot be low stays where the base plan has it."""
    whole = space.bundle_of.get(unit, unit)
    if whole in space.units:
        return (space.low, *space.ladders[whole])
    return (space.base.placement(unit),)


@dataclass(frozen=True, slots=True)
class _Numbering:
    """Numbers of units and places, and where each unit can be."""

    unit: Mapping[str, int]
    ladders: Mapping[str, tuple[Placement, ...]]
    place: Mapping[Placement, int]


def _wire(wire: Wire, model: CostModel, numbers: _Numbering) -> PricedWire:
    starts = (OUTSIDE_PLACE,) if wire.producer == WORLD else numbers.ladders[wire.producer]
    ends = dict.fromkeys(
        place for unit in wire.consumers for place in ((OUTSIDE_PLACE,) if unit == WORLD else numbers.ladders[unit])
    )
    cost: dict[tuple[int, int], float] = {}
    crossing: dict[tuple[int, int], int] = {}
    for start in starts:
        for end in ends:
            boundary = model.boundary(wire.tensor, start, end)
            if boundary is not None:
                pair = numbers.place[start], numbers.place[end]
                cost[pair] = boundary.figure.latency_ns
                if boundary.transfer_bytes:
                    crossing[pair] = boundary.transfer_bytes
    return PricedWire(numbers.unit[wire.producer], tuple(numbers.unit[unit] for unit in wire.consumers), cost, crossing)
