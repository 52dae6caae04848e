"""What a repair is: a frozen value that finds its sites in a graph, records them, and applies a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dovetail.ir.graph import Graph
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.ranges import Range
from dovetail.quantize.statistics import Statistics


class Exactness(Enum):
    """What becomes of the function that the float graph computes."""

    EXACT = "exact"
    """It stays."""
    ON_DATA = "exact on data"
    """It stays on the samples of the calibration."""
    QUANTISED = "changes what is quantised"
    """The float graph stays; what is quantised of it becomes another function on purpose."""


class Cause(Enum):
    """What loses accuracy when it is rounded."""

    WEIGHTS = "weights"
    ACTIVATIONS = "activations"


@dataclass(frozen=True, slots=True)
class RepairBasis:
    """What a repair goes by: the graph, what was measured of its tensors, and whether weights have channel scales."""

    graph: Graph
    statistics: Statistics
    per_channel: bool
    """The low precision has a scale for each output channel of weights."""
    raised: frozenset[str] = frozenset()
    """Nodes that have to be raised else: those that a repair which costs latency may spare."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """The range in which every tensor is stored."""
    needed: Mapping[str, Range] = field(default_factory=dict)
    """What is needed of the ranges of outputs, where that is less than all."""
    gates: Sequence[str] = ()
    """Tensors whose gates are to be freed."""


class Repair(Protocol):
    """A remedy that needs no more bits."""

    @property
    def kind(self) -> str:
        """Return the name that records, reports and options give."""

    @property
    def exactness(self) -> Exactness:
        """Return what it claims of the float graph; the claim is checked wherever it is used."""

    @property
    def heals(self) -> tuple[Cause, ...]:
        """Return what it can do something about."""

    def find(self, evidence: RepairBasis) -> RepairRecord | None:
        """Return where it applies and how; None where it finds nothing to do."""

    def carry(self, graph: Graph, calibration: Calibration, record: RepairRecord) -> Calibration:
        """Return what calibration would find of the repaired graph, but for its digest, given that of the graph."""

    def apply(self, graph: Graph, record: RepairRecord) -> Graph:
        """Return the graph with a record applied; raise PlanError when the record is of another graph."""
