"""What a board gave for the answer of a search, and the block that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.report.figures import number_text, time_text
from dovetail.report.page import Facts, Table, left, right, wrapped
from dovetail.search.verdict import Assessment


@dataclass(frozen=True, slots=True)
class BoardPart:
    """Where a board ran a partition; the version is that of the backend there."""

    target: str
    device: str
    backend: str
    version: str


@dataclass(frozen=True, slots=True)
class BoardShare:
    """What one board of a farm gave: the samples of which it gave the outputs, and how fast it is."""

    board: str
    url: str
    samples: tuple[str, ...] = ()
    """Their ids."""
    equal_share: float | None = None
    """Of the elements of its outputs, those that are what exact simulation gives."""
    parts: tuple[BoardPart, ...] = ()
    runs: int = 0
    median_ns: float | None = None
    """Of one sample, by its clock; None where it was lost before it was timed."""
    lost: str = ""
    """Why it was lost on the way; others gave what it did not."""


@dataclass(frozen=True, slots=True)
class BoardFigures:
    """What a board, or a farm of them, gave for the plan on the hold-out; scores are in the metric's own direction.

    Where it refused or was lost, `failure` says why, and nothing else is known.
    """

    board: str
    """As it was asked for."""
    url: str
    accepted: bool = False
    """What it gave meets the goal as surely as the policy asks for."""
    failure: str = ""
    parts: tuple[BoardPart, ...] = ()
    samples: int = 0
    score: float | None = None
    equal_share: float | None = None
    """Of the elements of all outputs, those that are what exact simulation gives."""
    assessment: Assessment | None = None
    runs: int = 0
    median_ns: float | None = None
    """Of one sample, by the board's clock, with no network in it."""
    p90_ns: float | None = None
    p99_ns: float | None = None
    boards: tuple[BoardShare, ...] = ()
    """Those of a farm, by name; times are of all of them."""

    def __str__(self) -> str:
        if self.failure or self.assessment is None:
            return f"not accepted on board {self.board}: {self.failure}".rstrip(".")
        return (
            f"on board {self.board}: {self.assessment}; {self.equal_share:.2%} of elements as simulated, "
            f"{time_text(self.median_ns)}"
        )


def board_block(found: BoardFigures) -> Facts:
    """Return the block about a board."""
    pairs: list[tuple[str, str]] = [("address", found.url)]
    if found.failure or found.assessment is None:
        return Facts(f"On board {found.board}", (*pairs, ("nothing is known", found.failure)))
    pairs += [
        (f"partition {index}", f"{part.target}: {part.backend} {part.version} on {part.device}")
        for index, part in enumerate(found.parts)
    ]
    pairs += [
        ("score", f"{number_text(found.score)} on {found.samples} samples of the hold-out"),
        ("verdict", str(found.assessment)),
        ("as simulated", f"{found.equal_share:.4%} of the elements of the outputs"),
        ("a sample (median)", f"{time_text(found.median_ns)}, {found.runs} runs"),
        ("90 of 100 within", time_text(found.p90_ns)),
        ("99 of 100 within", time_text(found.p99_ns)),
    ]
    return Facts(f"On board {found.board}", tuple(pairs))


def farm_block(found: BoardFigures) -> Table:
    """Return the table of the boards of a farm."""
    rows = tuple(
        (
            one.board,
            str(len(one.samples)),
            "-" if one.equal_share is None else f"{one.equal_share:.4%}",
            time_text(one.median_ns),
            "; ".join((*_backends(one.parts), *((f"lost: {one.lost}",) if one.lost else ()))),
        )
        for one in found.boards
    )
    columns = (
        left("board"),
        right("samples"),
        right("as simulated"),
        right("a sample"),
        wrapped("backends, or how it was lost"),
    )
    return Table("Which board gave what", columns, rows, "The ids of the samples of each are in result.json.")


def _backends(parts: Sequence[BoardPart]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{part.backend} {part.version}" for part in parts))
