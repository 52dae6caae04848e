"""Partitions: convex sets of nodes with one target and a position in the schedule."""

from dovetail.partition.partitioned import BorderTensor, Partition, PartitionedGraph
from dovetail.partition.schedule import partition
from dovetail.partition.smallest import PartReduction, ReductionBudget

__all__ = ["BorderTensor", "PartReduction", "Partition", "PartitionedGraph", "ReductionBudget", "partition"]
