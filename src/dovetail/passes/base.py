"""What a pass is: a frozen dataclass whose fields are its options, called with a Graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar, runtime_checkable

from dovetail.errors import GraphError, PassError
from dovetail.ir import Graph


@runtime_checkable
class Pass(Protocol):
    """Turn a Graph into one that computes the same; `name` is how people ask for it."""

    @property
    def name(self) -> str:
        """Return the registered name."""

    def __call__(self, graph: Graph) -> Graph:
        """Return the new graph; raise PassError when the work cannot be done."""


PassType = TypeVar("PassType", bound=type)
_REGISTRY: dict[str, Callable[[], Pass]] = {}


def register_pass(kind: PassType) -> PassType:
    """Make a pass known under its name; used as a decorator."""
    _REGISTRY[kind().name] = kind
    return kind


def pass_names() -> tuple[str, ...]:
    """Return the names of the known passes."""
    return tuple(sorted(_REGISTRY))


def make_pass(name: str) -> Pass:
    """Return the pass of that name with its default options; raise PassError when there is none."""
    if name not in _REGISTRY:
        raise PassError("no such pass.", pass_name=name, hint=f"Known: {', '.join(pass_names())}.")
    return _REGISTRY[name]()


def run_passes(graph: Graph, passes: Iterable[Pass]) -> Graph:
    """Apply passes in order; raise PassError naming the one that breaks the graph."""
    for step in passes:
        try:
            graph = step(graph)
        except GraphError as error:
            raise PassError(error.message, pass_name=step.name) from error
    return graph
