"""What a run gives: outputs, taps, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.types import TensorType, dequantize_array


@dataclass(frozen=True, slots=True)
class PartitionTiming:
    """How long one partition ran, and where; `start_ns` counts from the start of the run.

    `transfer_ns` is the part of `elapsed_ns` that moving tensors took, where the device tells it.
    """

    index: int
    target: str
    device: str
    elapsed_ns: int
    start_ns: int = 0
    transfer_ns: int = 0

    @property
    def compute_ns(self) -> int:
        """Return the time without the transfers."""
        return self.elapsed_ns - self.transfer_ns


Mark = tuple[int, int, int, int]
"""Partition, start on the clock, time and transfers in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave: outputs and taps as stored values, with their types, and timings."""

    outputs: Mapping[str, AnyArray]
    taps: Mapping[str, AnyArray]
    types: Mapping[str, TensorType]
    marks: Sequence[Mark] = ()
    """In the order in which the partitions ended."""
    names: Sequence[tuple[str, str]] = ()
    """Target and device of every partition."""
    started_ns: int = 0
    elapsed_ns: int = 0
    """From the call, or from `run_async`, to the last output."""

    @property
    def timings(self) -> tuple[PartitionTiming, ...]:
        """Return the timings in the order of the schedule; made when they are asked for, which most runs are not."""
        return tuple(
            PartitionTiming(index, *self.names[index], elapsed, start - self.started_ns, moved)
            for index, start, elapsed, moved in sorted(self.marks)
        )

    @property
    def busy_ns(self) -> int:
        """Return the time in which at least one partition ran."""
        total = reached = 0
        for item in sorted(self.timings, key=lambda one: one.start_ns):
            stop = item.start_ns + item.elapsed_ns
            total += max(0, stop - max(item.start_ns, reached))
            reached = max(reached, stop)
        return total

    @property
    def idle_ns(self) -> int:
        """Return the time in which none ran: bookkeeping, and waiting for devices that serve other requests."""
        return self.elapsed_ns - self.busy_ns

    def real(self, tensor: str) -> AnyArray:
        """Return the real values of an output or a tap; raise KeyError when it is neither."""
        stored = self.outputs[tensor] if tensor in self.outputs else self.taps[tensor]
        quant = self.types[tensor].quant
        return stored if quant is None else dequantize_array(stored, quant)
