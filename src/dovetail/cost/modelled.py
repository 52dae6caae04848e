"""Price plans by a vendor's performance model; shader operators, of which it knows little, by our stated rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dovetail.backend.costs import Quality
from dovetail.backend.modelled import BoardSettings, CycleModel, ModelledGraph, OperatorCycles
from dovetail.backend.protocols import Backend
from dovetail.backend.registry import available_backends, find_target
from dovetail.backend.target import Engine, TargetProfile
from dovetail.cost.joined import share_joined
from dovetail.cost.roofline import SHADER_MODEL, NpuRoofline
from dovetail.cost.sizes import Sizer
from dovetail.cost.stated import stated_ranges
from dovetail.cost.table import CostEntry, CostTable
from dovetail.errors import CostError
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.partition.partitioned import Partition
from dovetail.plan.plan import Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.quantizer import quantize
from dovetail.quantize.ranges import Ranges


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """What one node takes; `stated` is our shader model's part of the cycles, 0 where the vendor's stand."""

    node: str
    op: str
    precision: Precision | None
    """None for a conversion that the plan put in."""
    engine: Engine
    cycles: int
    stated: bool
    latency_ns: float
    read_bytes: int
    write_bytes: int
    buffers: tuple[str, str, str]
    tiles: int


@dataclass(frozen=True, slots=True)
class ModelledPartition:
    """What one partition takes on its part."""

    target: str
    source: str
    clock_mhz: float
    rows: tuple[OperatorRow, ...]

    @property
    def latency_ns(self) -> float:
        """Return the sum: operators run one after the other."""
        return sum(row.latency_ns for row in self.rows)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the model is told: boards by target, and ranges where there are measured ones."""

    boards: Mapping[str, BoardSettings] = field(default_factory=dict)
    ranges: Ranges | None = None
    seconds: float | None = None
    """What each partition may take, where the vendor's compiler can be given a limit."""


def model_plan(graph: Graph, plan: Plan, request: ModelRequest | None = None) -> tuple[ModelledPartition, ...]:
    """Return what the partitions that a vendor models take; raise CostError when none of the plan's targets has one.

    Raises CompileError when the vendor's compiler refuses a partition. Times do not depend on scales, so that
    stated ranges do where none were measured; whether an operator that only moves data must rescale does.
    """
    options = request or ModelRequest()
    quantized = quantize(graph, plan, options.ranges or stated_ranges(graph))
    return model_placed(quantized, graph, options.boards, options.seconds)


def model_placed(
    quantized: QuantizedGraph, graph: Graph, boards: Mapping[str, BoardSettings], seconds: float | None = None
) -> tuple[ModelledPartition, ...]:
    """Return the same of a graph that is quantised and placed; nodes that `graph` lacks are conversions.

    Raises CostError when no target has a model, CompileError when the vendor's compiler refuses a partition.
    """
    models = {target: _model_of(target, seconds) for target in quantized.plan.targets}
    if not any(models.values()):
        raise CostError(
            f"no vendor's performance model is here for {', '.join(quantized.plan.targets)}.",
            hint="Run 'dovetail sdk install verisilicon' for targets that begin with vsi:.",
        )
    rows: list[ModelledPartition] = []
    for part in partition(quantized).partitions:
        model = models.get(part.target)
        if model is not None:
            board = boards.get(part.target, BoardSettings())
            answer = model(part.graph, find_target(part.target), board)
            rows.append(attribute(graph, quantized.plan, part, answer))
    return tuple(rows)


def model_tables(parts: Sequence[ModelledPartition]) -> tuple[CostTable, ...]:
    """Return a table of latencies for each target; conversions that the plan put in are left to the cost model."""
    entries: dict[str, list[CostEntry]] = {}
    for part in parts:
        rows = [CostEntry(row.node, row.precision, row.latency_ns) for row in part.rows if row.precision is not None]
        entries.setdefault(part.target, []).extend(rows)
    sources = {part.target: part.source for part in parts}
    return tuple(CostTable(target, sources[target], Quality.MODELLED, tuple(rows)) for target, rows in entries.items())


