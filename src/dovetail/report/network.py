"""The network as a report draws it: units with what is known of each, their edges, and places in layers."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.report.layers import LayeredLayout, layer_units


@dataclass(frozen=True, slots=True)
class NetworkUnit:
    """A unit of a plan; figures are None where they are not known."""

    name: str
    ops: str
    """Operators of its nodes, such as `Conv + Relu`."""
    nodes: tuple[str, ...]
    inputs: tuple[int, ...]
    """Indices of the units that it reads; each comes before it."""
    target: str
    precision: str
    bits: int
    partition: int | None
    role: str
    """`culprit`, `companion`, `refused` for what the low placement does not take, or empty."""
    reason: str
    noise: float | None
    """What is lost in noise at the low precision, 0 for nothing: the prior of the search."""
    noise_reason: str
    latency_ns: float | None
    source: str
    """Where the latency comes from."""
    macs: int
    shape: str
    """Type and shape of what it makes."""
    low: float | None
    high: float | None
    channels: tuple[float, ...]
    """RMS of the channels of what it makes, ascending; of many, evenly picked ones."""
    score_without: float | None
    """What the plan scores where this unit alone goes back to the low precision."""


@dataclass(frozen=True, slots=True)
class NetworkBorder:
    """A tensor that is converted or moved between placements."""

    tensor: str
    producer: str
    consumer: str
    transfer_bytes: int
    latency_ns: float


@dataclass(frozen=True, slots=True)
class NetworkPart:
    """A partition, and what its units take."""

    index: int
    target: str
    units: int
    latency_ns: float | None


@dataclass(frozen=True, slots=True)
class NetworkPoint:
    """A plan of the front: a number of raised units or a latency, against the score."""

    latency_ns: float | None
    raised: int
    score: float
    meets: bool
    chosen: bool


@dataclass(frozen=True, slots=True)
class DrawnNetwork:
    """A network under a plan."""

    units: tuple[NetworkUnit, ...]
    borders: tuple[NetworkBorder, ...]
    parts: tuple[NetworkPart, ...]
    points: tuple[NetworkPoint, ...]
    switch_ns: float
    """What a partition costs on top of its work."""

    def layout(self) -> LayeredLayout:
        """Return where every unit stands."""
        return layer_units([item.inputs for item in self.units])
