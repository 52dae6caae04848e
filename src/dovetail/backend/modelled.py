"""What a vendor's performance model says of a graph, operator by operator, and what of the board can be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dovetail.backend.target import Engine, Target
from dovetail.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class BoardSettings:
    """Set what a board has of its own; None leaves the vendor's assumption."""

    clock_mhz: float | None = None
    ddr_bytes_per_cycle: float | None = None
    ddr_latency_cycles: int | None = None
    vip_sram_kib: int | None = None
    axi_sram_kib: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorCycles:
    """What the model says of one vendor operation of a node, its tiles summed.

    Buffers are names such as `DDR` and `VIP_SRAM`; tiles in different buffers are joined by `+`.
    """

    node: str
    operation: str
    engine: Engine
    cycles: int
    read_bytes: int
    write_bytes: int
    tiles: int
    input_buffer: str
    output_buffer: str
    kernel_buffer: str


@dataclass(frozen=True, slots=True)
class ModelledGraph:
    """The model's answer for one graph on one part; `missing` counts operations that it has no record of."""

    target: str
    clock_mhz: float
    ddr_bytes_per_cycle: float
    operators: tuple[OperatorCycles, ...]
    missing: int
    version: str
    facts: Mapping[str, str]
    """What the model says of the part: cores, memories, limits."""


CycleModel = Callable[[Graph, Target, BoardSettings], ModelledGraph]
"""Tells what a vendor's performance model says of a quantised graph; raises CompileError where it cannot compile it."""
