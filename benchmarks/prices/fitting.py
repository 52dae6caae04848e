"""Coefficients for what the vendor's model said of generated operators, and how far they are off on others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import dovetail
from dovetail.backend.fitted import FittedForm
from dovetail.backend.target import HardwareFacts, TargetProfile
from dovetail.cost.features import (
    COMPUTE,
    CONVERSION,
    EXTRA,
    FEATURES,
    FIXED,
    PORTS,
    SHARPNESS,
    TRAFFIC,
    Features,
    conversion_values,
    kinds_of,
)
from dovetail.cost.fitted import precision_of_conversions
from dovetail.cost.roofline import FREE, NpuRoofline
from dovetail.cost.sizes import Sizer
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.units import clamp_host
from prices.probes import MIXED, Probe, conversions_of, rows_of

_FEWEST = 12
"""Kinds of which fewer operators were probed go by the plain roofline."""
_FOLDS = 5
_LEAST, _MOST = 1e-6, 1e6
_START, _START_FIXED = 0.3, 1000.0
_PULL = 0.01
"""Weight of each coefficient's start: what the operators do not tell stays near it."""
_OUTLIER = 0.2
"""Relative errors beyond count with their size, not its square."""
WORST = 0.5
"""A form that is off by more than this on half of what it had not seen and more than the plain roofline is, is none."""
SMALL = "small"
"""How kinds begin that make few elements; theirs is always a form, as the roofline knows no cost that is fixed."""
_JOINED = 0.5
"""Kinds of which more than this share has no time of its own are free."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Operator:
    """One probed operator: its kind, quantities and cycles; operators of one network are never on two sides."""

    network: str
    target: str
    kind: str
    precision: Precision
    values: Mapping[str, float]
    cycles: int
    plain: float
    """Cycles by the plain roofline."""


def operators_of(graph: Graph, probe: Probe) -> Iterator[Operator]:
    """Return the operators of a probe; a clamp counts with what it clamps.

    Where a plan mixes precisions only the conversions count.
    """
    place = dovetail.parse_placement(probe.place.partition(MIXED)[0])
    target = dovetail.find_target(place.target)
    assert isinstance(target, TargetProfile)
    assert target.hardware is not None
    if MIXED in probe.place:
        yield from _conversions(graph, probe, target.name, target.hardware)
        return
    sizer, rows = Sizer(graph), rows_of(graph, probe)
    roofline = NpuRoofline(target, target.hardware, sizer)
    clamps: dict[str, int] = {}
    for node in graph.nodes:
        host = clamp_host(graph, node)
        if host is not None and node.name in rows:
            clamps[host.name] = clamps.get(host.name, 0) + rows[node.name].cycles
    for node in graph.nodes:
        if node.name not in rows or node.op in FREE or clamp_host(graph, node) is not None:
            continue
        if rows[node.name].stated and sizer.macs(graph, node):
            # The model has no record of this product: what stands there is our own rate.
            continue
        values = Features(graph, node, place.precision, target.hardware, sizer).values()
        kind, *_ = kinds_of(graph, node, place.precision)
        cycles = rows[node.name].cycles + clamps.get(node.name, 0)
        plain = roofline.latency(graph, [node], place.target, place.precision)
        plain_cycles = 0.0 if plain is None else plain.latency_ns * target.hardware.clock_hz / 1e9
        yield Operator(probe.name, place.target, kind, place.precision, values, cycles, plain_cycles)


def _conversions(graph: Graph, probe: Probe, target: str, facts: HardwareFacts) -> Iterator[Operator]:
    for item in conversions_of(graph, probe):
        precision, values = precision_of_conversions(item.precision), conversion_values(item.elements, facts)
        yield Operator(probe.name, target, CONVERSION, precision, values, item.cycles, 0.0)


def fit_kind(operators: Sequence[Operator]) -> FittedForm | None:
    """Return the form of operators of one kind, precision and part; None where they are too few."""
    timed = [item for item in operators if item.cycles]
    if len(operators) >= _FEWEST and len(timed) < (1.0 - _JOINED) * len(operators):
        return FittedForm({}, len(operators), 0.0, 0.0)
    if len(timed) < _FEWEST:
        return None
    table, measured = _table(timed), np.array([item.cycles for item in timed], float)
    networks = {name: index for index, name in enumerate(dict.fromkeys(item.network for item in timed))}
    folds = np.array([networks[item.network] % _FOLDS for item in timed])
    errors = np.concatenate(
        [
            np.abs(_modelled(_solve(table[folds != fold], measured[folds != fold]), table[folds == fold]) - own) / own
            for fold in range(_FOLDS)
            if (own := measured[folds == fold]).size
        ]
    )
    plain = np.median([abs(item.plain - item.cycles) / item.cycles for item in timed])
    if np.median(errors) > max(WORST, plain) and not timed[0].kind.startswith(SMALL):
        return None
    found = _solve(table, measured)
    # Digits beyond the third say nothing, and a coefficient of a quantity that never occurred is none.
    kept = {
        name: float(f"{value:.3g}")
        for name, value, column in zip(FEATURES, found, table.T, strict=True)
        if column.any() and value > 10 * _LEAST
    }
    return FittedForm(kept, len(timed), float(np.median(errors)), float(np.quantile(errors, 0.9)))


def group(operators: Iterable[Operator]) -> dict[tuple[str, str, Precision], list[Operator]]:
    """Return operators by part, kind and precision."""
    found: dict[tuple[str, str, Precision], list[Operator]] = {}
    for item in operators:
        found.setdefault((item.target, item.kind, item.precision), []).append(item)
    return found


def _table(operators: Sequence[Operator]) -> Floats:
    return np.array([[item.values.get(name, 0.0) for name in FEATURES] for item in operators])


def _solve(table: Floats, measured: Floats) -> Floats:
    """Return the coefficients, none negative, with the least relative error; they are sought by their logarithms."""
    start = np.log(np.where(np.array(FEATURES) == FIXED, _START_FIXED, _START))

    def residuals(logs: Floats) -> Floats:
        return np.concatenate([np.log(_modelled(np.exp(logs), table) / measured), _PULL * (logs - start)])

    bounds = (np.log(_LEAST), np.log(_MOST))
    found = least_squares(residuals, start, bounds=bounds, loss="soft_l1", f_scale=_OUTLIER, max_nfev=200)
    return np.exp(found.x)


def _modelled(coefficients: Floats, table: Floats) -> Floats:
    """Return the cycles of all rows: the function of `dovetail.cost.features`, for many operators at once."""

    def total(names: Sequence[str]) -> Floats:
        columns = [FEATURES.index(name) for name in names]
        return table[:, columns] @ coefficients[columns]

    slowest = sum(total(names) ** SHARPNESS for names in (COMPUTE, PORTS, TRAFFIC))
    return np.asarray(slowest ** (1.0 / SHARPNESS) + total((*EXTRA, FIXED)))
