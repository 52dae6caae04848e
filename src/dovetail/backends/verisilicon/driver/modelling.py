"""Ask the vendor's performance model: compile with records, run nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.backend.modelled import BoardSettings, ModelledGraph, OperatorCycles
from dovetail.backends.verisilicon.driver.records import PerfLog, Record, owners, read_perf
from dovetail.backends.verisilicon.driver.session import Settings, VendorSession
from dovetail.backends.verisilicon.program import Program
from dovetail.errors import CompileError

_KIB = 1024
_ASSUMED_MHZ, _ASSUMED_DDR = 1000.0, 3.8
"""What the vendor's model prints for every part, where it prints: a graph of shaders only leaves it silent."""


def board_variables(board: BoardSettings) -> tuple[tuple[str, str], ...]:
    """Return the environment variables that tell the vendor's model about a board.

    The clock is none of them: the model counts cycles, and its limit of DDR is in bytes a cycle.
    """
    found: list[tuple[str, str]] = []
    if board.ddr_bytes_per_cycle is not None:
        for name in ("READ", "WRITE", "TOTAL"):
            found.append((f"NN_EXT_DDR_{name}_BW_LIMIT", f"{board.ddr_bytes_per_cycle:g}"))
    if board.ddr_latency_cycles is not None:
        found.append(("VIV_VX_DDR_LATENCY", str(board.ddr_latency_cycles)))
    if board.vip_sram_kib is not None:
        found.append(("NN_EXT_VIP_SRAM_SIZE", str(board.vip_sram_kib * _KIB)))
    if board.axi_sram_kib is not None:
        found.append(("NN_EXT_AXI_SRAM_SIZE", str(board.axi_sram_kib * _KIB)))
    return tuple(found)


def model_program(program: Program, settings: Settings, board: BoardSettings) -> ModelledGraph:
    """Return what the model says of a program; raise CompileError."""
    variables = (*settings.variables, ("NN_EXT_SHOW_PERF", "1"), *board_variables(board))
    session = VendorSession(program, replace(settings, variables=variables))
    try:
        session.compile()
        log, version = session.log(), session.version
    finally:
        session.close()
    try:
        perf = read_perf(log)
        return _modelled(program, perf, version, board)
    except (ValueError, KeyError) as error:
        raise CompileError(f"{program.target}: the performance records cannot be read: {error}.") from error


def _modelled(program: Program, perf: PerfLog, version: str, board: BoardSettings) -> ModelledGraph:
    kinds = [item.kind for item in program.operators]
    if perf.records and all(record.uid == -1 for record in perf.records):
        raise CompileError(
            f"{program.target}: performance records have no names: the shim is of another version or over TIM-VX.",
            hint="Unset TIM_VX_INSTALL_DIR, or run 'dovetail sdk install verisilicon'.",
        )
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record, owner in zip(perf.records, owners(perf.records, kinds), strict=True):
        node = program.operators[owner].node if owner >= 0 else ""
        groups.setdefault((node, record.operation, record.engine.value), []).append(record)
    return ModelledGraph(
        target=program.target,
        clock_mhz=board.clock_mhz or float(perf.facts.get("FreqInMHZ", _ASSUMED_MHZ)),
        ddr_bytes_per_cycle=float(perf.facts.get("DDRTotalBandWidthLimit", _ASSUMED_DDR)),
        operators=tuple(_summed(node, records) for (node, _, _), records in groups.items()),
        missing=perf.missing,
        version=version,
        facts=perf.facts,
    )


def _summed(node: str, records: Sequence[Record]) -> OperatorCycles:
    first = records[0]
    buffers = ["+".join(sorted({record.buffers[index] for record in records})) for index in range(3)]
    return OperatorCycles(
        node=node,
        operation=first.operation,
        engine=first.engine,
        cycles=sum(record.cycles for record in records),
        read_bytes=sum(record.read_bytes for record in records),
        write_bytes=sum(record.write_bytes for record in records),
        tiles=len(records),
        input_buffer=buffers[0],
        output_buffer=buffers[1],
        kernel_buffer=buffers[2],
    )
