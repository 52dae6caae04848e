"""The state of a bisection: a folder with the question and, line by line, the answers.

The strategy is a coroutine without a memory of its own: it is fed the recorded answers again whenever the folder is
opened, so that a killed run loses at most the answer that it was waiting for.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from dovetail.errors import PlanError, SearchError
from dovetail.files import new_folder
from dovetail.plan.placement import parse_placement
from dovetail.plan.plan import Override, Plan, plan_from_json
from dovetail.seal import parse_json, sealed, unsealed
from dovetail.search.bisect.candidate import BisectCandidate, CandidateFiles, UnsayableCandidate, writer
from dovetail.search.bisect.strategy import BisectResult, Steps, bisect_lines
from dovetail.search.plain import value_of
from dovetail.search.trial import Status

_Kind = TypeVar("_Kind")

_KIND = "dovetail-bisect"
_SCHEMA = 3
_SETUP = "bisect.json"
_LOG = "log.jsonl"
_NOTE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Setup:
    """What is bisected: lines from the least to the most likely to do harm, and how candidates are written.

    `nodes` maps a line to nodes of the source file, `members` to nodes of the graph; `base_plan` is the JSON of the
    plan with every line low, empty without a model.
    """

    lines: tuple[str, ...]
    weights: tuple[float, ...]
    candidate_path: str
    format: str
    certify: bool = False
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    base_plan: str = ""
    raise_to: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    """The model's file, where the format needs it again; empty otherwise. So the listing."""
    listing: str = ""
    shapes: tuple[str, ...] = ()
    """Shapes that the model was loaded with, as `INPUT=N,C,...`."""

    def to_json(self) -> str:
        """Return the setup as JSON text."""
        document = sealed({"schema": _SCHEMA, "kind": _KIND, **asdict(self)})
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Response:
    """A verdict on a candidate, as it was given."""

    raised: tuple[str, ...]
    status: Status
    metric: float | None = None
    note: str = ""

    def to_json(self) -> str:
        """Return the answer on one line."""
        metric = None if self.metric is None or not math.isfinite(self.metric) else self.metric
        document = asdict(replace(self, metric=metric))
        return json.dumps(sealed({**document, "status": self.status.value}), ensure_ascii=False)


