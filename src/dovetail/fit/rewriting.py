"""Rewrites with proof: each is tried alone, proved in float, priced on a board, and taken where it saves and runs.

Whether it runs is for the vendor's compiler and simulator to say, on the whole model; where they are not installed,
for what they were seen to make of drawn networks before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.backend.registry import find_target
from dovetail.backend.target import Target
from dovetail.compare.verify import random_samples
from dovetail.errors import DovetailError
from dovetail.fit.advice import AdviceRequest, board_names, board_row, float_change, float_graph
from dovetail.fit.policy import choose_low
from dovetail.fit.recorded import kinds_of, recorded_runs
from dovetail.fit.simulating import can_simulate, modelled_ns, simulate
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision
from dovetail.passes import normalize
from dovetail.passes.rewrites import REWRITES, Rewrite
from dovetail.report.advice import BoardRow, RewriteRow, SimulatedOutcome, SimulatedRow

TAKEN, NOTHING, UNPROVED, TOGETHER = "taken", "saves nothing", "not proved", "together"
FAILS = "does not run"
"""It would save, and the vendor's simulator does not run it, or gives other answers."""
DEARER = "saves nothing by the vendor's model"
"""It saves by our prices alone, which know little of many tiny operators."""
_SAMPLES = 4
_SEED = 0
_CLOSE = 1e-4
"""What float may differ by, as a share of the output's largest value: sums in another order, all through a network."""
_WORTH = 0.005
"""Share of the latency that a rewrite has to save: no figure is more exact than that."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A model with the rewrites that save, and what each was found to do."""

    graph: Graph
    """In normal form, in float."""
    taken: tuple[str, ...]
    rows: tuple[RewriteRow, ...]
    """Each that matches, what saves most first; then all that were taken, if there were several."""
    boards: tuple[SimulatedRow, ...] = ()
    """What the vendor's simulator makes of the model with all that were taken, on every board that was named."""


def try_rewrites(
    request: AdviceRequest,
    rewrites: Sequence[Rewrite] = REWRITES,
    advance: Callable[[int], None] = lambda done: None,
) -> Rewriting:
    """Return what rewrites do to a model on the first board, and the model with those that save and run there.

    `advance` counts to twice the number of rewrites: they are tried, then those that save are simulated. Raises
    DovetailError where the model cannot be run in float.
    """
    target = board_names(request.targets)[0]
    trial = _Trial(float_graph(request.model, request.load), target, request)
    rows: list[RewriteRow] = []
    for done, rewrite in enumerate(rewrites):
        found = trial.alone(rewrite)
        rows += [found] if found else []
        advance(done + 1)
    ranked = sorted(rows, key=lambda row: _cost(row.after))
    graph, row, taken = trial.graph, trial.before, []
    by_name = {rewrite.name: rewrite for rewrite in rewrites}
    for index, found in enumerate(ranked):
        if found.outcome == UNPROVED:
            continue
        after = normalize(by_name[found.name](graph))
        upon = row if after is graph else board_row(after, target, request)
        outcome, ran = NOTHING, None
        if _saves(row, upon) and trial.error(after) <= _CLOSE:
            ran = trial.simulated(after, graph, found)
            outcome = FAILS if ran.is_bad else DEARER if _is_dearer(ran) else TAKEN
        if outcome == TAKEN:
            graph, row = after, upon
            taken.append(found.name)
        ranked[index] = replace(found, outcome=outcome, simulated=ran)
        advance(len(rewrites) + index + 1)
    kept = [found for found in ranked if found.outcome == TAKEN]
    if len(taken) > 1:
        ranked.append(trial.together(graph, row, kept))
    return Rewriting(graph, tuple(taken), tuple(ranked), _on_boards(request, graph, kept))


def _on_boards(request: AdviceRequest, graph: Graph, taken: Sequence[RewriteRow]) -> tuple[SimulatedRow, ...]:
    """Return what becomes of the model with all that were taken on the boards that were named one by one."""
    if not taken:
        return ()
    named = [name for name in board_names(request.targets) if name in request.targets]
    last = taken[-1].simulated
    # The last one that was taken was run upon all others.
    rows = [] if last is None else [replace(last, what=", ".join(row.name for row in taken))]
    done = {row.target for row in rows}
    return (*rows, *(_simulated(request, graph, name, taken) for name in named if name not in done))


def _simulated(request: AdviceRequest, graph: Graph, name: str, rows: Sequence[RewriteRow]) -> SimulatedRow:
    """Return what the vendor's simulator makes of a graph with rewrites; where it is not asked, what is recorded."""
    what = ", ".join(row.name for row in rows)
    if can_simulate(name) and request.simulate_seconds > 0:
        row = replace(simulate(graph, name, request.precision, request.simulate_seconds), what=what)
    else:
        why = "was not asked" if can_simulate(name) else "is not installed, or does not know this board"
        low = choose_low(name, request.precision).precision.value
        row = SimulatedRow(name, low, what, why=f"the vendor's simulator {why}")
    if row.outcome is not SimulatedOutcome.UNDECIDED:
        return row
    known = [recorded_runs(one.name, one.kinds, row.target, row.precision) for one in rows]
    told = tuple(dict.fromkeys(run.text for runs in known for run in runs))
    return replace(row, recorded="; ".join(told), mostly_fails=any(run.mostly_fails for runs in known for run in runs))


