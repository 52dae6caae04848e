"""Candidates as files that a toolchain reads; other formats register themselves here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dovetail.errors import SearchError, suggestion
from dovetail.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class BisectCandidate:
    """Lines that are raised and lines that stay low, with the nodes of the source file that they stand for.

    `plan` is None for a list of lines that belongs to no model of ours.
    """

    raised: tuple[str, ...]
    low: tuple[str, ...]
    raised_nodes: tuple[str, ...]
    low_nodes: tuple[str, ...]
    plan: Plan | None = None


class UnsayableCandidate(SearchError):
    """A format cannot say a candidate; it can say others."""


@dataclass(frozen=True, slots=True)
class CandidateFiles:
    """The text of a candidate, and further files by the role that ends their names."""

    text: str
    beside: Mapping[str, bytes] = field(default_factory=dict)


CandidateWriter = Callable[[BisectCandidate], "str | CandidateFiles"]
"""Returns the file; raises SearchError when the candidate lacks what the format needs, or is unsayable."""

_WRITERS: dict[str, CandidateWriter] = {}


def register_writer(name: str, write: CandidateWriter) -> None:
    """Make a format known by a name; a second one of that name takes its place."""
    _WRITERS[name] = write


def writer(name: str) -> CandidateWriter:
    """Return a format's writer; raise SearchError naming the nearest known one."""
    if name not in _WRITERS:
        raise SearchError(f"candidate format '{name}' is unknown.", hint=suggestion(name, writer_names()))
    return _WRITERS[name]


def writer_names() -> tuple[str, ...]:
    """Return the known formats."""
    return tuple(sorted(_WRITERS))


def _lines(names: tuple[str, ...]) -> str:
    # Paddle Lite crashes on a file without a byte; a line without a name is nobody's.
    return "".join(f"{name}\n" for name in names) or "\n"


def _plan(candidate: BisectCandidate) -> str:
    if candidate.plan is None:
        raise SearchError("a plan needs a model.", hint="Start with one, or use format exclude.", option="model")
    return candidate.plan.to_json()


register_writer("exclude", lambda candidate: _lines(candidate.raised_nodes))
register_writer("include", lambda candidate: _lines(candidate.low_nodes))
register_writer("lines", lambda candidate: _lines(candidate.raised))
register_writer("plan", _plan)