class Bisection:
    """A bisection under way; every answer is on disk before the next candidate is given."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        self.folder = folder
        self.setup = setup
        self.answers: list[Response] = []
        self.finding: BisectResult | None = None
        self._steps: Steps = bisect_lines(
            # Lines of a model are ordered by the prior, others in that of the file that they come from.
            setup.lines,
            setup.weights,
            certify=setup.certify,
            beside=not setup.nodes,
        )
        self._low = next(self._steps)

    @classmethod
    def open(cls, folder: Path) -> Bisection:
        """Return the bisection in a folder; raise SearchError when there is none or it is damaged."""
        bisection = cls(folder, _read_setup(folder))
        for answer in read_log(folder / _LOG, missing_is_empty=True):
            bisection._take(answer)
        return bisection

    @property
    def candidate(self) -> BisectCandidate:
        """Return the candidate to test now; when all is found, the one that is the answer."""
        setup, finding = self.setup, self.finding
        settled = None if finding is None else {*finding.culprits, *finding.unresolved}
        raised = tuple(line for line in setup.lines if (line not in self._low if settled is None else line in settled))
        low = tuple(line for line in setup.lines if line not in set(raised))
        return BisectCandidate(raised, low, self._nodes(raised), self._nodes(low), self._plan(raised))

    def write_candidate(self) -> None:
        """Write the candidate where the command expects it, all at once.

        A candidate that the format cannot say is recorded as one that cannot be tested, and the next is written.
        Raises UnsayableCandidate when the format cannot say the ends, or the answer.
        """
        path = Path(self.setup.candidate_path)
        files = self._sayable()
        contents = {path: files.text.encode()}
        contents |= {path.with_name(f"{path.stem}.{role}.txt"): content for role, content in files.beside.items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            for place, content in contents.items():
                draft = place.with_name(f".{place.name}.draft")
                draft.write_bytes(content)
                draft.replace(place)
        except OSError as error:
            raise SearchError(f"{path}: cannot be written: {error.strerror}.", hint="Choose another place.") from error

    def _sayable(self) -> CandidateFiles:
        write = writer(self.setup.format)
        while True:
            try:
                written = write(self.candidate)
                return written if isinstance(written, CandidateFiles) else CandidateFiles(written)
            except UnsayableCandidate as error:
                candidate = self.candidate
                if self.finding is not None or not candidate.low or not candidate.raised:
                    raise
                self.record(Status.CANNOT_TEST, note=f"not written: {error.message}"[:_NOTE_CHARS])

    def record(self, status: Status, metric: float | None = None, note: str = "") -> None:
        """Write the answer to the present candidate and go on to the next."""
        if self.finding is not None:
            raise SearchError("the bisection has ended.", hint="See 'dovetail bisect log', or start again with reset.")
        answer = Response(self.candidate.raised, status, metric, note)
        try:
            with (self.folder / _LOG).open("a", encoding="utf-8") as stream:
                stream.write(answer.to_json() + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise SearchError(f"{self.folder / _LOG}: cannot be written: {error.strerror}.") from error
        self._take(answer)

    def replay(self, answers: Sequence[Response]) -> Bisection:
        """Return the bisection begun again with the answers of a log; the log of this one is replaced."""
        draft = self.folder / f"{_LOG}.old"
        log = self.folder / _LOG
        if log.exists():
            log.replace(draft)
        again = Bisection(self.folder, self.setup)
        for answer in answers:
            if again.finding is not None:
                break
            again._check(answer)
            again.record(answer.status, answer.metric, answer.note)
        return again

    def _take(self, answer: Response) -> None:
        if self.finding is not None:
            raise SearchError(f"{self.folder / _LOG}: it goes on after the end.", hint="Replay a copy of it.")
        self._check(answer)
        self.answers.append(answer)
        try:
            self._low = self._steps.send(answer.status)
        except StopIteration as end:
            self.finding = end.value

    def _check(self, answer: Response) -> None:
        if answer.raised != self.candidate.raised:
            raise SearchError(
                f"{self.folder / _LOG}: answer {len(self.answers) + 1} is to another candidate than the one asked for.",
                hint="The log belongs to another start, or to another version: reset and start again.",
            )

    def _nodes(self, lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for line in lines for node in self.setup.nodes.get(line, (line,))))

    def _plan(self, raised: Sequence[str]) -> Plan | None:
        setup = self.setup
        if not setup.base_plan:
            return None
        base = plan_from_json(setup.base_plan, str(self.folder / _SETUP))
        overrides = dict(base.overrides)
        for line in raised:
            override = Override(parse_placement(setup.raise_to[line]), "raised by the bisection")
            overrides.update(dict.fromkeys(setup.members[line], override))
        return replace(base, overrides=overrides)


def start_bisection(folder: Path, setup: Setup) -> Bisection:
    """Make the folder of a bisection; raise SearchError when one is under way there or it holds something else."""
    if (folder / _SETUP).exists():
        raise SearchError(f"{folder}: a bisection is under way there.", hint="End it with 'dovetail bisect reset'.")
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise SearchError(f"{folder}: exists and is no empty folder.", hint="Choose another one.", option="state")
    with new_folder(folder, lambda _: False) as draft:
        (draft / _SETUP).write_text(setup.to_json(), encoding="utf-8")
    return Bisection(folder, setup)


def reset_bisection(folder: Path) -> None:
    """Delete the folder of a bisection; raise SearchError when it is none."""
    _read_setup(folder)
    shutil.rmtree(folder)


def read_log(path: Path, *, missing_is_empty: bool = False) -> list[Response]:
    """Return the answers in a log; an answer that a crash cut short at the end is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if missing_is_empty:
            return []
        raise SearchError(f"{path}: is not there.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SearchError(f"{path}: cannot be read: {error}.") from error
    rows = text[: text.rfind("\n") + 1].splitlines()
    return [_read(Response, row, f"{path}:{number}", "no answer of a bisection") for number, row in enumerate(rows, 1)]


def _read(kind: type[_Kind], text: str, where: str, damage: str) -> _Kind:
    """Return what a JSON text holds; raise SearchError saying what is the matter with it."""
    try:
        document = unsealed(parse_json(text))
        if kind is Setup and (document.pop("kind"), document.pop("schema")) != (_KIND, _SCHEMA):
            raise ValueError(f"not a bisection of schema {_SCHEMA}")
        value: _Kind = value_of(kind, document, "it")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SearchError) as error:
        raise SearchError(f"{where}: {damage}: {str(error)[:120]}.", hint="Reset and start again.") from error
    return value


def _read_setup(folder: Path) -> Setup:
    path = folder / _SETUP
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = "Begin with 'dovetail bisect start'."
        raise SearchError(f"{folder}: no bisection is under way there.", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SearchError(f"{path}: damaged: {str(error)[:120]}.", hint="Reset and start again.") from error
    setup = _read(Setup, text, str(path), "damaged")
    try:
        if setup.base_plan:
            plan_from_json(setup.base_plan, str(path))
    except PlanError as error:
        raise SearchError(f"{path}: damaged: {str(error)[:120]}.", hint="Reset and start again.") from error
    if not setup.lines or len(setup.lines) != len(setup.weights) or not all(weight > 0 for weight in setup.weights):
        raise SearchError(f"{path}: damaged: lines and weights do not fit.", hint="Reset and start again.")
    return setup
