"""Tighter ranges: a tensor of which only a part is told apart further on is stored in that part.

A score of -700 decides what a score of -10 does, and a box where nothing is detected decides nothing; a sigmoid gives
the same byte from 8 on, HardSwish is 0 below -3. What lies beyond is stored as the nearest end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dovetail.errors import PlanError
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.ranges import Range
from dovetail.repair.base import Cause, Exactness, RepairBasis
from dovetail.repair.saturation import told_apart

_LEAST_GAIN = 1.5
"""Times by which a range has to be wider than what is needed of it: 0.6 bits."""
_MANTISSA = 20
"""Bits of the numbers of a record."""

_MOVING = frozenset(
    {
        *("Concat", "Dropout", "Flatten", "GlobalMaxPool", "Identity", "MaxPool"),
        *("Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    }
)
"""Operators whose outputs hold values of their data input, or of all inputs, as they are."""


@dataclass(frozen=True, slots=True)
class TightenRanges:
    """Store tensors in the part of their range that is told apart further on.

    A record has, by tensor, two whole numbers and a power of two: the range is both times the power.
    """

    kind: str = "tighten-ranges"

    @property
    def exactness(self) -> Exactness:
        """Return the claim."""
        return Exactness.QUANTISED

    @property
    def heals(self) -> tuple[Cause, ...]:
        """Return what it can do something about."""
        return (Cause.ACTIVATIONS,)

    def find(self, evidence: RepairBasis) -> RepairRecord | None:
        """Return the tensors that are stored in wider ranges than is needed, with what is."""
        needed = _needed(evidence.graph, evidence.needed)
        found: dict[str, tuple[int, ...]] = {}
        for name in needed:
            stored = evidence.ranges.get(name)
            if stored is not None and _gains(stored, needed[name]):
                found[name] = _record(_common(stored, needed[name]))
        return RepairRecord(self.kind, found) if found else None

    def carry(self, graph: Graph, calibration: Calibration, record: RepairRecord) -> Calibration:
        """Return the calibration with the ranges of the record."""
        ranges = dict(calibration.ranges.tensors)
        for name, numbers in record.channels.items():
            if name in ranges:
                ranges[name] = _common(ranges[name], _range(numbers))
        return replace(calibration, ranges=replace(calibration.ranges, tensors=ranges))

    def apply(self, graph: Graph, record: RepairRecord) -> Graph:
        """Return the graph as it is; raise PlanError when the record does not fit it."""
        for name, numbers in record.channels.items():
            if name not in graph.types:
                raise PlanError(
                    f"a repair tightens tensor '{name}', which the graph has not.", hint="Repair this model."
                )
            _range(numbers)
        return graph


def _needed(graph: Graph, outputs: Mapping[str, Range]) -> dict[str, Range]:
    """Return the ranges that are needed of tensors, where less than everything is."""
    needed: dict[str, Range] = {}
    captured = {name for node in graph.nodes for body in node.bodies() for name in body.captures}
    for tensor in reversed([name for node in graph.nodes for name in node.outputs if name]):
        if tensor in captured or (tensor in graph.outputs and tensor not in outputs):
            continue
        parts = [_asked(graph, node, tensor, needed) for node in graph.consumers.get(tensor, ())]
        parts += [outputs[tensor]] if tensor in graph.outputs else []
        known = [part for part in parts if part is not None]
        if known and len(known) == len(parts):
            needed[tensor] = Range(min(part.low for part in known), max(part.high for part in known))
    return needed


def _asked(graph: Graph, node: Node, tensor: str, needed: Mapping[str, Range]) -> Range | None:
    """Return what a node needs to know of what it reads; None for everything."""
    anywhere = node.op in ("Concat", "Mul")
    if node.domain or (not anywhere and node.inputs.count(tensor) + (node.inputs[0] == tensor) != 2):
        return None
    made = [name for name in node.outputs if name]
    if node.op in _MOVING:
        parts = [needed[name] for name in made if name in needed]
        if not parts or len(parts) < len(made):
            return None
        return Range(min(part.low for part in parts), max(part.high for part in parts))
    return told_apart(graph, node, tensor, needed)


def _gains(stored: Range, needed: Range) -> bool:
    """Tell whether a tensor is stored in a range that is much wider than what is needed of it."""
    common = _common(stored, needed)
    return common.high - common.low > 0 and stored.high - stored.low >= _LEAST_GAIN * (common.high - common.low)


def _common(stored: Range, needed: Range) -> Range:
    """Return the part that two ranges share; the first where they share none."""
    low, high = max(stored.low, needed.low), min(stored.high, needed.high)
    return Range(low, high) if low < high else stored


def _record(limits: Range) -> tuple[int, ...]:
    exponent = math.frexp(max(abs(limits.low), abs(limits.high)))[1] - _MANTISSA
    return math.floor(math.ldexp(limits.low, -exponent)), math.ceil(math.ldexp(limits.high, -exponent)), exponent


def _range(numbers: tuple[int, ...]) -> Range:
    if len(numbers) != 3 or not numbers[0] < numbers[1] or abs(numbers[2]) > 1000:
        raise PlanError("a tightened range is two whole numbers and a power of two.", hint="Repair this model.")
    return Range(math.ldexp(numbers[0], numbers[2]), math.ldexp(numbers[1], numbers[2]))
