"""Advice before any search, and the pages that show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from dovetail.report.figures import bytes_text, number_text, time_text
from dovetail.report.page import Block, Table, flexible, left, right, wrapped

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class BoardRow:
    """What a model takes on one board, everything at one precision; None where it is not known, and `why`."""

    target: str
    precision: str
    latency_ns: float | None = None
    memory_bytes: int | None = None
    partitions: int = 0
    units: int = 0
    away: tuple[str, ...] = ()
    """Units that the NPU refuses at this precision."""
    reasons: tuple[str, ...] = ()
    """Why, the most frequent first."""
    enough: bool = False
    """It is within the latency that was asked for."""
    sources: tuple[str, ...] = ()
    """How good the figures of its latency are."""
    lender: str = ""
    """The board whose fitted prices it has, with its own cores and memory."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """What a file quantised with a scale per channel takes on a board that prefers one scale."""

    stored: BoardRow
    """As the file is."""
    taken: BoardRow
    """As the float model that it stands for, at the board's own precision."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """What a model takes at one size of its picture; None where it cannot be read at it, and `why`."""

    size: int
    board: BoardRow | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class PassRow:
    """What a pass of the normal form brings: nodes and board before and after, and the proof that float stays."""

    name: str
    nodes_before: int
    nodes_after: int
    before: BoardRow
    after: BoardRow
    float_error: float
    """Largest difference of the float outputs, as a share of the output's largest value."""


class SimulatedOutcome(Enum):
    """What the vendor's compiler and simulator make of a model in 8 bits."""

    RUNS = "runs"
    """As our exact simulation has it, to the last bit."""
    NEARLY = "runs, nearly"
    """Not to the last bit, and no farther from float than our exact simulation is."""
    DIFFERS = "other answers"
    """The outputs are farther from float than rounding explains."""
    FAILS = "does not run"
    """The vendor's compiler writes no binary, or its simulator does not run it."""
    UNDECIDED = "undecided"

    @property
    def is_bad(self) -> bool:
        """Tell whether it is a reason to leave a model alone."""
        return self in (SimulatedOutcome.DIFFERS, SimulatedOutcome.FAILS)


@dataclass(frozen=True, slots=True)
class SimulatedRow:
    """What one board's compiler and simulator make of a model, everything in 8 bits that it takes."""

    target: str
    precision: str
    what: str = ""
    """The rewrites in it."""
    outcome: SimulatedOutcome = SimulatedOutcome.UNDECIDED
    why: str = ""
    elements: int = 0
    """Of the outputs of the NPU's partitions, one sample."""
    differing: int = 0
    most_steps: int = 0
    """The largest difference, in steps of the last bit."""
    recorded: str = ""
    """What was measured before on drawn networks, where this model was not run here."""
    mostly_fails: bool = False
    """Of these networks, fewer than half ran."""
    before_ns: float | None = None
    after_ns: float | None = None
    """What the model takes by the vendor's performance model without the last rewrite, and with it."""

    @property
    def is_bad(self) -> bool:
        """Tell whether it is a reason to leave a model alone."""
        return self.outcome.is_bad or self.mostly_fails

    @property
    def text(self) -> str:
        """Return what was found, in words."""
        if self.outcome is SimulatedOutcome.UNDECIDED:
            told = f"not run: {self.why}" if self.why else "not run"
            return f"{told}; {self.recorded or 'nothing is recorded of its kind'}"
        counts = f"{self.differing} of {self.elements} elements differ, by {self.most_steps} steps at most"
        told = f"{self.outcome.value}: {counts}" if self.differing else self.outcome.value
        if self.before_ns is not None and self.after_ns is not None:
            told += f"; by the vendor's model {time_text(self.before_ns)} -> {time_text(self.after_ns)}"
        # What the vendor's compiler wrote before it failed may be long.
        why = self.why.partition("; it said")[0]
        return f"{told}: {why}" if why else told


@dataclass(frozen=True, slots=True)
class RewriteRow:
    """What a rewrite does to a model on a board, alone; `together` has those that were taken, one upon the other."""

    name: str
    what: str
    """What is written otherwise."""
    nodes: tuple[str, ...]
    """The nodes that are."""
    kinds: tuple[str, ...]
    """Their operators, with what matters to a vendor's compiler."""
    refused_before: int
    """Of these, how many the board refuses."""
    refused_after: int
    """How many it refuses of what stands in their place."""
    before: BoardRow
    after: BoardRow
    float_error: float
    """Largest difference of the float outputs, as a share of the output's largest value."""
    outcome: str
    """taken; saves nothing; not proved, where float differs by more than a rounding; does not run, where it would save
    and the vendor's compiler or simulator fails on it."""
    simulated: SimulatedRow | None = None
    """What the vendor's simulator makes of the model with it, upon those that were taken before; of what saves."""


