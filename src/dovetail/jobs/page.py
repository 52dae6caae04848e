"""The page of a job: what was predicted and what was measured, side by side, before anything else."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.jobs.record import JobFigures, JobRecord
from dovetail.jobs.store import JobState
from dovetail.report.figures import bytes_text, number_text, time_text
from dovetail.report.measured import scenario_table
from dovetail.report.page import Block, Facts, Page, Prose, Table, flexible, left, right, wrapped

_SIMULATED = ("npusim", "simulator")


def job_page(record: JobRecord, state: JobState, done: int) -> Page:
    """Return the page of a job."""
    asked, found = record.request, record.figures
    blocks: list[Block] = []
    if found is not None:
        blocks += [_table(found), scenario_table(found.scenarios)]
    facts = [
        ("job", record.id),
        ("state", _state_text(record, state, done)),
        ("begun", record.created),
        ("bundle", asked.bundle),
        ("data", asked.data + ("" if asked.samples is None else f", the first {asked.samples}")),
        ("on", asked.on or "this machine"),
    ]
    if found is not None:
        facts.append(("devices", ", ".join(dict.fromkeys(found.devices))))
    blocks.append(Facts("", tuple(facts)))
    if found is not None and found.notes:
        blocks.append(Prose("Not known", found.notes))
    return Page(f"Job {record.id}: '{record.model}' on {asked.on or 'this machine'}", tuple(blocks))


def jobs_page(rows: Sequence[tuple[JobRecord, JobState, int]]) -> Page:
    """Return the page of all jobs, the newest last."""
    columns = (
        left("job"),
        left("state"),
        left("begun (UTC)"),
        flexible("model"),
        flexible("on"),
        right("samples"),
        right("time"),
        wrapped("scores"),
    )
    table = Table("", columns, tuple(_row(*one) for one in rows), "" if rows else "There are none.")
    return Page("Jobs", (table,))


def _row(record: JobRecord, state: JobState, done: int) -> tuple[str, ...]:
    found = record.figures
    return (
        record.id,
        state.value,
        record.created[:16].replace("T", " "),
        record.model,
        record.request.on or "this machine",
        str(done),
        "-" if found is None else time_text(found.time_ns.measured),
        "" if found is None else ", ".join(f"{one.metric} {number_text(one.score.measured)}" for one in found.scores),
    )


def _state_text(record: JobRecord, state: JobState, done: int) -> str:
    if state is JobState.DONE:
        return f"done, {done} samples"
    going_on = f"; go on with: dovetail job resume {record.id}" if state is JobState.STOPPED else ""
    why = f" ({record.reason})" if record.reason else ""
    return f"{state.value} after {done} samples{why}{going_on}"


def _table(found: JobFigures) -> Table:
    time, memory = found.time_ns, found.memory_bytes
    rows = [
        ("time of a request", time_text(time.predicted), time_text(time.measured)),
        ("peak memory", _size(memory.predicted), _memory(found)),
        ("units on the NPU", *_units(found, npu=True)),
        ("units on the CPU", *_units(found, npu=False)),
    ]
    rows += [
        (f"score: {one.metric}", number_text(one.score.predicted), number_text(one.score.measured))
        for one in found.scores
    ]
    if found.equal_share is not None:
        rows.append(("elements as predicted", "100 %", f"{found.equal_share:.2%}"))
    note = (
        "Predicted time is the work of the units, without conversions and transfers, and memory that of constants and "
    )
    note += "activations, without the program. Predicted scores are of a run of the bundle here."
    if found.predicted_by:
        note += f" Time by: {found.predicted_by}."
    if any(sign in device for device in found.devices for sign in _SIMULATED):
        note += " A simulated device's time and memory are not the hardware's."
    columns = (left("what"), right("predicted"), right("measured"))
    return Table(f"Predicted and measured, {found.samples} samples", columns, tuple(rows), note)


def _size(size_bytes: float | None) -> str:
    return "-" if size_bytes is None else bytes_text(int(size_bytes))


def _memory(found: JobFigures) -> str:
    added, whole = found.memory_bytes.measured, found.process_bytes
    if whole is None:
        return "-"
    return f"{bytes_text(whole)} (process)" if added is None else f"{_size(added)} of {bytes_text(whole)}"


def _units(found: JobFigures, *, npu: bool) -> tuple[str, str]:
    units = found.units
    if units is None:
        return "-", "-"
    count = units.npu if npu else units.cpu
    engines = {name: number for name, number in units.engines.items() if (name != "CPU") is npu}
    told = f" ({', '.join(f'{name} {number}' for name, number in engines.items())})" if len(engines) > 1 else ""
    if found.units_moved is None:
        return f"{count}{told}", "as planned"
    moved = f", {found.units_moved} in partitions that ran elsewhere in part" if found.units_moved and npu else ""
    return f"{count}{told}", f"{count}{moved}"