def model_owner(target: str) -> Backend | None:
    """Return the backend that has a vendor's performance model of a target, or None."""
    for owner in available_backends():
        if owner.abilities().model_cycles is not None and target in {item.name for item in owner.targets()}:
            return owner
    return None


def _model_of(target: str, seconds: float | None) -> CycleModel | None:
    owner = model_owner(target)
    if owner is None:
        return None
    abilities = owner.abilities()
    if seconds is not None and abilities.with_limit is not None:
        abilities = abilities.with_limit(seconds).abilities()
    return abilities.model_cycles


def attribute(graph: Graph, plan: Plan, part: Partition, answer: ModelledGraph) -> ModelledPartition:
    """Return the model's answer for a partition of a plan by node, with our rates for what it does not know."""
    recorded: dict[str, list[OperatorCycles]] = {}
    for item in answer.operators:
        recorded.setdefault(item.node, []).append(item)
    by_node = share_joined(part.graph, recorded)
    known = {node.name for node in graph.nodes}
    rows: list[OperatorRow] = []
    stated_alone = 0
    for node in part.graph.nodes:
        items = by_node.get(node.name, ())
        precision = plan.placement(node.name).precision if node.name in known else None
        row = _row(node, items, precision, answer.clock_mhz)
        if precision is not None and all(item.engine is Engine.SH for item in items):
            stated = _stated_cycles(graph, part.target, node, precision)
            if stated:
                stated_alone += not items
                row = _with_stated(row, stated, answer.clock_mhz)
        rows.append(row)
    source = _source_text(answer, max(0, answer.missing - stated_alone))
    return ModelledPartition(part.target, source, answer.clock_mhz, tuple(rows))


def _row(node: Node, items: Sequence[OperatorCycles], precision: Precision | None, clock_mhz: float) -> OperatorRow:
    cycles = sum(item.cycles for item in items)
    main = max(items, key=lambda item: item.cycles, default=None)
    return OperatorRow(
        node=node.name,
        op=node.op,
        precision=precision,
        engine=Engine.NN if main is None else main.engine,
        cycles=cycles,
        stated=False,
        latency_ns=cycles / clock_mhz * 1e3,
        read_bytes=sum(item.read_bytes for item in items),
        write_bytes=sum(item.write_bytes for item in items),
        buffers=("", "", "") if main is None else (main.input_buffer, main.output_buffer, main.kernel_buffer),
        tiles=sum(item.tiles for item in items),
    )


def _with_stated(row: OperatorRow, stated: int, clock_mhz: float) -> OperatorRow:
    """Take the larger: the vendor's records of shaders count memory traffic and no arithmetic."""
    cycles = max(row.cycles, stated)
    changed = replace(row, cycles=cycles, latency_ns=cycles / clock_mhz * 1e3)
    return replace(changed, engine=Engine.SH, stated=stated > row.cycles)


def _stated_cycles(graph: Graph, target: str, node: Node, precision: Precision) -> int:
    """Return our model's cycles of a node that the target runs on its shaders, else 0.

    A node that multiplies is taken at the records' word: the profile may have hoped for the array.
    """
    profile = find_target(target)
    if not isinstance(profile, TargetProfile) or profile.hardware is None:
        return 0
    original = graph.node(node.name)
    sizer = Sizer(graph)
    meant = profile.verdict(graph, original, precision).engine is Engine.SH
    if not meant and not sizer.macs(graph, original):
        return 0
    return NpuRoofline(profile, profile.hardware, sizer).shader_cycles(graph, original, precision)


def _source_text(answer: ModelledGraph, unknown: int) -> str:
    text = (
        f"VeriSilicon's performance model ({answer.version}, NN_EXT_SHOW_PERF): cycles at {answer.clock_mhz:g} MHz, "
        f"{answer.ddr_bytes_per_cycle:g} bytes a cycle to DDR; {SHADER_MODEL}"
    )
    return text if unknown == 0 else f"{text}; {unknown} further operations of the vendor's are in no record"
