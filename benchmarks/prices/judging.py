"""Prices without the SDK beside the vendor's own model, unit by unit, on models that no price was fitted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

import dovetail
from dovetail.backend.costs import Quality
from dovetail.backend.target import TargetProfile
from dovetail.cost import make_cost_model
from dovetail.cost.fitted import FittedRoofline
from dovetail.cost.roofline import NpuRoofline
from dovetail.cost.sizes import Sizer
from dovetail.ir import Graph
from dovetail.plan import find_units
from prices.probes import MIXED, Probe, conversions_of, plan_of, rows_of

_BYTES = 3
"""What a conversion reads and writes of an element of 8 bits on the one side and 16 on the other."""
_FEWEST = 5
"""Ranks of fewer units say nothing."""


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """What a unit takes: by the vendor's model, by us without the SDK, and by the plain roofline."""

    unit: str
    vendor_ns: float
    ours_ns: float
    plain_ns: float
    fitted: bool


def unit_prices(graph: Graph, probe: Probe) -> dict[str, UnitPrice]:
    """Return the units of a model that wholly run on the target of a probe."""
    place, plan = dovetail.parse_placement(probe.place), plan_of(graph, probe.place)
    target = dovetail.find_target(place.target)
    assert isinstance(target, TargetProfile)
    assert target.hardware is not None
    plain = NpuRoofline(target, target.hardware, Sizer(graph))
    model = make_cost_model(graph, find_units(graph), [target])
    rows, found = rows_of(graph, probe), dict[str, UnitPrice]()
    for unit in model.units.items:
        nodes = [graph.node(name) for name in unit.nodes]
        vendor_ns = sum(rows[name].latency_ns for name in unit.nodes if name in rows)
        if any(plan.placement(name).target != place.target for name in unit.nodes):
            continue
        ours = model.unit_figure(unit, place)
        base = plain.latency(graph, nodes, place.target, place.precision)
        fitted = ours.quality is Quality.FITTED
        found[unit.name] = UnitPrice(unit.name, vendor_ns, ours.latency_ns, base.latency_ns if base else 0.0, fitted)
    return found


def conversion_prices(graph: Graph, probe: Probe) -> list[UnitPrice]:
    """Return the conversions that the plan of a probe put in between its precisions."""
    target = dovetail.find_target(dovetail.parse_placement(probe.place.partition(MIXED)[0]).target)
    assert isinstance(target, TargetProfile)
    assert target.hardware is not None
    assert target.hardware.prices is not None
    plain = NpuRoofline(target, target.hardware, Sizer(graph))
    fitted, found = FittedRoofline(plain, target.hardware.prices), []
    for item in conversions_of(graph, probe):
        base = plain.conversion(item.elements, item.elements * _BYTES)
        ours = fitted.conversion(item.elements, item.precision) or base
        vendor_ns = item.cycles / target.hardware.clock_hz * 1e9
        is_fitted = ours.quality is Quality.FITTED
        found.append(UnitPrice(probe.name, vendor_ns, ours.latency_ns, base.latency_ns, is_fitted))
    return found


def rank_agreement(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's coefficient; NaN where there is too little to rank."""
    values = np.array(pairs)
    if len(values) < _FEWEST or (values == values[0]).all(axis=0).any():
        return float("nan")
    return float(spearmanr(values[:, 0], values[:, 1])[0])


def increments(low: Mapping[str, UnitPrice], high: Mapping[str, UnitPrice]) -> list[tuple[float, float, float]]:
    """Return what raising each unit adds: by the vendor's model, by us, and by the plain roofline."""
    both = [(low[name], high[name]) for name in low if name in high]
    return [
        (up.vendor_ns - down.vendor_ns, up.ours_ns - down.ours_ns, up.plain_ns - down.plain_ns) for down, up in both
    ]
