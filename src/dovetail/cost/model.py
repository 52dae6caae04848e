"""The cost model: prices units, boundaries and switches from the best source that knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.backend.costs import CostSource, Figure, Quality
from dovetail.backend.profiles.hosts import HostFacts, host_beside
from dovetail.backend.registry import available_backends
from dovetail.backend.target import Target, TargetProfile
from dovetail.cost.fitted import FittedRoofline
from dovetail.cost.memory import estimate_memory
from dovetail.cost.record import BoundaryCost, PlanCost, UnitCost
from dovetail.cost.roofline import HostRoofline, NpuRoofline
from dovetail.cost.sizes import Sizer, element_count, stored_bytes
from dovetail.cost.table import CostTable
from dovetail.cost.wiring import WORLD, Wiring, wire_units
from dovetail.errors import CostError
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Plan
from dovetail.plan.units import Unit, Units

OUTSIDE = Placement(HOST, Precision.FP32)
"""Where graph inputs come from and graph outputs go to."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Price placements of the units of one graph; figures are kept once they are made."""

    graph: Graph
    units: Units
    wiring: Wiring
    sources: tuple[CostSource, ...]
    npus: Mapping[str, NpuRoofline]
    fitted: Mapping[str, FittedRoofline]
    host: HostRoofline
    sizer: Sizer
    _kept: dict[tuple[str, Placement], Figure] = field(default_factory=dict, repr=False)
    _rows: dict[tuple[str, Placement], UnitCost] = field(default_factory=dict, repr=False)

    @property
    def switch(self) -> Figure:
        """Return what one more partition costs on top of its work."""
        facts = self.host.facts
        return Figure(facts.switch_ns, Quality.ROOFLINE, facts.source)

    def unit_figure(self, unit: Unit, placement: Placement) -> Figure:
        """Return what a unit takes at a placement; raise CostError when no source knows."""
        key = unit.name, placement
        if key not in self._kept:
            self._kept[key] = self._price(unit, placement)
        return self._kept[key]

    def _price(self, unit: Unit, placement: Placement) -> Figure:
        nodes = [self.graph.node(name) for name in unit.nodes]
        for source in self.sources:
            figure = source.latency(self.graph, nodes, placement.target, placement.precision)
            if figure is not None:
                return figure
        raise CostError(
            f"{nodes[0].label}: nothing prices it at {placement}.",
            hint="Give a table of measured latencies, or place it elsewhere.",
            option="costs",
        )

    def boundary(self, tensor: str, producer: Placement, consumer: Placement) -> BoundaryCost | None:
        """Return what it takes to bring a tensor from one placement to another; None when it is there already.

        As the quantiser does: converted where both are, else on the CPU, so that the narrow format crosses.
        """
        crosses = producer.target != consumer.target
        real = self.graph.types[tensor].holds_reals
        converts = real and producer.precision.activation.key != consumer.precision.activation.key
        if not crosses and not converts:
            return None
        sizes = [stored_bytes(self.graph, tensor, place.precision) for place in (producer, consumer)]
        latency_ns, origins = 0.0, dict[str, None]()
        quality = Quality.ROOFLINE
        if converts:
            figure = self._convert(tensor, producer, consumer, sum(sizes))
            latency_ns, quality = figure.latency_ns, figure.quality
            origins[figure.source] = None
        moved = self._crossing_bytes(producer, consumer, sizes) if crosses else 0
        if crosses:
            latency_ns, quality = latency_ns + moved / self.host.facts.link_bytes_per_s * 1e9, Quality.ROOFLINE
            origins[self.host.facts.source] = None
        return BoundaryCost(tensor, producer, consumer, moved, Figure(latency_ns, quality, "; ".join(origins)))

    def _convert(self, tensor: str, producer: Placement, consumer: Placement, moved: int) -> Figure:
        elements = element_count(self.graph, tensor)
        on_cpu = HOST in (producer.target, consumer.target)
        target = "" if on_cpu and producer.target != consumer.target else consumer.target
        # Between integers a conversion is a kind of work of its own; what makes floats of them is a shader's.
        stored = producer.precision.is_quantized and consumer.precision.is_quantized
        fitted = self.fitted.get(target) if stored else None
        known = None if fitted is None else fitted.conversion(elements, consumer.precision)
        return known or self.npus.get(target, self.host).conversion(elements, moved)

    def _crossing_bytes(self, producer: Placement, consumer: Placement, sizes: Sequence[int]) -> int:
        if producer.target == HOST:
            return sizes[1]
        return sizes[0]

    def plan_cost(self, plan: Plan) -> PlanCost:
        """Return what a plan of this graph costs; raise CostError when it splits a unit or nothing prices a unit."""
        plan.check(self.graph)
        places = {unit.name: self._place(unit, plan) for unit in self.units.items}
        rows = tuple(self.unit_cost(unit, places[unit.name]) for unit in self.units.items)
        boundaries = tuple(self._boundaries(places))
        count = self.wiring.partition_count({name: place.target for name, place in places.items()})
        of_node = {node: places[unit.name] for unit in self.units.items for node in unit.nodes}
        copies = sum(item.transfer_bytes for item in boundaries)
        memory = estimate_memory(self.graph, of_node, self._weights(places), copies)
        return PlanCost(rows, boundaries, count, self.switch, memory)

    def _weights(self, places: Mapping[str, Placement]) -> dict[str, int]:
        weights: dict[str, int] = {}
        for unit in self.units.items:
            place = places[unit.name]
            weights[place.target] = weights.get(place.target, 0) + self.weight_bytes(unit, place)
        return weights

    def weight_bytes(self, unit: Unit, placement: Placement) -> int:
        """Return the bytes of a unit's constants at a placement."""
        nodes = [self.graph.node(name) for name in unit.nodes]
        return self.sizer.traffic(nodes, placement.precision).constant_bytes

    def _place(self, unit: Unit, plan: Plan) -> Placement:
        places = {plan.placement(name) for name in unit.nodes}
        if len(places) > 1:
            raise CostError(f"unit '{unit.name}' is split between {', '.join(sorted(map(str, places)))}.")
        return places.pop()

    def unit_cost(self, unit: Unit, placement: Placement) -> UnitCost:
        """Return what a unit takes at a placement, with its work and traffic; raise CostError when no source knows."""
        key = unit.name, placement
        if key not in self._rows:
            nodes = [self.graph.node(name) for name in unit.nodes]
            self._rows[key] = UnitCost(
                unit=unit.name,
                nodes=unit.nodes,
                op="+".join(dict.fromkeys(node.op for node in nodes)),
                placement=placement,
                macs=sum(self.sizer.macs(self.graph, node) for node in nodes),
                moved_bytes=self.sizer.traffic(nodes, placement.precision).total_bytes,
                figure=self.unit_figure(unit, placement),
            )
        return self._rows[key]

    def _boundaries(self, places: Mapping[str, Placement]) -> list[BoundaryCost]:
        boundaries: list[BoundaryCost] = []
        for wire in self.wiring.wires:
            producer = OUTSIDE if wire.producer == WORLD else places[wire.producer]
            wanted = dict.fromkeys(OUTSIDE if name == WORLD else places[name] for name in wire.consumers)
            priced = (self.boundary(wire.tensor, producer, consumer) for consumer in wanted)
            boundaries.extend(item for item in priced if item is not None)
        return boundaries


