"""Pages about costs."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.backend.costs import Figure
from dovetail.cost import BoundaryCost, ModelledPartition, OperatorRow, PlanCost, UnitCost
from dovetail.report.figures import bytes_text, count_text, time_text
from dovetail.report.page import Block, Facts, Page, Table, flexible, left, right


def choices_page(rows: Sequence[Sequence[UnitCost | None]], title: str) -> Page:
    """Return the page that compares placements: a row a unit, a column a placement; None where it is refused."""
    places = [next(str(item.placement) for row in rows if (item := row[index])) for index in range(len(rows[0]))]
    cells = tuple(
        (_first(row).unit, _first(row).op, count_text(_first(row).macs), *(_time(item) for item in row)) for row in rows
    )
    columns = (flexible("unit"), left("operators"), right("MACs"), *(right(place) for place in places))
    totals = tuple(
        time_text(sum(item.figure.latency_ns for row in rows if (item := row[index]) is not None))
        for index in range(len(places))
    )
    figures = [item.figure for row in rows for item in row if item is not None]
    note = "Compute only, one sample; '-' is refused. Boundaries and switches are those of a plan."
    return Page(title, (Table("", columns, (*cells, ("all", "", "", *totals)), note), _sources(figures)))


def plan_cost_page(cost: PlanCost, title: str) -> Page:
    """Return the page about what a plan costs."""
    memory = cost.memory
    facts = Facts(
        "",
        (
            ("latency", f"{time_text(cost.latency_ns)} a sample"),
            ("units", time_text(cost.compute_ns)),
            ("boundaries", f"{time_text(cost.boundary_ns)} ({len(cost.boundaries)})"),
            ("switches", f"{time_text(cost.switch_ns)} ({cost.partition_count} partitions)"),
            ("crosses", bytes_text(cost.transfer_bytes)),
            *((f"weights {target}", bytes_text(size)) for target, size in memory.weights.items()),
            *((f"activations {target}", f"{bytes_text(size)} at most") for target, size in memory.activations.items()),
            ("copies", bytes_text(memory.copies)),
        ),
    )
    units = Table(
        "Units",
        (flexible("unit"), left("operators"), left("placement"), right("MACs"), right("moves"), right("latency")),
        tuple(_unit(item) for item in cost.units),
    )
    blocks: list[Block] = [facts, units]
    if cost.boundaries:
        columns = (flexible("tensor"), left("from"), left("to"), right("crosses"), right("latency"))
        blocks.append(Table("Boundaries", columns, tuple(_boundary(item) for item in cost.boundaries)))
    return Page(title, (*blocks, cost_sources(cost)))


def cost_sources(cost: PlanCost) -> Facts:
    """Return where the figures of a plan come from."""
    return _sources([*(item.figure for item in cost.units), *(item.figure for item in cost.boundaries), cost.switch])


def modelled_blocks(parts: Sequence[ModelledPartition]) -> tuple[Block, ...]:
    """Return what a vendor's performance model says: a table a partition, a row an operator, and its assumptions."""
    columns = (
        flexible("operator"),
        left("op"),
        left("at"),
        left("engine"),
        right("cycles"),
        right("latency"),
        right("reads"),
        right("writes"),
        left("buffers"),
        right("tiles"),
    )
    blocks: list[Block] = []
    for index, part in enumerate(parts):
        total = ("all", "", "", "", str(sum(row.cycles for row in part.rows)), time_text(part.latency_ns), *("",) * 4)
        title = f"Vendor's model, partition {index} on {part.target} at {part.clock_mhz:g} MHz"
        note = "Cycles with * are our shader model's. Operators of 0 cycles run within the next one."
        blocks.append(Table(title, columns, (*(_operator(row) for row in part.rows), total), note))
    texts = dict.fromkeys((part.target, part.source) for part in parts)
    return (*blocks, Facts("The model's assumptions", tuple(texts))) if parts else ()


def modelled_document(parts: Sequence[ModelledPartition]) -> list[dict[str, object]]:
    """Return what a vendor's performance model says as plain data."""
    return [
        {
            "target": part.target,
            "clock_mhz": part.clock_mhz,
            "latency_ns": part.latency_ns,
            "source": part.source,
            "operators": [
                {
                    "node": row.node,
                    "op": row.op,
                    "precision": None if row.precision is None else row.precision.value,
                    "engine": row.engine.value,
                    "cycles": row.cycles,
                    "stated": row.stated,
                    "latency_ns": row.latency_ns,
                    "read_bytes": row.read_bytes,
                    "write_bytes": row.write_bytes,
                    "buffers": list(row.buffers),
                    "tiles": row.tiles,
                }
                for row in part.rows
            ],
        }
        for part in parts
    ]


def _operator(row: OperatorRow) -> tuple[str, ...]:
    place = "" if row.precision is None else row.precision.value
    return (
        row.node,
        row.op,
        place,
        row.engine.value if row.cycles else "",
        f"{row.cycles}*" if row.stated else str(row.cycles),
        time_text(row.latency_ns) if row.cycles else "",
        bytes_text(row.read_bytes) if row.tiles else "",
        bytes_text(row.write_bytes) if row.tiles else "",
        " > ".join(name for name in row.buffers[:2] if name),
        str(row.tiles) if row.tiles else "",
    )


def figure_document(figure: Figure) -> dict[str, object]:
    """Return a figure as plain data."""
    return {"latency_ns": figure.latency_ns, "quality": figure.quality.value, "source": figure.source}


def unit_document(item: UnitCost) -> dict[str, object]:
    """Return the cost of a unit as plain data."""
    return {
        "unit": item.unit,
        "nodes": list(item.nodes),
        "op": item.op,
        "placement": str(item.placement),
        "macs": item.macs,
        "moved_bytes": item.moved_bytes,
        **figure_document(item.figure),
    }


def plan_cost_document(cost: PlanCost) -> dict[str, object]:
    """Return what a plan costs as plain data."""
    memory = cost.memory
    return {
        "latency_ns": cost.latency_ns,
        "compute_ns": cost.compute_ns,
        "boundary_ns": cost.boundary_ns,
        "switch_ns": cost.switch_ns,
        "partitions": cost.partition_count,
        "switch": figure_document(cost.switch),
        "units": [unit_document(item) for item in cost.units],
        "boundaries": [
            {
                "tensor": item.tensor,
                "from": str(item.producer),
                "to": str(item.consumer),
                "transfer_bytes": item.transfer_bytes,
                **figure_document(item.figure),
            }
            for item in cost.boundaries
        ],
        "memory": {
            "weights": dict(memory.weights),
            "activations": dict(memory.activations),
            "copies": memory.copies,
            "total_bytes": memory.total_bytes,
        },
    }


def _first(row: Sequence[UnitCost | None]) -> UnitCost:
    return next(item for item in row if item is not None)


def _time(item: UnitCost | None) -> str:
    return "-" if item is None else time_text(item.figure.latency_ns)


def _unit(item: UnitCost) -> tuple[str, ...]:
    moved, latency = bytes_text(item.moved_bytes), time_text(item.figure.latency_ns)
    return item.unit, item.op, str(item.placement), count_text(item.macs), moved, latency


def _boundary(item: BoundaryCost) -> tuple[str, ...]:
    moved = bytes_text(item.transfer_bytes) if item.transfer_bytes else "-"
    return item.tensor, str(item.producer), str(item.consumer), moved, time_text(item.figure.latency_ns)


def _sources(figures: Sequence[Figure]) -> Facts:
    texts = dict.fromkeys((item.quality.value, item.source) for item in figures)
    return Facts("Where the figures come from", tuple(texts))