class _Trial:
    """A model on a board, and random samples to prove rewrites on."""

    def __init__(self, graph: Graph, name: str, request: AdviceRequest) -> None:
        self.graph = graph
        self._name, self._request = name, request
        self._target: Target = find_target(name)
        self._low = choose_low(name, request.precision).precision
        self.before: BoardRow = board_row(graph, name, request)
        self._samples: Sequence[Mapping[str, AnyArray]] = random_samples(graph, _SAMPLES, _SEED)
        self._asked: dict[str, float | None] = {}

    def error(self, after: Graph) -> float:
        """Return what float differs by."""
        return float_change(self.graph, after, self._samples)

    def alone(self, rewrite: Rewrite) -> RewriteRow | None:
        """Return what a rewrite does on its own, or None where it changes nothing that stays."""
        nodes = rewrite.match(self.graph)
        after = normalize(rewrite(self.graph)) if nodes else self.graph
        if after == self.graph:
            return None
        error = self.error(after)
        return RewriteRow(
            name=rewrite.name,
            what=rewrite.title,
            nodes=nodes,
            kinds=kinds_of(self.graph, nodes),
            refused_before=_refused(self.graph, nodes, self._target, self._low),
            refused_after=_refused(after, _places(self.graph, after, nodes), self._target, self._low),
            before=self.before,
            after=board_row(after, self._name, self._request),
            float_error=error,
            outcome=NOTHING if error <= _CLOSE else UNPROVED,
        )

    def simulated(self, after: Graph, before: Graph, found: RewriteRow) -> SimulatedRow:
        """Return what the vendor's simulator makes of a model with a rewrite; where it fails, whether without, too."""
        row = _simulated(self._request, after, self._name, (found,))
        if not row.outcome.is_bad:
            known = row.outcome is not SimulatedOutcome.UNDECIDED
            return replace(row, before_ns=self._modelled(before), after_ns=self._modelled(after)) if known else row
        without = simulate(before, self._name, self._request.precision, self._request.simulate_seconds)
        if not without.outcome.is_bad:
            return row
        return replace(row, why=f"{row.why}; so it is without the rewrite".removeprefix("; "))

    def _modelled(self, graph: Graph) -> float | None:
        """Return what the vendor's model says of a graph, asked once; None where it says nothing."""
        if graph.digest not in self._asked:
            try:
                seconds = self._request.simulate_seconds
                self._asked[graph.digest] = modelled_ns(graph, self._name, self._request.precision, seconds)
            except DovetailError:
                self._asked[graph.digest] = None
        return self._asked[graph.digest]

    def together(self, graph: Graph, row: BoardRow, taken: Sequence[RewriteRow]) -> RewriteRow:
        """Return what all that were taken do."""
        nodes = tuple(dict.fromkeys(node for found in taken for node in found.nodes))
        return RewriteRow(
            name=TOGETHER,
            what="all that were taken, one upon the other",
            nodes=nodes,
            kinds=kinds_of(self.graph, nodes),
            refused_before=_refused(self.graph, nodes, self._target, self._low),
            refused_after=_refused(graph, _places(self.graph, graph, nodes), self._target, self._low),
            before=self.before,
            after=row,
            float_error=self.error(graph),
            outcome=TAKEN,
            simulated=taken[-1].simulated,
        )


def _places(before: Graph, after: Graph, nodes: Sequence[str]) -> list[str]:
    """Return the nodes that stand for what some nodes stood for."""
    origins = {origin for name in nodes for origin in before.node(name).origin}
    return [node.name for node in after.nodes if origins & set(node.origin)]


def _refused(graph: Graph, nodes: Sequence[str], target: Target, low: Precision) -> int:
    return sum(not target.verdict(graph, graph.node(name), low).supported for name in nodes)


def _cost(row: BoardRow) -> tuple[float, int]:
    return (math.inf if row.latency_ns is None else row.latency_ns, len(row.away))


def _is_dearer(row: SimulatedRow) -> bool:
    """Tell whether the vendor's model, where it was asked, sees no saving."""
    if row.before_ns is None or row.after_ns is None:
        return False
    return row.after_ns >= (1 - _WORTH) * row.before_ns


def _saves(before: BoardRow, after: BoardRow) -> bool:
    """Tell whether the latency falls by enough; where it is not known, whether less leaves."""
    if before.latency_ns is None or after.latency_ns is None:
        return after.latency_ns is not None or len(after.away) < len(before.away)
    return after.latency_ns < (1 - _WORTH) * before.latency_ns
