"""What a plan costs, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.backend.costs import Figure
from dovetail.plan.placement import Placement


@dataclass(frozen=True, slots=True)
class UnitCost:
    """What a unit takes where it is; `moved_bytes` are its inputs, constants and outputs."""

    unit: str
    nodes: tuple[str, ...]
    op: str
    placement: Placement
    macs: int
    moved_bytes: int
    figure: Figure


@dataclass(frozen=True, slots=True)
class BoundaryCost:
    """What it takes to bring one tensor to another placement: conversion, and transfer between targets.

    `transfer_bytes` is 0 when both are on one target.
    """

    tensor: str
    producer: Placement
    consumer: Placement
    transfer_bytes: int
    figure: Figure


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """Estimate memory in bytes for one sample, by target.

    `weights` are constants, `activations` the peak of what is alive at once, `copies` the second copies of tensors
    that cross between targets.
    """

    weights: Mapping[str, int]
    activations: Mapping[str, int]
    copies: int

    @property
    def total_bytes(self) -> int:
        """Return everything together; peaks of different targets are taken to coincide."""
        return sum(self.weights.values()) + sum(self.activations.values()) + self.copies


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What a plan takes for one sample."""

    units: tuple[UnitCost, ...]
    boundaries: tuple[BoundaryCost, ...]
    partition_count: int
    switch: Figure
    """What one partition costs on top of its work."""
    memory: MemoryCost

    @property
    def compute_ns(self) -> float:
        """Return what the units take."""
        return sum(item.figure.latency_ns for item in self.units)

    @property
    def boundary_ns(self) -> float:
        """Return what conversions and transfers take."""
        return sum(item.figure.latency_ns for item in self.boundaries)

    @property
    def switch_ns(self) -> float:
        """Return what the switches between partitions take; the first partition is free."""
        return (self.partition_count - 1) * self.switch.latency_ns

    @property
    def latency_ns(self) -> float:
        """Return the whole: units, boundaries and switches one after the other."""
        return self.compute_ns + self.boundary_ns + self.switch_ns

    @property
    def transfer_bytes(self) -> int:
        """Return the bytes that cross between targets."""
        return sum(item.transfer_bytes for item in self.boundaries)
