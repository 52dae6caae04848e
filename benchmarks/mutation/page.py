"""The page of the figures: a table of the rooms, and what was not killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import beta

from mutation.reach import Reach
from mutation.sites import Mutant

_HEADS = ("room", "sampled", "equivalent", "killed", "survived", "score", "95 % interval")


@dataclass(frozen=True)
class Judged:
    """A mutant of the sample and what became of it."""

    mutant: Mutant
    how: str
    """'equivalent', or as its verdict says."""
    by: str

    @property
    def room(self) -> str:
        """The folder of the package that it is in."""
        return self.mutant.site.file.partition("/")[0]


@dataclass(frozen=True)
class Score:
    """Counts of a room, or of all."""

    sampled: int
    equivalent: int
    killed: int

    @property
    def survived(self) -> int:
        """Mutants that no test noticed."""
        return self.sampled - self.equivalent - self.killed

    @property
    def share(self) -> float:
        """Killed of those that can be; NaN where none can."""
        able = self.sampled - self.equivalent
        return self.killed / able if able else float("nan")

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the bounds of Clopper and Pearson (1934) on the share that a sample of all mutants would have."""
        able, tail = self.sampled - self.equivalent, (1 - confidence) / 2
        low = float(beta.ppf(tail, self.killed, self.survived + 1)) if self.killed else 0.0
        high = float(beta.ppf(1 - tail, self.killed + 1, self.survived)) if self.killed < able else 1.0
        return low, high


@dataclass(frozen=True)
class Run:
    """A sample and all that was said of it."""

    count: int
    """Mutants that were asked for."""
    seed: int
    cap_s: float
    """Processor time that a mutant's tests could take."""
    reach: Reach
    judged: Sequence[Judged]
    rooms: tuple[str, ...]


def score(judged: Sequence[Judged]) -> Score:
    """Count what became of mutants."""
    equivalent = sum(entry.how == "equivalent" for entry in judged)
    survived = sum(entry.how in ("survived", "unreached") for entry in judged)
    return Score(len(judged), equivalent, len(judged) - equivalent - survived)


def rows(run: Run) -> tuple[Sequence[str], list[list[str]]]:
    """Return heads and rows of the table: each room, then all."""
    scores = [(room, score([entry for entry in run.judged if entry.room == room])) for room in run.rooms]
    return _HEADS, [_row(name, counts) for name, counts in (*scores, ("all", score(run.judged)))]


def listing(judged: Sequence[Judged]) -> list[str]:
    """Return a line for each mutant: place, operator, change."""
    ordered = sorted(judged, key=lambda entry: (entry.mutant.site.file, entry.mutant.site.line))
    return [
        f"{entry.mutant.site.file}:{entry.mutant.site.line}: {entry.mutant.operator}, {entry.mutant.key}, {entry.how}\n"
        + "".join(f"    - {line}\n" for line in entry.mutant.before)
        + "".join(f"    + {line}\n" for line in entry.mutant.after)
        for entry in ordered
    ]


def _row(name: str, counts: Score) -> list[str]:
    low, high = counts.interval()
    numbers = [counts.sampled, counts.equivalent, counts.killed, counts.survived]
    share = f"{counts.share:.1%}" if counts.sampled > counts.equivalent else "-"
    return [name, *map(str, numbers), share, f"{low:.1%} to {high:.1%}"]


def as_markdown(run: Run) -> str:
    """Return docs/reference/tests.md."""
    return ""
