"""Pieces: the nodes that a backend's compiler computes as one, and where a graph can be cut without parting them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class CompiledPieces:
    """What a backend makes of a graph for one target, in an order in which the pieces can run."""

    nodes: tuple[tuple[str, ...], ...]
    """Names of the nodes of each piece; every node is in exactly one."""
    keeps: Callable[[Graph], bool]
    """Tells whether some of the pieces, as a graph of their own, are compiled as they are inside the whole."""
