"""Ask a vendor's performance model what units take, for as long as a search may wait; what is late is kept for later.

The whole of what a target runs is asked about first: a unit's price depends on what lies around it. Where that takes
too long or is refused, pieces are asked about, the dearest first. Once the answers on all pieces are kept, nobody waits
for the whole again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dovetail.backend.costs import Figure, Quality
from dovetail.backend.registry import find_target
from dovetail.backend.target import Engine, Target
from dovetail.cost.model import CostModel
from dovetail.cost.modelled import model_owner, model_plan
from dovetail.cost.neighbourhood import Neighbourhood, neighbourhood
from dovetail.cost.probed import ProbedAnswer, keep_answer, price_folder, read_answer
from dovetail.cost.unit_prices import ProbedPrices, UnitPlace
from dovetail.errors import CompileError, CompileFailure, DovetailError
from dovetail.ir.node import Node
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.units import Unit

_SCHEMA = 1
"""Raise it when probed prices change without the vendor's version."""
_PIECE = 16
"""Units of a piece: enough that few of them lie at its border, few enough that it compiles in seconds."""
_WHOLE_SHARE = 0.5
"""Share of the time after which pieces are asked about too."""


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """How long prices may be waited for, how many pieces are asked about at once, and where answers are kept."""

    limit_s: float = 20.0
    jobs: int = 2
    folder: Path = field(default_factory=price_folder)


def probe_units(
    model: CostModel,
    places: Iterable[Placement],
    options: ProbeOptions | None = None,
    waits: Callable[[], None] | None = None,
) -> ProbedPrices:
    """Return the vendor's prices of a model's units at placements, as many as there is time for.

    Targets that no vendor's model is here for have none, nor have units that the vendor's compiler refuses, and
    products on shaders, of which its model knows only the traffic. `waits` is called before anything is waited for.
    """
    chosen = options or ProbeOptions()
    start = time.monotonic()
    scopes = [scope for place in dict.fromkeys(places) if (scope := _scope(model, place)) is not None]
    asked = [(scope, scope.question(model.units.items)) for scope in scopes]
    inquiry = _Inquiry(chosen.folder)
    untold = [whole for scope, whole in asked if not inquiry.recall(whole, *scope.pieces())]
    if untold and waits is not None:
        waits()
    inquiry.ask(untold, start + chosen.limit_s * _WHOLE_SHARE, len(untold))
    late = [scope for scope, whole in asked if not inquiry.answer(whole)]
    pieces = sorted((piece for scope in late for piece in scope.pieces()), key=lambda piece: -piece.plain_ns)
    inquiry.ask(pieces, start + chosen.limit_s, chosen.jobs)
    figures: dict[UnitPlace, Figure] = {}
    # What the whole says comes last, and so stands.
    for question in (*pieces, *(whole for _, whole in asked)):
        figures |= question.figures(inquiry.answer(question))
    return ProbedPrices(figures)


@dataclass(frozen=True, slots=True)
class _Question:
    """Some units with those around them at a placement; `key` is that of the answer."""

    key: str
    piece: Neighbourhood
    place: Placement
    plain_ns: float
    """What the units take without the vendor's model."""

    def figures(self, answer: ProbedAnswer | None) -> dict[UnitPlace, Figure]:
        """Return the figures of an answer by unit."""
        if answer is None:
            return {}
        places = [(unit.nodes[0], self.place.target, self.place.precision) for unit in self.piece.units]
        return {
            place: Figure(latency_ns, Quality.MODELLED, answer.source)
            for place, latency_ns in zip(places, answer.latencies_ns, strict=True)
        }

    def ask(self) -> ProbedAnswer | None:
        """Return what the vendor's model says, without latencies where its compiler refuses; None if it was killed."""
        graph = self.piece.graph
        try:
            parts = model_plan(graph, Plan(graph.digest, self.place))
        except DovetailError as error:
            if isinstance(error, CompileError) and error.failure is CompileFailure.KILLED:
                return None
            return ProbedAnswer((), error.message)
        latency_ns = {row.node: row.latency_ns for part in parts for row in part.rows}
        totals = tuple(sum(latency_ns.get(node, 0.0) for node in unit.nodes) for unit in self.piece.units)
        return ProbedAnswer(totals, parts[0].source)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What can be asked about one placement; `version` is that of the vendor's model."""

    model: CostModel
    place: Placement
    target: Target
    version: str

    def question(self, units: Sequence[Unit]) -> _Question:
        """Return the question about some units."""
        piece = neighbourhood(self.model.graph, units, self.model.units, self._runs)
        text = f"{_SCHEMA}|{self.version}|{self.place}|{piece.signature}"
        plain_ns = sum(self.model.unit_figure(unit, self.place).latency_ns for unit in piece.units)
        return _Question(hashlib.sha256(text.encode()).hexdigest(), piece, self.place, plain_ns)

    def pieces(self) -> list[_Question]:
        """Return the questions about all units, a piece each."""
        units = self.model.units.items
        return [self.question(units[at : at + _PIECE]) for at in range(0, len(units), _PIECE)]

    def _runs(self, node: Node) -> bool:
        engine = self.target.verdict(self.model.graph, node, self.place.precision).engine
        shaded = engine is Engine.SH and self.model.sizer.macs(self.model.graph, node) > 0
        return engine is not None and not shaded


def _scope(model: CostModel, place: Placement) -> _Scope | None:
    owner = model_owner(place.target)
    return None if owner is None else _Scope(model, place, find_target(place.target), owner.version)


class _Inquiry:
    """Threads that wait for the vendor's worker processes, and their answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers: dict[str, ProbedAnswer] = {}
        self._guard = threading.Lock()

    def answer(self, question: _Question) -> ProbedAnswer | None:
        """Return the answer that there is by now; None where it is late or a refusal."""
        with self._guard:
            found = self._answers.get(question.key)
        return found if found is not None and found.latencies_ns else None

    def recall(self, question: _Question, *pieces: _Question) -> bool:
        """Tell whether there is nothing to ask: no unit that runs, or a kept answer or refusal, be it to all pieces."""
        known = read_answer(self._folder, question.key)
        if known is not None:
            with self._guard:
                self._answers[question.key] = known
        if known is not None or not question.piece.units:
            return True
        return bool(pieces) and all(map(self.recall, pieces))

    def ask(self, questions: Sequence[_Question], deadline: float, count: int) -> None:
        """Ask until a time, several at once; what is under way then goes on, and is kept for the next search."""
        waiting = deque(question for question in questions if not self.recall(question))
        # Daemons: a compiler that hangs must not keep the program from ending.
        threads = [threading.Thread(target=self._work, args=(waiting, deadline), daemon=True) for _ in range(count)]
        for thread in threads[: len(waiting)]:
            thread.start()
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self, waiting: deque[_Question], deadline: float) -> None:
        while time.monotonic() < deadline:
            try:
                question = waiting.popleft()
            except IndexError:
                return
            found = question.ask()
            if found is None:
                continue
            keep_answer(self._folder, question.key, found)
            with self._guard:
                self._answers[question.key] = found