def boards_block(rows: Sequence[BoardRow], most_ms: float | None) -> Block:
    """Return the table of boards."""
    asked = most_ms is not None
    cells = tuple(
        (
            row.target,
            row.precision,
            time_text(row.latency_ns),
            "-" if row.memory_bytes is None else bytes_text(row.memory_bytes),
            str(row.partitions or "-"),
            f"{len(row.away)} of {row.units}" if row.units else "-",
            *(("yes" if row.enough else "no",) if asked else ()),
            row.why or "; ".join(row.reasons[:_SHOWN]),
        )
        for row in rows
    )
    columns = (
        *(left("target"), left("at"), right("latency"), right("memory"), right("parts"), right("leave")),
        *((left("enough"),) if asked else ()),
        wrapped("why units leave"),
    )
    sources = ", ".join(dict.fromkeys(source for row in rows for source in row.sources))
    note = f"Latencies are predicted ({sources}), what is refused runs on the chip's CPU. Accuracy was not looked at."
    lent = [f"{name} to {count}" for name, count in Counter(row.lender for row in rows if row.lender).most_common()]
    if lent:
        note += f" Prices are lent within a generation: {', '.join(lent)}."
    return Table(
        "Boards, the fastest first" if not asked else "Boards, those that are enough first", columns, cells, note
    )


def stored_block(rows: Sequence[StoredRow]) -> Block:
    """Return the table of a file that is stored with a scale per channel."""
    cells = tuple(
        (
            row.taken.target,
            f"{row.stored.precision}: {time_text(row.stored.latency_ns)}",
            f"{row.taken.precision}: {time_text(row.taken.latency_ns)}",
            row.stored.why or row.taken.why,
        )
        for row in rows
    )
    columns = (left("target"), right("as it is stored"), right("taken as float"), wrapped("why not known"))
    note = (
        "The file has a scale per channel, which the arrays of these boards have not: their shaders would compute its "
        "convolutions. 'dovetail tune' takes it as the float model that it stands for, heals and quantises it anew."
    )
    return Table("Stored with a scale per channel", columns, cells, note)


def sizes_block(rows: Sequence[SizeRow]) -> Block:
    """Return the table of sizes."""
    cells = tuple(
        (
            str(row.size),
            time_text(None if row.board is None else row.board.latency_ns),
            "-" if row.board is None or row.board.memory_bytes is None else bytes_text(row.board.memory_bytes),
            "-" if row.board is None else f"{len(row.board.away)} of {row.board.units}",
            row.why if row.board is None else row.board.why or "; ".join(row.board.reasons[:_SHOWN]),
        )
        for row in rows
    )
    board = next((row.board.target for row in rows if row.board is not None), "")
    columns = (right("size"), right("latency"), right("memory"), right("leave"), wrapped("why"))
    return Table(f"Sizes of the picture on {board}", columns, cells)


def normal_form_block(rows: Sequence[PassRow]) -> Block:
    """Return the table of what every command does to a model."""
    cells = tuple(
        (
            row.name,
            f"{row.nodes_before} -> {row.nodes_after}",
            f"{len(row.before.away)} -> {len(row.after.away)}",
            f"{time_text(row.before.latency_ns)} -> {time_text(row.after.latency_ns)}",
            "equal" if row.float_error == 0 else number_text(row.float_error, 2),
        )
        for row in rows
    )
    columns = (flexible("pass"), right("nodes"), right("leave"), right("latency"), right("float differs by"))
    note = "Every command applies them; each alone and all together. The proof is the largest share on random samples."
    return Table("Normal form", columns, cells, note)


def rewrites_block(rows: Sequence[RewriteRow]) -> Block:
    """Return the table of rewrites, those that save the most first."""
    cells = tuple(
        (
            row.name,
            f"{row.refused_before} -> {row.refused_after}",
            f"{len(row.before.away)} -> {len(row.after.away)}",
            f"{row.before.partitions} -> {row.after.partitions}",
            f"{time_text(row.before.latency_ns)} -> {time_text(row.after.latency_ns)}",
            "equal" if row.float_error == 0 else number_text(row.float_error, 2),
            row.outcome,
        )
        for row in rows
    )
    columns = (
        *(left("rewrite"), right("refused"), right("leave"), right("parts"), right("latency")),
        *(right("off by"), wrapped("outcome")),
    )
    note = (
        "Each alone, then those that save, one upon the other. 'refused': matched nodes before, and after it what "
        "stands in their place. Float was compared on random samples by ONNX Runtime ('off by' is a share of the "
        "output's largest value); what 8 bits make of it is for 'dovetail tune'."
    )
    return Table("Rewrites, what saves most first", columns, cells, note)


def simulated_block(rows: Sequence[RewriteRow], boards: Sequence[SimulatedRow]) -> Block:
    """Return what the vendor's compiler and simulator make of what saves, and of all that was taken on each board."""
    each = [row.simulated for row in rows if row.simulated is not None]
    known = [(row.what, row) for row in each]
    known += [(row.what, row) for row in boards if row not in each]
    cells = tuple((name, row.target, row.precision, row.text) for name, row in known)
    note = (
        "The whole model in 8 bits, one random sample, on the vendor's simulator beside ours. What does not run, runs "
        "otherwise, or saves nothing by the vendor's performance model, is not taken. What was not run here may not "
        "run on the board: 'dovetail verify'."
    )
    columns = (wrapped("rewrite"), left("target"), left("at"), wrapped("what becomes of it"))
    return Table("On the vendor's simulator", columns, cells, note)
