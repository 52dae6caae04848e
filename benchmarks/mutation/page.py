"""The figures of a run: a table of the rooms, what was not killed, and the page of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mutation.reach import LONGEST_TEST_S, Reach
from mutation.session import LEFT_OUT
from mutation.sites import Mutant
from zoo.machine import facts
from zoo.shares import clopper_pearson
from zoo.table import markdown

_HEADS = ("room", "sampled", "equivalent", "killed", "survived", "score", "95 % interval")
_ABOUT = """# Tests

Made by `make mutants ARGS=--page`; do not edit. What the tests notice: the code is changed in one small way, and the
tests that execute the changed lines are run, the nearest first, until one fails. A mutant that none notices has
survived.

{facts}

Mutants are those of cosmic-ray's operators (another comparison, another arithmetic operator, a number one more or one
less, `and` for `or`, a condition negated, a loop that never runs, an exception that is not caught, a decorator gone),
without those that swap `==` and `is`. Each place in the code is as likely as any other, and there each change that is
another program; annotations are no places. {count} were drawn with seed {seed}, which the tests were not written with.

A test may use five times the processor time that it takes on the unchanged code, and 10 s; all tests of a mutant
together what takes {cap:g} s there, the quickest first: what a longer run would still kill counts as survived. {tests}
tests took part, in an empty home: no vendor's SDK, no converters' environments, no collected models. They are those of
{folders}; tests elsewhere would kill more or as many. {out} that fail or are skipped so, or take over {longest:g} s,
did not, nor did those that read the code as text or test the tools ({left_out}). Each test that killed a mutant passes
alone on the unchanged code.

Equivalent mutants behave as the code does: `benchmarks/mutation/equivalent.toml` lists them one by one with the reason,
and they are not in the score. They are run as the others are; one that a test notices fails the run. The interval is
Clopper and Pearson's: of the score that a run over all mutants would have.
"""


@dataclass(frozen=True)
class Judged:
    """A mutant of the sample and what became of it."""

    mutant: Mutant
    how: str
    """'equivalent', or as its verdict says."""
    by: str
    """The test that killed it."""

    @property
    def room(self) -> str:
        """The folder of the package that it is in."""
        return self.mutant.site.file.partition("/")[0]

    @property
    def survived(self) -> bool:
        """Whether no test noticed it, and one could."""
        return self.how in ("survived", "unreached")


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
        """Return the bounds on the share that a sample of all mutants would have."""
        return clopper_pearson(self.killed, self.killed + self.survived, confidence)


@dataclass(frozen=True)
class Run:
    """A sample and all that was said of it."""

    seed: int
    cap_s: float
    """Processor time that a mutant's tests could take."""
    reach: Reach
    judged: Sequence[Judged]
    rooms: tuple[str, ...]
    tests: tuple[str, ...]
    """What the paths of the test files that took part begin with."""


def score(judged: Sequence[Judged]) -> Score:
    """Count what became of mutants."""
    equivalent = sum(entry.how == "equivalent" for entry in judged)
    survived = sum(entry.survived for entry in judged)
    return Score(len(judged), equivalent, len(judged) - equivalent - survived)


def rows(run: Run) -> tuple[Sequence[str], list[list[str]]]:
    """Return heads and rows of the table: each room, then all."""
    scores = [(room, score([entry for entry in run.judged if entry.room == room])) for room in run.rooms]
    return _HEADS, [_row(name, counts) for name, counts in (*scores, ("all", score(run.judged)))]


def listing(judged: Sequence[Judged]) -> list[str]:
    """Return place, operator, key and change of each mutant."""
    return [
        f"{_place(entry)}: {entry.mutant.operator}, {entry.mutant.key}, {entry.how}\n"
        + "".join(f"    - {line}\n" for line in entry.mutant.before)
        + "".join(f"    + {line}\n" for line in entry.mutant.after)
        for entry in sorted(judged, key=_order)
    ]


def as_markdown(run: Run) -> str:
    """Return docs/reference/tests.md."""
    files = run.reach.files
    about = _ABOUT.format(
        facts="\n".join(f"- {line}" for line in facts(("dovetail", "cosmic-ray", "coverage", "pytest", "hypothesis"))),
        count=len(run.judged),
        seed=run.seed,
        cap=run.cap_s,
        tests=sum(len(file.tests) for file in files),
        out=sum(len(file.left_out) for file in files),
        longest=LONGEST_TEST_S,
        folders=_listed(run.tests),
        left_out=_listed(LEFT_OUT),
    )
    return "\n".join([about, markdown(*rows(run)), "", *_survivors(run), ""])


def _survivors(run: Run) -> list[str]:
    survivors = sorted((entry for entry in run.judged if entry.survived), key=_order)
    if not survivors:
        return ["No mutant survived."]
    cells = [[_place(entry), _code(entry.mutant.before), _code(entry.mutant.after)] for entry in survivors]
    return ["## Survivors", "", markdown(("place", "code", "changed to"), cells)]


def _listed(folders: Sequence[str]) -> str:
    return ", ".join(f"`{folder}`" for folder in folders)


def _code(lines: Sequence[str]) -> str:
    return " ".join(f"`{line}`" for line in lines if line) or "(nothing)"


def _place(entry: Judged) -> str:
    return f"{entry.mutant.site.file}:{entry.mutant.site.line}"


def _order(entry: Judged) -> tuple[str, int]:
    return entry.mutant.site.file, entry.mutant.site.line


def _row(name: str, counts: Score) -> list[str]:
    low, high = counts.interval()
    numbers = [counts.sampled, counts.equivalent, counts.killed, counts.survived]
    share = f"{counts.share:.1%}" if counts.sampled > counts.equivalent else "-"
    return [name, *map(str, numbers), share, f"{low:.1%} to {high:.1%}"]