def make_cost_model(
    graph: Graph,
    units: Units,
    targets: Sequence[Target],
    extra: Sequence[CostSource] = (),
    host: HostFacts | None = None,
) -> CostModel:
    """Return the cost model of a graph: `extra` sources first, then what backends offer, then rooflines,
    those that were fitted to a vendor's model first.

    `host` None takes the CPU that shares a chip with the first NPU among the targets.
    """
    sizer = Sizer(graph)
    npus = {
        target.name: NpuRoofline(target, target.hardware, sizer)
        for target in targets
        if isinstance(target, TargetProfile) and target.hardware is not None
    }
    facts = _measured(host or host_beside(next(iter(npus), "")), extra)
    offered = [
        source
        for one in available_backends()
        if (cost_sources := one.abilities().cost_sources) is not None
        for source in cost_sources()
    ]
    fallback = HostRoofline(HOST, facts, sizer)
    fitted = {
        name: FittedRoofline(plain, plain.facts.prices)
        for name, plain in npus.items()
        if plain.facts.prices is not None
    }
    sources = (*extra, *offered, *fitted.values(), *npus.values(), fallback)
    return CostModel(graph, units, wire_units(graph, units), sources, npus, fitted, fallback, sizer)


def _measured(host: HostFacts, extra: Sequence[CostSource]) -> HostFacts:
    """Return the CPU with what the first table measured of switches and of the way between CPU and NPU."""
    for table in extra:
        if not isinstance(table, CostTable) or table.overhead_ns is None:
            continue
        per_s = table.bytes_per_s or host.link_bytes_per_s
        return replace(host, switch_ns=table.overhead_ns, link_bytes_per_s=per_s, source=table.source)
    return host


def units_of_plan(units: Units, plan: Plan) -> Units:
    """Return the units, where those that a plan splits fall apart into their nodes."""
    items: list[Unit] = []
    for unit in units.items:
        if len({plan.placement(name) for name in unit.nodes}) == 1:
            items.append(unit)
        else:
            items.extend(Unit(name, (name,)) for name in unit.nodes)
    return Units(tuple(items))
