"""Partitions: convex sets of nodes with one target and a position in the schedule."""

from dovetail.partition.partitioned import BorderTensor, Partition, PartitionedGraph
from dovetail.partition.schedule import partition

__all__ = ["BorderTensor", "Partition", "PartitionedGraph", "partition"]
