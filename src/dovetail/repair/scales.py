"""The scale of every class of channels that brings channels of one tensor to like ranges.

A class with scale s divides what its channels hold by s: rows of weights that make them are divided by s, columns of
weights that read them multiplied. With the ranges r1 of the rows, r2 of the columns and ra of what is stored, least
squares of log-ranges, each against a level of its tensor, gives
log s = (w1 log r1 - w2 log r2 + wa log ra) / (w1 + w2 + wa) up to a constant per tensor.
With w1 = w2 and wa = 0 that is s = sqrt(r1 / r2), cross-layer equalisation (Nagel et al. 2019, arXiv:1906.04721).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.quantize.statistics import Statistics
from dovetail.repair.ties import Ties
from dovetail.repair.weights import WeightView

STEPS_PER_OCTAVE = 16
"""Scales are powers of 2^(1/16): whole numbers in a record, and within 2.2 % of what was asked."""

_SWEEPS = 8
_MOST_OCTAVES = 20.0
_HEADROOM = 0.95
"""Share of a clip's limit that a channel which never reached it may come to."""
_REACHED = 0.999
"""Share of a clip's limit from which a channel counts as clipped."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """How much the ranges of rows, of columns and of stored tensors count."""

    rows: float
    columns: float
    stored: float


@dataclass(frozen=True)
class _Layer:
    """The largest weights of a node by output and input channel, with their classes."""

    peaks: AnyArray
    """log2 of the largest taps `[groups, outputs, inputs]`; -inf where all are 0."""
    rows: AnyArray
    """Classes of the outputs `[groups, outputs]`."""
    columns: AnyArray
    """Classes of the inputs `[groups, inputs]`."""

    @classmethod
    def of(cls, view: WeightView, ties: Ties) -> _Layer:
        """Return the layer of a view."""
        with np.errstate(divide="ignore"):
            peaks = np.log2(np.abs(view.values).max(axis=3))
        groups = view.values.shape[0]
        rows, columns = ties.of(view.node.outputs[0]), ties.of(view.node.inputs[0])
        return cls(peaks, rows.reshape(groups, -1), columns.reshape(groups, -1))


class ScaleSolver:
    """Find the scales of the classes of one graph."""

    def __init__(self, ties: Ties, statistics: Statistics) -> None:
        self._ties = ties
        self._layers = [_Layer.of(view, ties) for view in ties.views]
        self._stored = _stored_peaks(ties, statistics)
        self._lowest, self._held = _clip_bounds(ties, statistics)

    def solve(self, weighing: Weighing) -> AnyArray:
        """Return log2 of the scale of every class; 0 where it has to stay."""
        scales = np.zeros(self._ties.count)
        for _ in range(_SWEEPS):
            for members, layers in self._components:
                wanted = self._wanted(scales, weighing, layers)
                scales[members] = self._settled(wanted[members], members)
        return scales

    @cached_property
    def _components(self) -> list[tuple[AnyArray, list[_Layer]]]:
        """Return the classes of every component that may be scaled, with the layers around it."""
        ties = self._ties
        free = np.unique(ties.components[~ties.pinned])
        around: dict[int, list[_Layer]] = {int(item): [] for item in free}
        for layer in self._layers:
            for item in np.unique(ties.components[np.concatenate([layer.rows.ravel(), layer.columns.ravel()])]):
                if int(item) in around:
                    around[int(item)].append(layer)
        return [(np.flatnonzero(ties.components == item), layers) for item, layers in around.items() if layers]

    def _wanted(self, scales: AnyArray, weighing: Weighing, layers: list[_Layer]) -> AnyArray:
        """Return log2 of the scale that every class would have by itself; NaN where nothing tells."""
        rows, columns = _Mean(self._ties.count), _Mean(self._ties.count)
        for layer in layers:
            scaled = layer.peaks + scales[layer.columns][:, None, :]
            rows.add(layer.rows, scaled.max(axis=2))
            scaled = layer.peaks - scales[layer.rows][:, :, None]
            columns.add(layer.columns, scaled.max(axis=1))
        parts = (rows.value, weighing.rows), (-columns.value, weighing.columns), (self._stored, weighing.stored)
        total, weight = np.zeros(self._ties.count), np.zeros(self._ties.count)
        for value, share in parts:
            known = np.isfinite(value)
            total[known] += share * value[known]
            weight[known] += share
        with np.errstate(invalid="ignore", divide="ignore"):
            wanted: AnyArray = total / weight
        return wanted

    def _settled(self, wanted: AnyArray, members: AnyArray) -> AnyArray:
        """Return scales of one component around 1, within what clips allow, in whole steps."""
        held = self._held[members] | self._ties.pinned[members]
        known = np.isfinite(wanted)
        anchors = known & held if (known & held).any() else known
        centre = float(np.median(wanted[anchors])) if anchors.any() else 0.0
        moved = np.clip(np.where(known, wanted - centre, 0.0), -_MOST_OCTAVES, _MOST_OCTAVES)
        moved = np.maximum(moved, self._lowest[members])
        # Upwards: rounding down could take a channel beyond a clip.
        steps = np.ceil(moved * STEPS_PER_OCTAVE - 1e-9) / STEPS_PER_OCTAVE
        settled: AnyArray = np.where(held, 0.0, steps)
        return settled


class _Mean:
    """The mean of what was added for every class; NaN where nothing was."""

    def __init__(self, count: int) -> None:
        self._sum, self._number = np.zeros(count), np.zeros(count)

    def add(self, classes: AnyArray, values: AnyArray) -> None:
        """Take values of classes; what is not finite is left out."""
        live = np.isfinite(values)
        np.add.at(self._sum, classes[live], values[live])
        np.add.at(self._number, classes[live], 1)

    @property
    def value(self) -> AnyArray:
        """Return the means."""
        with np.errstate(invalid="ignore"):
            mean: AnyArray = self._sum / self._number
        return mean


def _stored_peaks(ties: Ties, statistics: Statistics) -> AnyArray:
    """Return log2 of the largest value of every class that a weighted node reads."""
    largest = np.zeros(ties.count)
    for view in ties.views:
        for tensor in view.node.inputs[:1]:
            span = channel_span(statistics, tensor, ties.counts)
            if span is not None:
                np.maximum.at(largest, ties.of(tensor), np.maximum(-span[0], span[1]))
    with np.errstate(divide="ignore"):
        peaks: AnyArray = np.log2(largest)
    return peaks


def channel_span(statistics: Statistics, tensor: str, counts: Mapping[str, int]) -> tuple[AnyArray, AnyArray] | None:
    """Return the least and the largest value of every channel of a tensor; None where that was not measured."""
    for power in statistics.tensors.get(tensor, ()):
        if power.axis == 1 and len(power.low) == counts.get(tensor):
            return power.low, power.high
    return None


def _clip_bounds(ties: Ties, statistics: Statistics) -> tuple[AnyArray, AnyArray]:
    """Return log2 of the least scale that keeps a class below its clips, and which classes were clipped on data."""
    lowest, held = np.full(ties.count, -_MOST_OCTAVES), np.zeros(ties.count, bool)
    for clamp in ties.clamps:
        classes = ties.of(clamp.tensor)
        span = channel_span(statistics, clamp.tensor, ties.counts)
        if span is None:
            held[classes] = True
            continue
        for values, limit in ((-span[0], -clamp.low), (span[1], clamp.high)):
            if not np.isfinite(limit) or limit == 0:
                continue
            held[classes[values >= _REACHED * limit]] = True
            with np.errstate(divide="ignore"):
                least = np.log2(np.maximum(values, 0) / (_HEADROOM * limit))
            np.maximum.at(lowest, classes, np.maximum(least, -_MOST_OCTAVES))
    return lowest, held
