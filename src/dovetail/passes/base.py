"""What a pass is: a frozen dataclass whose fields are its options, called with a Graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dovetail.errors import GraphError, PassError
from dovetail.ir import Graph


class Pass(Protocol):
    """Turn a Graph into one that computes the same; the very same object where there is nothing to do."""

    @property
    def name(self) -> str:
        """Return the name that errors give."""

    def __call__(self, graph: Graph) -> Graph:
        """Return the new graph; raise PassError when the work cannot be done."""


def run_passes(graph: Graph, passes: Iterable[Pass]) -> Graph:
    """Apply passes in order; raise PassError naming the one that breaks the graph."""
    for step in passes:
        try:
            graph = step(graph)
        except GraphError as error:
            raise PassError(error.message, pass_name=step.name) from error
    return graph
