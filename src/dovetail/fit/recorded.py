"""What VeriSilicon's compiler and simulator were seen to make of rewrites, on networks that were drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from dovetail.ir import Graph, Node

_FILE = "simulated.json"
"""Written by benchmarks/rewrites_simulated.py."""


_RECURRENT, _STATE = frozenset({"LSTM", "GRU", "RNN"}), 5


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """How many drawn networks with one rewrite of one operator did what on one board."""

    rewrite: str
    kind: str
    """The operator, with what matters to the vendor's compiler."""
    target: str
    precision: str
    equal: int
    """To the last bit as our exact simulation has it."""
    nearly: int
    """Not to the last bit, and no farther from float."""
    differs: int
    """Other answers."""
    fails: int
    """No binary, or the simulator does not run it."""

    @property
    def networks(self) -> int:
        """Return how many there were."""
        return self.equal + self.nearly + self.differs + self.fails

    @property
    def mostly_fails(self) -> bool:
        """Tell whether fewer than half of them ran."""
        return 2 * (self.equal + self.nearly) < self.networks

    @property
    def text(self) -> str:
        """Return it in words."""
        found = (
            (self.nearly, "not to the last bit"),
            (self.differs, "gave other answers"),
            (self.fails, "did not run"),
        )
        worse = ", ".join(f"{count} {what}" for count, what in found if count)
        return (
            f"of {self.networks} drawn networks with {self.kind} on {self.target} at {self.precision}, "
            f"{self.equal} ran to the last bit" + (f", {worse}" if worse else "")
        )


def recorded_runs(rewrite: str, kinds: Sequence[str], target: str, precision: str) -> tuple[RecordedRuns, ...]:
    """Return what is recorded of a rewrite of operators on a board; nothing where nothing was measured."""
    return tuple(
        run
        for run in all_recorded()
        if (run.rewrite, run.target, run.precision) == (rewrite, target, precision) and run.kind in kinds
    )


def kinds_of(graph: Graph, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return the operators of nodes as the record has them: a state that comes in is another matter than none."""
    return tuple(dict.fromkeys(_kind(graph, graph.node(name)) for name in nodes))


def _kind(graph: Graph, node: Node) -> str:
    state = node.inputs[_STATE] if node.op in _RECURRENT and len(node.inputs) > _STATE else ""
    return f"{node.op} with a state" if state and state not in graph.constants else node.op


@cache
def all_recorded() -> tuple[RecordedRuns, ...]:
    """Return all that is recorded."""
    document = json.loads(files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))
    return tuple(RecordedRuns(**row) for row in document["rows"])
