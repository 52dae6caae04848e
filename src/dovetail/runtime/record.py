"""What a run gives: outputs, taps, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.types import TensorType, dequantize_array


# Not frozen, which would take four times as long to make: every stage of every run makes one.
@dataclass(slots=True, unsafe_hash=True)
class PartitionTiming:
    """Say how long one partition ran, and where; `start_ns` counts from the start of the run.

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


@dataclass(frozen=True, slots=True)
class Run:
    """Hold what a run gave: outputs and taps as stored values, with their types, and timings."""

    outputs: Mapping[str, AnyArray]
    taps: Mapping[str, AnyArray]
    types: Mapping[str, TensorType]
    timings: tuple[PartitionTiming, ...]
    elapsed_ns: int = 0
    """From the call, or from `run_async`, to the last output."""

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
