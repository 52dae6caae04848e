"""Equalisation: scale channels so that one scale per tensor fits all of them, and undo it where they are read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import PlanError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.passes.draft import Draft
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.ranges import Range
from dovetail.quantize.statistics import ChannelPower, Statistics
from dovetail.repair.base import Cause, Exactness, RepairBasis
from dovetail.repair.scales import STEPS_PER_OCTAVE, ScaleSolver, Weighing
from dovetail.repair.ties import find_ties
from dovetail.repair.weights import WeightView, store_weights, weight_view


@dataclass(frozen=True, slots=True)
class Equalise:
    """Equalise the ranges of channels through whatever passes them on; what a clip cuts off stays.

    A record has the scale of every channel by tensor, in steps of 2^(1/16).
    """

    kind: str = "equalise"
    stored: float = 0.0
    """How much the ranges of stored tensors count beside those of weights."""
    clips: bool = True
    """Go through clips too, where a channel stays below them on data."""

    @property
    def exactness(self) -> Exactness:
        """Return the claim: another sample may reach a clip that the calibration did not reach."""
        return Exactness.ON_DATA if self.clips else Exactness.EXACT

    @property
    def heals(self) -> tuple[Cause, ...]:
        """Return what it can do something about: activations only where their ranges are looked at."""
        return (Cause.WEIGHTS, Cause.ACTIVATIONS) if self.stored else (Cause.WEIGHTS,)

    def find(self, evidence: RepairBasis) -> RepairRecord | None:
        """Return the scales of the channels between weighted nodes."""
        ties = find_ties(evidence.graph)
        for clamp in () if self.clips else ties.clamps:
            ties.pinned[ties.of(clamp.tensor)] |= math.isfinite(clamp.high) or clamp.low != 0
        solver = ScaleSolver(ties, evidence.statistics)
        scales = solver.solve(Weighing(0.0 if evidence.per_channel else 1.0, 1.0, self.stored))
        steps = np.rint(scales * STEPS_PER_OCTAVE).astype(np.int64)
        tensors = dict.fromkeys(name for view in ties.views for name in (view.node.inputs[0], view.node.outputs[0]))
        found = {name: tuple(steps[ties.of(name)].tolist()) for name in tensors}
        channels = {name: numbers for name, numbers in found.items() if any(numbers)}
        return RepairRecord(self.kind, channels) if channels else None

    def carry(self, graph: Graph, calibration: Calibration, record: RepairRecord) -> Calibration:
        """Return the calibration with every tensor of a scaled class divided by its scale."""
        ties = find_ties(graph)
        scales = np.zeros(ties.count)
        for name, steps in record.channels.items():
            scales[ties.of(name)] = np.asarray(steps) / STEPS_PER_OCTAVE
        moved = {name for name in ties.first if scales[ties.of(name)].any()}
        ranges, powers = dict(calibration.ranges.tensors), dict(calibration.statistics.tensors)
        for name in moved & powers.keys():
            before = powers[name]
            powers[name] = tuple(_divided(item, np.exp2(scales[ties.of(name)])) for item in before)
            if name in ranges and before:
                ranges[name] = _range(ranges[name], before, powers[name])
        return replace(
            calibration,
            ranges=replace(calibration.ranges, tensors=ranges),
            statistics=Statistics(powers),
        )

    def apply(self, graph: Graph, record: RepairRecord) -> Graph:
        """Return the graph with scaled weights; raise PlanError when the record does not fit it."""
        draft = Draft.of(graph)
        for node in graph.nodes:
            made, read = (record.channels.get(name) for name in (node.outputs[0], *node.inputs[:1]))
            if made is None and read is None:
                continue
            view = weight_view(graph, node)
            if view is not None:
                store_weights(draft, _scaled(view, _factors(made, view.outputs), _factors(read, view.inputs)))
        return draft.graph()


def _factors(steps: tuple[int, ...] | None, count: int) -> AnyArray:
    if steps is None:
        return np.ones(count)
    if len(steps) != count or max(map(abs, steps)) > 1024:
        raise PlanError(f"an equalisation has {len(steps)} scales for {count} channels.", hint="Repair this model.")
    factors: AnyArray = np.exp2(np.asarray(steps) / STEPS_PER_OCTAVE)
    return factors


def _divided(power: ChannelPower, factors: AnyArray) -> ChannelPower:
    """Return the figures of a scaled tensor; along another axis than the channels' they are left."""
    if power.axis != 1 or len(power.mean) != len(factors):
        return power
    return replace(
        power,
        mean_square=power.mean_square / factors**2,
        mean=power.mean / factors,
        low=power.low / factors,
        high=power.high / factors,
    )


def _range(limits: Range, before: tuple[ChannelPower, ...], after: tuple[ChannelPower, ...]) -> Range:
    """Return a range that moves as the extremes of the channels do."""
    old, new = before[0], after[0]
    return Range(
        _moved(limits.low, float(old.low.min()), float(new.low.min())),
        _moved(limits.high, float(old.high.max()), float(new.high.max())),
    )


def _moved(limit: float, extreme: float, moved: float) -> float:
    return limit * moved / extreme if extreme * limit > 0 else limit


def _scaled(view: WeightView, made: AnyArray, read: AnyArray) -> WeightView:
    groups, outputs, inputs, _ = view.values.shape
    values = view.values / made.reshape(groups, outputs, 1, 1) * read.reshape(groups, 1, inputs, 1)
    return replace(view, values=values, bias=None if view.bias is None else view.bias / made)
