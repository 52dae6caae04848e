"""The prior: how much of every unit's signal 8 bits would turn into noise, from one float pass.

Noise of a uniform quantiser is scale^2 / 12; a channel whose mean square is not far above it is lost, however well the
tensor as a whole does. Pooled figures mislead when one tensor holds boxes in pixels and scores in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import Role, input_roles, weight_layout
from dovetail.plan.units import Unit, clamp_host
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.parameters import choose_quantization, choose_weight_quantization
from dovetail.search.policy import PriorPolicy
from dovetail.search.space import Space


@dataclass(frozen=True, slots=True)
class UnitPrior:
    """How likely a unit breaks at low precision (higher is worse), and why."""

    unit: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class _NoiseShare:
    """Share of the signal that is noise in the worst channel and on average, both in 0..1."""

    worst: float
    mean: float
    text: str

    @property
    def score(self) -> float:
        return self.worst + self.mean


def rank_units(space: Space, calibration: Calibration, policy: PriorPolicy) -> list[UnitPrior]:
    """Return the prior of every unit, worst first; ties keep the order of the graph."""
    tensors: dict[str, _NoiseShare] = {}
    priors = [_unit_prior(_Facts(space, calibration, policy), unit, tensors) for unit in space.units.values()]
    return sorted(priors, key=lambda item: -item.score)


@dataclass(frozen=True, slots=True)
class _Facts:
    space: Space
    calibration: Calibration
    policy: PriorPolicy


def _unit_prior(facts: _Facts, unit: Unit, tensors: dict[str, _NoiseShare]) -> UnitPrior:
    graph, precision = facts.space.graph, facts.space.low.precision
    shares: list[_NoiseShare] = []
    extra = 0.0
    for node in (graph.node(name) for name in unit.nodes):
        for tensor in _data_tensors(graph, node):
            if tensor not in tensors:
                tensors[tensor] = _tensor_noise(tensor, precision.activation, facts.calibration)
            shares.append(tensors[tensor])
        shares.extend(_weight_noise(graph, node, precision))
        shares.extend(_joined_noise(node, facts))
        extra += facts.policy.operators.get(node.op, 0.0) if not node.domain else 0.0
    worst = max(shares, key=lambda share: share.score, default=_NoiseShare(0.0, 0.0, "computes no real tensor"))
    return UnitPrior(unit.name, worst.score + extra, worst.text)


def _tensor_noise(tensor: str, form: NumberFormat, calibration: Calibration) -> _NoiseShare:
    """Return how much of a tensor's channels the quantiser of a format loses in noise."""
    limits = calibration.ranges.tensors.get(tensor)
    if limits is None or not form.dtype.is_integer:
        return _NoiseShare(0.0, 0.0, f"tensor '{tensor}' is not quantised")
    scale = choose_quantization(limits, form).scale[0]
    worst = _NoiseShare(0.0, 0.0, f"tensor '{tensor}' keeps its channels apart (step {scale:.3g})")
    for power in calibration.statistics.tensors.get(tensor, ()):
        lost = _noise_shares(np.full(len(power.mean_square), scale), power.mean_square)
        if lost.size and lost.max() + lost.mean() > worst.score:
            channel = int(lost.argmax())
            rms = math.sqrt(power.mean_square[channel])
            text = (
                f"tensor '{tensor}' spans [{limits.low:.3g}, {limits.high:.3g}], step {scale:.3g}, "
                f"but index {channel} of axis {power.axis} has an RMS of {rms:.2g}"
            )
            worst = _NoiseShare(float(lost.max()), float(lost.mean()), text)
    return worst


def _noise_shares(scales: AnyArray, mean_square: AnyArray) -> AnyArray:
    """Return per channel noise / (noise + signal) for the live channels: 0 is clean, 1 is lost."""
    noise = scales**2 / 12
    live = mean_square > 0
    share: AnyArray = noise[live] / (noise[live] + mean_square[live])
    padded = np.zeros(len(mean_square))
    padded[live] = share
    return padded


def _weight_noise(graph: Graph, node: Node, precision: Precision) -> list[_NoiseShare]:
    layout = weight_layout(graph, node)
    if layout is None or not precision.weight.dtype.is_integer:
        return []
    weight = graph.constants[node.inputs[layout.weight]].astype(np.float64)
    axis = layout.channel_axis
    if not 0 <= axis < weight.ndim or not np.isfinite(weight).all():
        return []
    scales = np.asarray(choose_weight_quantization(weight, precision.weight, axis).scale)
    others = tuple(item for item in range(weight.ndim) if item != axis)
    mean_square = np.square(weight).mean(axis=others)
    lost = _noise_shares(np.broadcast_to(scales, mean_square.shape), mean_square)
    channel = int(lost.argmax()) if lost.size else 0
    text = f"weights of {node.label}: output channel {channel} is far below the largest"
    return [_NoiseShare(float(lost.max(initial=0.0)), float(lost.mean()) if lost.size else 0.0, text)]


def _joined_noise(node: Node, facts: _Facts) -> list[_NoiseShare]:
    """Return what a Concat loses whose inputs' ranges are too far apart for one scale."""
    if node.op != "Concat" or node.domain:
        return []
    spans: Mapping[str, float] = {
        name: max(abs(limits.low), abs(limits.high))
        for name in node.inputs
        if (limits := facts.calibration.ranges.tensors.get(name)) is not None
    }
    live = {name: span for name, span in spans.items() if span > 0}
    if len(live) < 2:
        return []
    wide, narrow = max(live, key=live.__getitem__), min(live, key=live.__getitem__)
    ratio = live[wide] / live[narrow]
    if ratio <= facts.policy.concat_ratio:
        return []
    text = (
        f"{node.label} joins '{wide}' (up to {live[wide]:.3g}) with '{narrow}' (up to {live[narrow]:.3g}): "
        f"one scale for ranges {ratio:.0f} times apart"
    )
    return [_NoiseShare(1.0, 1.0 - 1.0 / ratio, text)]


def _data_tensors(graph: Graph, node: Node) -> list[str]:
    roles = input_roles(graph, node)
    inputs = [name for name, role in zip(node.inputs, roles, strict=True) if role is Role.DATA]
    if clamp_host(graph, node) is not None:
        inputs = []  # A clamped tensor is stored at the range of the clamp.
    outputs = [name for name in node.outputs if name and graph.types[name].holds_reals]
    outputs = [name for name in outputs if not any(clamp_host(graph, user) for user in graph.consumers.get(name, ()))]
    return [name for name in (*inputs, *outputs) if name not in graph.constants]
