"""The result of partitioning."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType
from dovetail.plan.quantized import QuantizedGraph


@dataclass(frozen=True, slots=True)
class BorderTensor:
    """A tensor that crosses from one partition to others; `size_bytes` is for batch 1, None when not static."""

    name: str
    kind: TensorType
    producer: int
    consumers: tuple[int, ...]
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A convex part of the graph; `index` is its position in the schedule."""

    index: int
    target: str
    graph: Graph


@dataclass(frozen=True, slots=True)
class PartitionedGraph:
    """The parts of a quantised graph in the order in which they can run."""

    source: QuantizedGraph
    partitions: tuple[Partition, ...]
    borders: tuple[BorderTensor, ...]
