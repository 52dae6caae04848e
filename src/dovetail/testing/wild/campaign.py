"""Seeded sequences of wild cells: an operator or a graph at a precision on a part."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from dovetail.ir.precision import Precision
from dovetail.testing.probing import QUICK
from dovetail.testing.wild.case import WildCase, case_of
from dovetail.testing.wild.chains import wild_chain
from dovetail.testing.wild.graphs import wild_graph
from dovetail.testing.wild.merges import wild_merge
from dovetail.testing.wild.table import WILD_OPERATORS, wild_operator
from dovetail.testing.wild.trios import wild_trio

_BOUNDARIES = frozenset({"DequantizeLinear", "QuantizeLinear", "Requantize"})
"""Of a float graph they are Identities; quantising one puts them where they belong."""
OPERATORS = tuple(op for op in WILD_OPERATORS if op not in _BOUNDARIES)
_LARGEST_SEED = 2**32
_RAISED = 0.5


class WildKind(Enum):
    """What is drawn."""

    OPERATOR = "operator"
    GRAPH = "graph"
    MIXTURE = "mixture"
    """A graph of which about half of the nodes are at 16 bits and the others at 8, as a search places them."""
    TRIO = "trio"
    """An operator between others: what makes its inputs, and what reads its result."""
    MERGE = "merge"
    """An operator of two tensors: what makes either of them, and what reads the result."""
    CHAIN = "chain"
    """Operators that only move values, one behind another, up to an output."""


@dataclass(frozen=True, slots=True)
class WildCell:
    """One case at one precision on one part."""

    kind: WildKind
    target: str
    seed: int
    index: int
    precisions: tuple[Precision, ...] = ()
    """What the precision is drawn from; all integer ones where empty."""

    @property
    def name(self) -> str:
        """Return what tells it from all others."""
        return f"{self.kind.value}-{self.target.removeprefix('vsi:')}-{self.seed}-{self.index}"

    def draw(self) -> tuple[Precision, WildCase]:
        """Return the precision and the case; the same for the same cell."""
        rng = np.random.default_rng((zlib.crc32(self.target.encode()), len(self.kind.value), self.seed, self.index))
        usual = tuple(item for item in QUICK if item is not Precision.I16 or self.kind is not WildKind.MIXTURE)
        choice = tuple(item for item in self.precisions if item in usual) or usual
        # Of all that are usual: fewer to choose from change nothing of the case.
        precision = choice[int(rng.integers(len(usual))) % len(choice)]
        while True:
            seed = int(rng.integers(_LARGEST_SEED))
            if self.kind is WildKind.GRAPH:
                return precision, wild_graph(seed)
            if self.kind is WildKind.MERGE:
                return precision, wild_merge(seed)
            if self.kind is WildKind.CHAIN:
                return precision, wild_chain(seed)
            if self.kind is WildKind.MIXTURE:
                case = wild_graph(seed)
                names = [node.name for node in case.graph.nodes]
                return precision, replace(case, raised=frozenset(name for name in names if rng.random() < _RAISED))
            if self.kind is WildKind.TRIO:
                trio = wild_trio(OPERATORS[int(rng.integers(len(OPERATORS)))], seed)
                if trio is not None:
                    return precision, trio
                continue
            case = case_of(wild_operator(OPERATORS[int(rng.integers(len(OPERATORS)))], seed), seed)
            # An exponential of 10,000 has no range.
            if all(np.isfinite((item.low, item.high)).all() for item in case.ranges.values()):
                return precision, case
